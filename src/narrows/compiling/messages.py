"""The messages between a process and the child that reads definitions for it. Each is a length and as many bytes.

The parent sends what all definitions have in common once (`Setup`), then one definition at a time, as JSON. The child
answers with three parts: whether it stays for another definition, a line of JSON, and the arrays' bytes. No other kind
of object is ever made from bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from narrows import errors
from narrows.compiling.definition import FlatGrammar, Report, format_from
from narrows.errors import NarrowsError
from narrows.grammar.flatten import TokenFacts
from narrows.limits import Limits

if TYPE_CHECKING:
    from narrows.formats import Format

_CLASSES = {name: cls for name, cls in vars(errors).items() if isinstance(cls, type) and issubclass(cls, NarrowsError)}
_ERROR_FIELDS = ("code", "pointer", "line", "column", "offset", "limit", "hint")


MORE, LAST = b"+", b"."
"""The first byte of an answer: whether the child stays or ends after it."""


class ReadingFailed(RuntimeError):
    """The child met an exception that is a bug; the message is its traceback."""


def send(pipe: IO[bytes], data: bytes) -> None:
    pipe.write(len(data).to_bytes(8, "big") + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes | None:
    """The next message. None where the other side has ended, even in the middle of a message."""
    head = pipe.read(8)
    if len(head) < 8:
        return None
    size = int.from_bytes(head, "big")
    data = pipe.read(size)
    return data if len(data) == size else None


@dataclass(frozen=True, slots=True)
class Setup:
    """What all definitions of one server have in common."""

    fmt: Format
    facts: TokenFacts
    limits: Limits

    def to_bytes(self) -> bytes:
        """As JSON. Usable ids are written as runs, since a vocabulary has few holes."""
        usable = np.fromiter(self.facts.usable, dtype=np.int64, count=len(self.facts.usable))
        ends = np.flatnonzero(np.diff(usable) != 1) + 1
        return json.dumps(
            {
                "format": [self.fmt.source, self.fmt.name],
                "special": dict(self.facts.special),
                "end_tokens": list(self.facts.end_tokens),
                "usable": [[int(run[0]), int(run[-1]) + 1] for run in np.split(usable, ends) if len(run)],
                "limits": asdict(self.limits),
            }
        ).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Setup:
        fields = json.loads(data)
        usable = dict.fromkeys(i for first, end in fields["usable"] for i in range(first, end))
        facts = TokenFacts(fields["special"], tuple(fields["end_tokens"]), usable)
        return cls(format_from(*fields["format"]), facts, Limits(**fields["limits"]))


def of_grammar(flat: FlatGrammar) -> bytes:
    arrays = {name: value for name, value in flat.arrays.items() if isinstance(value, np.ndarray)}
    head = {
        "arrays": [[name, value.dtype.str, len(value)] for name, value in arrays.items()],
        "rest": {name: value for name, value in flat.arrays.items() if name not in arrays},
        "loose": flat.loose,
        "report": None if flat.report is None else [flat.report.entries, flat.report.left_out],
    }
    return b"\n".join((json.dumps(head).encode(), b"".join(value.tobytes() for value in arrays.values())))


def of_error(error: NarrowsError) -> bytes:
    kind = next(c.__name__ for c in type(error).__mro__ if c.__name__ in _CLASSES)
    fields = {name: getattr(error, name) for name in _ERROR_FIELDS}
    return json.dumps({"error": [kind, error.message, fields]}).encode()


def of_bug(traceback: str) -> bytes:
    return json.dumps({"bug": traceback}).encode()


def grammar_from(data: bytes) -> FlatGrammar:
    """The grammar that the child has read. Raises the error that the child met, or `ReadingFailed`."""
    line, _, rest = data.partition(b"\n")
    head: Mapping[str, Any] = json.loads(line)
    if "error" in head:
        kind, message, fields = head["error"]
        error = _CLASSES[kind](message, **fields)
        error.message, error.hint = message, fields["hint"]  # the child has shortened them; once is enough
        raise error
    if "bug" in head:
        raise ReadingFailed(head["bug"])
    arrays, at = dict(head["rest"]), 0
    for name, kind, count in head["arrays"]:
        arrays[name] = np.frombuffer(rest, dtype=kind, count=count, offset=at) if count else np.zeros(0, kind)
        at += arrays[name].nbytes
    report = head["report"] and Report(tuple(map(tuple, head["report"][0])), head["report"][1])
    return FlatGrammar(arrays, tuple(head["loose"]), report)
