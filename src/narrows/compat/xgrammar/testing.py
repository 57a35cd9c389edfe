"""Helpers for tests of grammars, under xgrammar's names. What shows xgrammar's inner forms (its EBNF, its automata) is
not here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from narrows.compat.xgrammar.bitmask import array_of, torch_module
from narrows.compat.xgrammar.compiler import GrammarCompiler
from narrows.compat.xgrammar.exception import CompatError
from narrows.compat.xgrammar.grammar import Grammar
from narrows.compat.xgrammar.matcher import GrammarMatcher
from narrows.compat.xgrammar.tokenizer_info import TokenizerInfo

if TYPE_CHECKING:
    import torch


def _get_matcher_from_grammar_and_tokenizer_info(
    grammar: Grammar | str, tokenizer_info: TokenizerInfo | None = None, **kwargs: Any
) -> GrammarMatcher:
    """A matcher for a grammar or an EBNF text. Without a vocabulary it takes texts alone."""
    compiler = GrammarCompiler(tokenizer_info or TokenizerInfo([]), cache_enabled=False)
    return GrammarMatcher(compiler.compile_grammar(grammar), **kwargs)


def _get_matcher_from_grammar(grammar: Grammar | str, **kwargs: Any) -> GrammarMatcher:
    """A matcher that takes texts alone, and has ended where the text is complete."""
    return _get_matcher_from_grammar_and_tokenizer_info(grammar, terminate_without_stop_token=True, **kwargs)


def _is_grammar_accept_string(
    grammar: Grammar | str,
    input_str: str | bytes,
    *,
    debug_print: bool = False,
    print_time: bool = False,
    require_termination: bool = True,
) -> bool:
    """Whether this is a text of the grammar; without `require_termination`, the beginning of one."""
    matcher = _get_matcher_from_grammar(grammar)
    return matcher.accept_string(input_str) and (matcher.is_terminated() or not require_termination)


def _bits(bitmask: Any, vocab_size: int, index: int) -> NDArray[np.bool_]:
    """bool[vocab_size]: which tokens a row allows."""
    rows = array_of("the bitmask", bitmask, np.int32, (1, 2))
    row = np.ascontiguousarray(rows if rows.ndim == 1 else rows[index])
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")
    if vocab_size > len(bits):
        raise CompatError(f"a row has {len(bits)} bits", code="argument_invalid", pointer="/vocab_size")
    return bits[:vocab_size].astype(bool)


def _get_masked_tokens_from_bitmask(bitmask: Any, vocab_size: int, index: int = 0) -> list[int]:
    """The tokens that are not allowed."""
    return [int(token) for token in np.flatnonzero(~_bits(bitmask, vocab_size, index))]


def _is_single_token_bitmask(bitmask: Any, vocab_size: int, index: int = 0) -> tuple[bool, int]:
    """(whether a single token is allowed, that token or -1)."""
    allowed = np.flatnonzero(_bits(bitmask, vocab_size, index))
    return (True, int(allowed[0])) if len(allowed) == 1 else (False, -1)


def bool_mask_to_bitmask(bool_mask: torch.Tensor) -> torch.Tensor:
    """A bitmask of bool[rows, tokens]. The bits beyond the tokens are set."""
    allowed = bool_mask.cpu().numpy()
    width = -allowed.shape[1] % 32
    padded = np.pad(allowed, ((0, 0), (0, width)), constant_values=True)
    words = np.packbits(padded, axis=1, bitorder="little").view(np.int32)
    tensor: torch.Tensor = torch_module().from_numpy(words).to(bool_mask.device)
    return tensor


def bitmask_to_bool_mask(bit_mask: torch.Tensor, vocab_size: int | None = None) -> torch.Tensor:
    """bool[rows, vocab_size] of a bitmask."""
    rows = array_of("the bitmask", bit_mask, np.int32, (2,))
    size = rows.shape[1] * 32 if vocab_size is None else vocab_size
    bits = np.array([_bits(rows, size, row) for row in range(len(rows))], bool).reshape(len(rows), size)
    tensor: torch.Tensor = torch_module().from_numpy(bits)
    return tensor


def _traverse_draft_tree(
    retrieve_next_token: Any,
    retrieve_next_sibling: Any,
    draft_tokens: Any,
    matcher: GrammarMatcher,
    allocate_token_bitmask: Any,
    time_threshold: float = -1.0,
) -> bool:
    """`GrammarMatcher.traverse_draft_tree`."""
    return matcher.traverse_draft_tree(
        retrieve_next_token, retrieve_next_sibling, draft_tokens, allocate_token_bitmask, time_threshold
    )
