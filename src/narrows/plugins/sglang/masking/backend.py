"""Compiles what requests of SGLang ask for. `backend_for` is what SGLang calls when the server was started with
`--grammar-backend narrows`.

SGLang compiles in its own threads, one task for each request whose key is new, and keeps the result. What cannot be
compiled is an InvalidGrammarObject with narrows' message, which SGLang hands to the client.

The vocabulary is as wide as the model's logits. Its end tokens are those at which SGLang itself stops: those of the
model's config, and the tokenizer's. Cost: 0.1 to 0.5 s at the start, by the number of tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sglang.srt.constrained.base_grammar_backend import BaseGrammarBackend, GrammarStats, InvalidGrammarObject
from sglang.srt.runtime_context import get_serving

import narrows
from narrows import Vocabulary
from narrows.errors import InputError, NarrowsError, shortened
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.plugins.sglang.compat import logger
from narrows.plugins.sglang.masking import rows
from narrows.plugins.sglang.masking.cache import Constraints, Kept
from narrows.plugins.sglang.masking.definitions import Definition, Spelling, additional_by_environment
from narrows.plugins.sglang.masking.grammar import Grammar
from narrows.plugins.sglang.masking.reasoning import behind_reasoning


def backend_for(server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Iterable[int] | int | None) -> Any:
    """The backend for this server, behind SGLang's reasoning if the server has a reasoning parser.

    Raises `VocabularyError` for a tokenizer that cannot be read, and `InputError` for a flag that cannot be kept.
    """
    serving = get_serving()
    backend = Backend(tokenizer, vocab_size, eos_token_ids, spelling=spelling_of(serving))
    return behind_reasoning(backend, tokenizer, serving)


def spelling_of(serving: Any) -> Spelling:
    """How JSON is written under these flags of the server: with whitespace as in `Grammar.from_json_schema`, or, if the
    server disables that, with one space after commas and colons, as xgrammar writes it then."""
    if serving.constrained_json_whitespace_pattern is not None:
        raise InputError(
            "--constrained-json-whitespace-pattern is not supported by the grammar backend narrows",
            code="flag_unsupported",
            hint="Use --constrained-json-max-whitespace-cnt or --constrained-json-disable-any-whitespace",
        )
    if serving.constrained_json_disable_any_whitespace:
        return Spelling("json.dumps", None, additional_by_environment())
    return Spelling("bounded", serving.constrained_json_max_whitespace_cnt, additional_by_environment())


BOUNDED = Spelling()


class Backend(BaseGrammarBackend):
    """Constraints for one tokenizer."""

    def __init__(
        self,
        tokenizer: Any,
        vocab_size: int,
        eos_token_ids: Iterable[int] | int | None = None,
        spelling: Spelling = BOUNDED,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        super().__init__()
        self.vocabulary = Vocabulary.from_transformers(
            tokenizer, eos=_end_tokens(eos_token_ids, tokenizer), size=vocab_size
        )
        self.spelling = spelling
        self.limits = limits
        self._constraints = Constraints(limits)
        self._framing_vocabulary = self.vocabulary
        self.cache = Kept(self._constraints)

    def dispatch_json(self, key_string: str) -> Any:
        """A JSON Schema, or `$$ANY$$` for any JSON object or array."""
        return self._dispatch("json", key_string)

    def dispatch_regex(self, key_string: str) -> Any:
        """A pattern in JavaScript's dialect, which the whole text matches."""
        return self._dispatch("regex", key_string)

    def dispatch_ebnf(self, key_string: str) -> Any:
        """xgrammar's EBNF, BNF, or Lark."""
        return self._dispatch("ebnf", key_string)

    def dispatch_structural_tag(self, key_string: str) -> Any:
        """A structural tag in one of its two forms."""
        return self._dispatch("structural_tag", key_string)

    def _dispatch(self, kind: str, text: str) -> Any:
        definition = Definition(kind, text)
        try:
            lease = self._constraints.lease(
                definition, lambda: definition.grammar(self.spelling, self.limits), self.vocabulary, len(text)
            )
        except NarrowsError as error:
            logger.error("Cannot compile the %s %r: %s", kind, shortened(text), error)
            return InvalidGrammarObject(str(error))
        return Grammar(definition, lease)

    # Answers in a frame: models whose turns are messages of several kinds (Inkling).

    def reserve_framing_tokens(self, token_ids: Sequence[int]) -> None:
        """Let no text hold these tokens in what `compile_framed_grammar` makes. Special tokens never stand in text; so
        these become special there."""
        known = self.vocabulary
        reserved = {f"<reserved {token}>": token for token in token_ids if known.token_bytes(token)}
        if not reserved:
            return
        pieces = [known.token_bytes(token) or None for token in range(known.size)]
        self._framing_vocabulary = Vocabulary(
            pieces, special={**known.special, **reserved}, eos=known.eos_ids, size=known.size
        )

    def compile_framed_grammar(self, grammar: Any, frame: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
        """The grammar inside a frame, which is a structural tag around a format. Raises `NarrowsError`."""
        inner = grammar.definition
        source = inner, json.dumps(frame({}), sort_keys=True)

        def make() -> narrows.Grammar:
            tag = frame(inner.as_format(self.spelling, self.limits))
            return narrows.Grammar.from_structural_tag(tag, **self.spelling.options, limits=self.limits)

        lease = self._constraints.lease(source, make, self._framing_vocabulary, len(inner.text))
        return Grammar(inner, lease, GrammarStats(dispatch_type="structural_tag"))

    # What SGLang asks the backend for, rather than a grammar: while a model thinks there may be none.

    @property
    def is_support_token_filter(self) -> bool:
        """True: thinking budgets and excluded tokens can be enforced."""
        return True

    @staticmethod
    def set_token_filter(
        vocab_mask: Any,
        token_ids: Sequence[int],
        batch_idx: int,
        is_allowed: bool = True,
        reset_vocab_mask: bool = True,
    ) -> None:
        """Allow or forbid these tokens in a row."""
        rows.filter_tokens(vocab_mask, token_ids, batch_idx, is_allowed, reset_vocab_mask)

    @staticmethod
    def allocate_vocab_mask(vocab_size: int, batch_size: int, device: Any) -> Any:
        return rows.allocate(vocab_size, batch_size)

    move_vocab_mask = staticmethod(rows.move)
    apply_vocab_mask = staticmethod(rows.apply)


def _end_tokens(eos_token_ids: Iterable[int] | int | None, tokenizer: Any) -> list[int] | None:
    """None: the vocabulary finds them, as SGLang leaves it to its other backends."""
    if not eos_token_ids and eos_token_ids != 0:
        return None
    ends = [eos_token_ids] if isinstance(eos_token_ids, int) else list(eos_token_ids)
    own = getattr(tokenizer, "eos_token_id", None)
    return sorted({*ends, *([own] if isinstance(own, int) else [])})
