"""The interface of a front end: it reads one language that a grammar can be written in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from narrows.arguments import Kind
from narrows.errors import InputError
from narrows.grammar import ir


@dataclass(frozen=True, slots=True)
class FrontEnd:
    """Reads one language. Every interface of narrows offers it by its name."""

    name: str
    """The language's name in requests, commands and `Grammar.from_language`."""
    takes: Kind
    """The types that a source can have."""
    read: Callable[..., tuple[ir.Module, Mapping[str, Any]]]
    """`read(source, work, **options)`: the rules, and a report as `Grammar.report` has it. Raises GrammarError,
    UnsupportedError, InputError and LimitError."""
    options: tuple[str, ...] = ()
    """Names of the options that `read` takes. Their values are str."""
    written_as_json: bool = False
    """A source is not a str. Where text is needed (a file, a field that holds text), it is written as JSON."""
    one_line: bool = False
    """In a file, the source is one line. The line break at its end is not part of the source."""

    def check_options(self, options: Mapping[str, object]) -> None:
        """Raises InputError, code `invalid_option`, for an option that this language does not have."""
        for name in options:
            if name not in self.options:
                known = f"It has {', '.join(self.options)}" if self.options else "It has none"
                raise InputError(
                    f"the language {self.name} has no option {name[:64]!r}", code="invalid_option", hint=known
                )

    def of_those(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options that this language has, without the others."""
        return {name: options[name] for name in self.options if name in options}

    def to_text(self, source: Any) -> str:
        """The source as text: itself, or as JSON."""
        return source if isinstance(source, str) else json.dumps(source)

    def from_text(self, text: str) -> Any:
        """The source that was written as this text. Raises InputError, code `json_invalid`."""
        if not self.written_as_json:
            return text
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"this is not valid JSON: {error}", code="json_invalid") from None
