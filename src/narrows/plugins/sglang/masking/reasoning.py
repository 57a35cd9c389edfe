"""Grammars that begin after the reasoning. SGLang wraps its own backends for that, but not those of plug-ins. So this
wraps narrows' backend in the same classes: with them come the reasoning end token of a request, thinking budgets,
strict thinking, and answers in frames.

Until the reasoning ends the text is free, or filtered by SGLang. Then the grammar begins. The rows of all sequences
behind their reasoning are filled in one call.
"""

from __future__ import annotations

from typing import Any

from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend, ReasonerGrammarObject
from sglang.srt.parser.reasoning_parser import ReasoningParser

from narrows.plugins.sglang.masking.grammar import Grammar, fill_batch


class ReasoningGrammar(ReasonerGrammarObject):
    """SGLang's object, whose rows can be filled in a batch. Belongs to one request."""

    fill_vocab_mask_batched = staticmethod(fill_batch)
    reset_vocab_mask = staticmethod(Grammar.reset_vocab_mask)

    @property
    def masked(self) -> Grammar | None:
        """The grammar whose mask is this object's mask. None while the model thinks, or where SGLang filters more."""
        return self.grammar if self._is_generation() and not self.reasoning_in_grammar else None

    def copy(self) -> ReasoningGrammar:
        return _of_this_kind(super().copy())


class ReasoningBackend(ReasonerGrammarBackend):
    """SGLang's backend around narrows'. It keeps its objects in narrows' bounded cache."""

    def __init__(self, backend: Any, parser: Any, tokenizer: Any, enable_strict_thinking: bool) -> None:
        super().__init__(backend, parser, tokenizer, enable_strict_thinking=enable_strict_thinking)
        self.cache = backend.cache

    def _make_grammar_object(self, grammar: Any, reasoning: bool) -> ReasoningGrammar:
        return _of_this_kind(super()._make_grammar_object(grammar, reasoning))


def behind_reasoning(backend: Any, tokenizer: Any, serving: Any) -> Any:
    """The backend with reasoning before its grammars, if the server has a reasoning parser whose end the tokenizer can
    write. Otherwise the backend itself, as in SGLang."""
    if not serving.reasoning_parser:
        return backend
    parser = ReasoningParser(model_type=serving.reasoning_parser, stream_reasoning=False, tokenizer=tokenizer)
    if not parser.detector.get_think_end_token_ids(tokenizer):
        return backend
    return ReasoningBackend(backend, parser, tokenizer, serving.enable_strict_thinking)


def _of_this_kind(made: Any) -> ReasoningGrammar:
    """SGLang's object as one of ours. SGLang names its class where it makes one."""
    grammar = ReasoningGrammar.__new__(ReasoningGrammar)
    grammar.__dict__.update(made.__dict__)
    return grammar
