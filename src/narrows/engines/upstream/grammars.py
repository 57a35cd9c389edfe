"""The grammars of constraints, as the upstream takes them. They live as long as their constraints."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from narrows.engines.upstream.servers import Server
from narrows.errors import UnsupportedError
from narrows.grammar.export import NO_NAMES, Written, write
from narrows.grammar.flatten import flatten
from narrows.limits import Limits

if TYPE_CHECKING:
    from narrows.constraint import Constraint

_HINT = (
    "With --upstream-checked narrows hands over a looser grammar, or none, and ends an answer that leaves the grammar"
)


class Grammars:
    """`checked`: take what cannot be handed over exactly, too. Thread-safe."""

    def __init__(self, server: Server, checked: bool, limits: Limits) -> None:
        self._server = server
        self._checked = checked
        self._limits = limits
        self._written: weakref.WeakKeyDictionary[Constraint, Written | None] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    @property
    def described(self) -> str:
        """How answers are held to a grammar, for logs."""
        if self._server.dialect is None:
            return "checked, not enforced" if self._checked else "refused"
        return "enforced where possible, checked" if self._checked else "enforced and checked"

    def take(self, constraint: Constraint, arrays: Mapping[str, Any]) -> int:
        """Write a grammar. Returns its size in bytes. Raises what `write` raises, and UnsupportedError
        `grammar_not_handed_over` for an upstream that takes none."""
        written = self._write(arrays)
        with self._lock:
            self._written[constraint] = written
        return len(written.text) if written is not None else 0

    def of(self, constraint: Constraint | None) -> Written | None:
        """What the upstream gets for a constraint. None where it gets nothing."""
        if constraint is None:
            return None
        with self._lock:
            if constraint in self._written:
                return self._written[constraint]
        if constraint.grammar is None:
            raise UnsupportedError(
                "the constraint was assembled from arrays, without its grammar",
                code="grammar_not_handed_over",
                hint="Compile it with engine.vocabulary.compile, or give its arrays to engine.take_grammar",
            )
        vocabulary = self._server.vocabulary
        self.take(constraint, flatten(constraint.grammar.module, vocabulary.facts, self._limits))
        return self.of(constraint)

    def _write(self, arrays: Mapping[str, Any]) -> Written | None:
        server = self._server
        if server.dialect is None:
            if self._checked:
                return None
            raise UnsupportedError(
                f"this upstream ({server.kind}) takes no grammar, so nothing would hold its answer to one",
                code="grammar_not_handed_over",
                hint=_HINT,
            )
        vocabulary = server.vocabulary
        try:
            return write(
                arrays,
                server.dialect,
                end_tokens=() if server.knows_end_tokens else vocabulary.eos_ids,
                names=vocabulary.special if server.names_are_text else NO_NAMES,
                loose=self._checked,
                limits=self._limits,
            )
        except UnsupportedError as error:
            if self._checked:
                return None
            error.hint = _HINT
            raise
