"""The exceptions of narrows.

    NarrowsError                  has a stable code, and may have a place, a limit and a hint
    +-- InputError                an argument of the wrong kind or value (also a ValueError)
    |   +-- GrammarError          a regex, grammar or schema that is invalid, or that no text satisfies
    |   |   +-- UnsupportedError  valid, but has something that narrows does not enforce exactly
    |   +-- VocabularyError       a tokenizer that cannot be turned into token bytes
    |   +-- FormatError           an invalid wire-format description
    |   +-- TokenError            a token id outside the vocabulary (also an IndexError)
    +-- LimitError                a bound of `Limits` was reached
    +-- ConcurrentUseError        one matcher used by two threads at once
    +-- EngineError               a model or its library cannot be loaded or driven

Any other exception that leaves narrows on bad input is a bug. Messages may change between releases; `code` does not.
"""

from __future__ import annotations

from typing import Any, TypeVar

_LONGEST_MESSAGE = 400
"""Most characters of a message, and of a hint. The input that they quote may have any length."""
_LONGEST_POINTER = 1_000
_LONGEST_NAME = 200
"""Most characters of one name inside a JSON pointer."""


def shortened(text: str, most: int = _LONGEST_MESSAGE) -> str:
    """`text` if it has at most `most` characters. Otherwise its two ends with an ellipsis between them: `most` + 1
    characters."""
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail]}…{text[-tail:]}"


def short_pointer(pointer: str) -> str:
    """A JSON pointer for messages and answers. Long names in it, and a long pointer, are cut in the middle."""
    if len(pointer) <= _LONGEST_NAME:
        return pointer
    return shortened("/".join(shortened(name, _LONGEST_NAME) for name in pointer.split("/")), _LONGEST_POINTER)


class NarrowsError(Exception):
    """Base of every error that narrows raises. `str(error)` is one line for people. The attributes are for programs.

    `code` is a word that stays the same between releases; `message` may change. Where it is known, the place: `pointer`
    (a JSON pointer), `line` and `column` (from 1), or `offset` (bytes or characters from 0). `limit` is the field of
    `Limits` that was reached, and `hint` says what to do. What does not apply is None.

    A message may quote input, and is shortened in the middle. `pointer` is not shortened, except in `str(error)` and
    `to_dict()`.
    """

    default_code = "narrows_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        pointer: str | None = None,
        line: int | None = None,
        column: int | None = None,
        offset: int | None = None,
        limit: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.message = shortened(message)
        self.code = code or self.default_code
        self.pointer = pointer
        self.line = line
        self.column = column
        self.offset = offset
        self.limit = limit
        self.hint = None if hint is None else shortened(hint)
        super().__init__(self.message)

    @property
    def where(self) -> str | None:
        """The place in the input, for people: a JSON pointer, line:column or byte offset."""
        parts = []
        if self.pointer is not None:
            parts.append(f"at {short_pointer(self.pointer) or '/'}")
        if self.line is not None:
            parts.append(f"line {self.line}:{self.column if self.column is not None else 1}")
        elif self.offset is not None:
            parts.append(f"offset {self.offset}")
        return ", ".join(parts) or None

    def __str__(self) -> str:
        text = self.message
        if self.where:
            text += f" ({self.where})"
        if self.limit:
            text += f" [limit {self.limit}]"
        if self.hint:
            text += f". {self.hint}"
        return text

    def to_dict(self) -> dict[str, Any]:
        """The fields that are set, for JSON output and HTTP error bodies."""
        named = ("code", "message", "pointer", "line", "column", "offset", "limit", "hint")
        given = {name: value for name in named if (value := getattr(self, name)) is not None}
        if self.pointer is not None:
            given["pointer"] = short_pointer(self.pointer)
        return given


class InputError(NarrowsError, ValueError):
    """An argument has the wrong kind or value."""

    default_code = "invalid_input"


class GrammarError(InputError):
    """A regex, grammar or schema cannot be read, or no text satisfies it (code `unsatisfiable`)."""

    default_code = "grammar_invalid"


class UnsupportedError(GrammarError):
    """The input is valid, but has something that narrows does not enforce exactly. Nothing is silently ignored."""

    default_code = "unsupported"


class VocabularyError(InputError):
    """A tokenizer cannot be turned into one byte string per token id."""

    default_code = "vocabulary_invalid"


class FormatError(InputError):
    """A wire-format description (TOML) is wrong or incomplete."""

    default_code = "format_invalid"


class TokenError(InputError, IndexError):
    """A token id lies outside 0..V-1."""

    default_code = "token_out_of_range"


class LimitError(NarrowsError):
    """A bound of `Limits` was reached. `limit` names the field to raise if the input is trusted."""

    default_code = "limit_reached"


class ConcurrentUseError(NarrowsError, RuntimeError):
    """One matcher was used by two threads at once. Make one matcher per sequence, or fork."""

    default_code = "concurrent_use"


class EngineError(NarrowsError, RuntimeError):
    """A model, or the library that runs it, cannot be loaded or driven."""

    default_code = "engine_failed"


_CORE_CLASSES: dict[str, type[NarrowsError]] = {
    "limit_reached": LimitError,
    "token_out_of_range": TokenError,
    "concurrent_use": ConcurrentUseError,
    "vocabulary_invalid": VocabularyError,
    "unsatisfiable": GrammarError,
    "ir_invalid": GrammarError,
    "rule_missing": GrammarError,
    "repeat_too_large": GrammarError,
}


_Error = TypeVar("_Error", bound=BaseException)


def without_frames(error: _Error) -> _Error:
    """The error, without its traceback and those of its causes.

    An error that is kept after its work has ended must not hold the frames of that work: they hold the objects that
    keep the error. Only Python's collector would find such a cycle, and it does not know how much memory it is."""
    here: BaseException | None = error
    while here is not None and here.__traceback__ is not None:
        here.__traceback__ = None
        here = here.__cause__ or here.__context__
    return error


def from_core(code: str, message: str, limit: str) -> NarrowsError:
    """The exception for an error of the C++ core."""
    hint = f"Raise it with narrows.Limits({limit}=...) if the input is trusted" if limit else None
    return _CORE_CLASSES.get(code, InputError)(message, code=code, limit=limit or None, hint=hint)
