"""A logits processor for `transformers`' `generate`, with the interface of xgrammar's.

    processor = xgrammar.contrib.hf.LogitsProcessor(compiled_grammar)
    model.generate(**inputs, logits_processor=[processor])

As there: for one call of `generate`, and without beams, which put rows into another order. For these, and for drafts,
use `narrows.plugins.transformers.LogitsProcessor` (docs/transformers.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import transformers

from narrows.compat.xgrammar.batch import BatchGrammarMatcher
from narrows.compat.xgrammar.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace
from narrows.compat.xgrammar.compiler import CompiledGrammar
from narrows.compat.xgrammar.exception import CompatError
from narrows.compat.xgrammar.matcher import GrammarMatcher


class LogitsProcessor(transformers.LogitsProcessor):  # type: ignore[misc]
    """Make one for each call of `generate`."""

    def __init__(self, compiled_grammar: CompiledGrammar | Sequence[CompiledGrammar]) -> None:
        """One grammar for all rows, or a list with one for each."""
        given = [compiled_grammar] if isinstance(compiled_grammar, CompiledGrammar) else list(compiled_grammar)
        if not given:
            raise CompatError("there is no grammar", code="argument_invalid", pointer="/compiled_grammar")
        self.compiled_grammars = given
        self.full_vocab_size = given[0].tokenizer_info.vocab_size
        self.matchers: list[GrammarMatcher] = []
        self.token_bitmask: Any = None
        self.batch_size = 0
        self.prefilled = False
        self._batch = BatchGrammarMatcher()

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """The scores, with minus infinity for each token that is not allowed. A row that has ended is left as it is.

        Raises CompatError `argument_invalid` for another number of rows, and `token_rejected` for a token that no mask
        of this processor has allowed.
        """
        if not self.matchers:
            self._begin(input_ids.shape[0])
        if input_ids.shape[0] != self.batch_size:
            raise CompatError(
                f"there are {input_ids.shape[0]} rows, and there were {self.batch_size}", code="argument_invalid"
            )
        if self.prefilled:
            self._accept(input_ids[:, -1].tolist())
        self.prefilled = True
        open_rows = [row for row, matcher in enumerate(self.matchers) if not matcher.is_terminated()]
        self._batch.batch_fill_next_token_bitmask(
            [self.matchers[row] for row in open_rows], self.token_bitmask, open_rows
        )
        apply_token_bitmask_inplace(scores, self.token_bitmask.to(scores.device), indices=open_rows)
        return scores

    def _begin(self, rows: int) -> None:
        grammars = self.compiled_grammars * rows if len(self.compiled_grammars) == 1 else self.compiled_grammars
        if len(grammars) != rows:
            raise CompatError(f"there are {len(grammars)} grammars for {rows} rows", code="argument_invalid")
        self.batch_size = rows
        self.matchers = [GrammarMatcher(grammar) for grammar in grammars]
        self.token_bitmask = allocate_token_bitmask(rows, self.full_vocab_size)

    def _accept(self, tokens: list[int]) -> None:
        for row, (matcher, token) in enumerate(zip(self.matchers, tokens, strict=True)):
            if not matcher.is_terminated() and not matcher.accept_token(token):
                raise CompatError(
                    f"token {token} of row {row} does not fit its grammar",
                    code="token_rejected",
                    hint="Make a new processor for each call. Beams and drafts need "
                    "narrows.plugins.transformers.LogitsProcessor",
                )
