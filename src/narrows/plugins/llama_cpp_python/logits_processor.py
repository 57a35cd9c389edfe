"""Holds llama-cpp-python's `Llama` to a grammar: a logits processor.

    llm = llama_cpp.Llama("model.gguf")
    llm("A person as JSON: ", logits_processor=LogitsProcessor(llm, narrows.Grammar.from_json_schema(schema)))

Cost of a token: one mask (microseconds, once it is known), and a pass over the logits.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from narrows.constraint import Constraint
from narrows.errors import EngineError, InputError, without_frames
from narrows.grammar.grammar import Grammar
from narrows.plugins.llama_cpp_python.model import check_version, compiled, end_tokens, lost_tokens, vocabulary_of
from narrows.plugins.llama_cpp_python.position import Ids, Position

Logits = NDArray[np.single]


class LogitsProcessor:
    """For any number of generations of one `Llama`, one after the other; each begins at the start of the grammar.

    It is also the list of itself. `logits_processor=LogitsProcessorList([processor])` works, but together with
    `logit_bias` it loses all processors: llama-cpp-python uses the result of `list.extend`, which is None.
    `logits_processor=processor` is right with `logit_bias`, too.

    An exception in a logits processor does not reach the caller, because llama.cpp stands between. So where the
    constraint cannot be kept any more, only the end of the text is allowed from there on, the exception is printed, and
    `error` keeps it until the next generation begins. `stopping_criteria=processor.check` raises it.
    """

    def __init__(self, llm: Any, constraint: Constraint | Grammar, *, readable: bool = True) -> None:
        """`llm`: a `llama_cpp.Llama`. `constraint`: of its vocabulary (`vocabulary_of(llm)`), or a grammar, which is
        compiled for it. `readable`: allow no token that `Llama.detokenize` leaves out; what such a token says can be
        said with shorter ones. False is for callers that read the tokens themselves.

        Raises InputError: `llama_cpp_python_unsupported`, `vocabulary_mismatch` (the constraint is for another model),
        and what compiling raises.
        """
        check_version(llm)
        if isinstance(constraint, Grammar):
            constraint = compiled(vocabulary_of(llm), constraint)
        elif not isinstance(constraint, Constraint):
            raise InputError(
                f"constraint must be a narrows.Constraint or a narrows.Grammar, not {type(constraint).__name__}"
            )
        size, ends = constraint.vocabulary.size, constraint.vocabulary.eos_ids
        self._ends = sorted(set(ends) & set(end_tokens(llm)))
        if size > llm.n_vocab() or not self._ends:
            raise InputError(
                "the constraint's vocabulary is not that of this model",
                code="vocabulary_mismatch",
                hint="Compile it for narrows.plugins.llama_cpp_python.vocabulary_of(llm)",
            )
        self._llm = weakref.ref(llm)  # the Llama holds its processors
        self._size = size
        self._lost = np.array(lost_tokens(llm, constraint.vocabulary) if readable else (), dtype=np.intp)
        self._words = np.zeros((size + 31) // 32, dtype=np.int32)
        self._position = Position(constraint)
        self._sampler: weakref.ref[Any] | None = None
        self.error: BaseException | None = None
        """Why the last generation could not be held to the constraint."""

    def __call__(self, input_ids: Ids, logits: Logits) -> Logits:
        """Writes minus infinity into `logits` for each token that is not allowed. Logits beyond the vocabulary belong
        to no token. After the end of the text only end tokens are allowed."""
        known = self.error
        self.apply(input_ids, logits)
        if self.error is not None and self.error is not known:
            raise self.error
        return logits

    def apply(self, input_ids: Ids, logits: Logits) -> Logits:
        """The same, but raises nothing: `error` says what went wrong."""
        try:
            self._follow(input_ids)
            if self.error is None and not self._position.matcher.is_finished:
                self._mask(logits)
                return logits
        except BaseException as error:  # Ctrl-C, too: llama.cpp would go on with logits that are not masked
            self.error = without_frames(error)
        allowed = logits[self._ends]
        logits.fill(-np.inf)
        logits[self._ends] = np.maximum(allowed, _LEAST)
        return logits

    def check(self, input_ids: Ids, logits: Logits) -> bool:
        """As one of `stopping_criteria`: raises `error`, if there is one. False."""
        if self.error is not None:
            raise self.error
        return False

    def __iter__(self) -> Iterator[LogitsProcessor]:
        """As the list of itself."""
        yield self

    def extend(self, processors: Iterable[Any]) -> list[Any]:
        """The processors that llama-cpp-python adds (those of `logit_bias`), and then this one."""
        return [*processors, self]

    def _follow(self, ids: Ids) -> None:
        """Each generation makes a sampler of its own. That is how a new one is known."""
        llm = self._llm()
        sampler = llm._sampler if llm is not None else None
        if sampler is None:
            raise EngineError("the Llama is closed, or another one asks", code="tokens_disagree")
        if self._sampler is None or self._sampler() is not sampler:
            self._sampler = weakref.ref(sampler)
            self.error = None
            self._position.begin(ids)
        elif self.error is None:
            self._position.go_on(ids)

    def _mask(self, logits: Logits) -> None:
        self._position.matcher.fill_mask(self._words)
        if not self._words.any():
            raise EngineError("no token of this model can go on here", code="not_spellable")
        refused = np.unpackbits((~self._words).view(np.uint8), count=self._size, bitorder="little").view(np.bool_)
        np.copyto(logits[: self._size], -np.inf, where=refused)
        logits[self._size :] = -np.inf
        logits[self._lost] = -np.inf
        if not logits.max() > -np.inf:  # a sampler would take any token then, such as one that ends the text
            raise EngineError(
                "another logits processor has forbidden all that the constraint allows", code="tokens_disagree"
            )


_LEAST = np.single(-1e30)
"""An end token may have been forbidden by another processor: then it has this logit."""
