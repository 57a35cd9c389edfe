"""The compiled grammars of one server.

SGLang keeps an object for each key that it has seen, without a bound, and gives every request a copy of it. `Kept`
takes the place of SGLang's dictionary and bounds it: in number (`Limits.grammar_cache_entries`), and by the bytes of
the constraints that its objects hold (`grammar_cache_bytes`). What was used longest ago goes first. A request that is
running keeps its constraint. Errors are kept as well, as in SGLang: they are objects without a constraint.

`Constraints` compiles. Threads that want the same definition wait for one compilation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from narrows import Constraint, Grammar, Vocabulary
from narrows.compile_cache import CompileCache, Lease
from narrows.errors import GrammarError
from narrows.grammar.flatten import flatten
from narrows.limits import DEFAULT_LIMITS, Limits


class Constraints:
    """The constraints of one vocabulary, by what they were made from. Thread-safe."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self._kept: CompileCache[Any, Constraint] = CompileCache(lambda constraint: constraint.bytes, limits)

    @property
    def bytes_held(self) -> int:
        """Bytes of the constraints, and of the texts that they were made from."""
        return self._kept.bytes_held

    def lease(
        self, source: Any, make: Callable[[], Grammar], vocabulary: Vocabulary, overhead: int = 0
    ) -> Lease[Constraint]:
        """The constraint of this source, in use while the lease lives. Its first mask has been made once, within the
        limits. Blocks while it is compiled. Raises what reading and compiling raise."""
        return self._kept.get(source, lambda: self._compile(make(), vocabulary), overhead)

    def _compile(self, grammar: Grammar, vocabulary: Vocabulary) -> Constraint:
        arrays = flatten(grammar.module, vocabulary.facts, self.limits, grammar.work)
        constraint = vocabulary.assemble(arrays, self.limits)  # the grammar's Python objects need not be kept
        # The first mask is needed anyway. If it exceeds a limit, the error should come before the answer begins.
        row = np.zeros((vocabulary.size + 31) // 32, dtype=np.int32)
        constraint.matcher().fill_mask(row)
        if not row.any():
            raise GrammarError("no token of this model can begin an allowed text", code="not_spellable")
        return constraint

    def trim(self) -> None:
        """Drop what is beyond the bounds and not in use."""
        self._kept.trim()


class Kept(OrderedDict[Any, Any]):
    """SGLang's objects by key: a dictionary, bounded when an item is set. For the scheduler's thread."""

    def __init__(self, constraints: Constraints) -> None:
        super().__init__()
        self._constraints = constraints

    def get(self, key: Any, default: Any = None) -> Any:
        """The object of this key, which now counts as used."""
        if key not in self:
            return default
        self.move_to_end(key)
        return self[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        limits = self._constraints.limits
        while len(self) > 1 and (
            len(self) > limits.grammar_cache_entries or self._constraints.bytes_held > limits.grammar_cache_bytes
        ):
            self.popitem(last=False)
            self._constraints.trim()
