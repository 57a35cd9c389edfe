"""What the constraints of a `llama_cpp.Llama` are made from: its vocabulary, the tokens that end its texts, and those
that its texts lack. All are made once for each `Llama`, and kept as long as it lives.

Cost: 0.2 s for 49,152 tokens.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

from narrows.constraint import Constraint
from narrows.errors import GrammarError, InputError
from narrows.grammar.grammar import Grammar
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.tokens import CompiledVocabulary
from narrows.vocabulary.vocabulary import Vocabulary

_lock = threading.Lock()
_vocabularies: weakref.WeakKeyDictionary[Any, Vocabulary] = weakref.WeakKeyDictionary()
_ends: weakref.WeakKeyDictionary[Any, tuple[int, ...]] = weakref.WeakKeyDictionary()
_lost: weakref.WeakKeyDictionary[Any, tuple[int, ...]] = weakref.WeakKeyDictionary()


def vocabulary_of(llm: Any) -> Vocabulary:
    """The vocabulary of this `llama_cpp.Llama`, from its GGUF file. It is as wide as the logits. Its end tokens are
    those at which llama.cpp ends a text. Thread-safe. Raises VocabularyError for a tokenizer that cannot be read."""
    ends = end_tokens(llm)
    with _lock:  # held meanwhile: a second thread would only do the same work
        vocabulary = _vocabularies.get(llm)
        if vocabulary is None:
            vocabulary = Vocabulary.from_gguf(llm.model_path, eos=ends or None, size=llm.n_vocab())
            _vocabularies[llm] = vocabulary
        return vocabulary


def end_tokens(llm: Any) -> tuple[int, ...]:
    """The ids at which `create_completion` ends a text. Thread-safe."""
    check_version(llm)
    with _lock:
        ends = _ends.get(llm)
        if ends is None:
            import llama_cpp  # here, so that all else can be tested without it

            vocab = llm._model.vocab
            ends = tuple(token for token in range(llm.n_vocab()) if llama_cpp.llama_vocab_is_eog(vocab, token))
            _ends[llm] = ends
        return ends


def lost_tokens(llm: Any, vocabulary: CompiledVocabulary) -> tuple[int, ...]:
    """The ids that `Llama.detokenize` leaves out of a text: in 0.3.36, tokens of more than 32 bytes. Thread-safe."""
    with _lock:
        lost = _lost.get(llm)
        if lost is None:
            long = (token for token in range(vocabulary.size) if len(vocabulary.token_bytes(token)) >= _LONG)
            lost = tuple(token for token in long if llm.detokenize([token]) != vocabulary.token_bytes(token))
            _lost[llm] = lost
        return lost


_LONG = 32
"""Bytes of tokens that are looked at."""


def check_version(llm: Any) -> None:
    """Raises InputError, code `llama_cpp_python_unsupported`, for a `Llama` that does not have what is needed here."""
    if not hasattr(llm, "_sampler") or not hasattr(getattr(llm, "_model", None), "vocab"):
        raise InputError(
            "this is no llama_cpp.Llama, or one of a version that is not supported",
            code="llama_cpp_python_unsupported",
            hint="Use llama-cpp-python 0.3.36",
        )


def compiled(vocabulary: Vocabulary, grammar: Grammar, limits: Limits = DEFAULT_LIMITS) -> Constraint:
    """The constraint, whose first mask has been made: if that hits a limit or allows nothing, it is said here."""
    constraint = vocabulary.compile(grammar, limits)
    row = np.zeros((vocabulary.size + 31) // 32, dtype=np.int32)
    constraint.matcher().fill_mask(row)
    if not row.any():
        raise GrammarError("no token of this model can begin an allowed text", code="not_spellable")
    return constraint
