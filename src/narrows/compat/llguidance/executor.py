"""`LLExecutor`: the masks of many matchers at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from narrows.compat.llguidance import misuse
from narrows.compat.llguidance.matcher import LLMatcher
from narrows.compat.llguidance.memory import rows_at
from narrows.compat.llguidance.parser import Mask
from narrows.constraint import fill_masks
from narrows.errors import InputError

_TARGET = "Expecting (LLMatcher, int) tuple"
_DRAFT_TARGET = "Expecting (LLMatcher, int, List[int]) tuple"


class LLExecutor:
    """num_threads: how many threads compute masks. None: several only where there are many matchers, as
    `narrows.fill_masks` does, since a mask that is known costs a microsecond."""

    def __init__(self, num_threads: int | None = None) -> None:
        self._threads = None if num_threads is None else max(misuse.count("num_threads", num_threads), 1)

    def unsafe_compute_mask_ptr(
        self,
        interpreters: Sequence[tuple[LLMatcher, int]],
        trg_pointer: int,
        one_mask_bytes: int,
        trg_batch_size: int,
    ) -> None:
        """Writes each matcher's mask at its index of the memory at an address, which has `trg_batch_size` masks."""
        items = _items(interpreters, 2, _TARGET, "No interpreters")
        rows = _rows(items, trg_pointer, one_mask_bytes, trg_batch_size)
        self.fill(items, rows)

    def unsafe_compute_mask_ptr_with_draft_token(
        self,
        interpreters: Sequence[tuple[LLMatcher, int, Sequence[int]]],
        trg_pointer: int,
        one_mask_bytes: int,
        trg_batch_size: int,
    ) -> None:
        """The same, and after each mask those along the draft tokens, as long as these fit. Rows after that are left
        as they are."""
        items = _items(interpreters, 3, _DRAFT_TARGET, "No interpreters")
        drafts = [misuse.token_ids("draft_tokens", item[2]) for item in items]
        if not all(drafts):
            raise InputError("Draft tokens must not be empty", code="draft_empty")
        rows = _rows(items, trg_pointer, one_mask_bytes, trg_batch_size)
        for item, draft in zip(items, drafts, strict=True):
            if item[1] + len(draft) >= trg_batch_size:
                raise InputError("Target index out of bounds", code="mask_invalid")
        for item, draft in zip(items, drafts, strict=True):
            item[0]._fill_along(rows[item[1] : item[1] + len(draft) + 1], draft)

    def consume_token_par(self, matchers: Sequence[tuple[LLMatcher, int]]) -> list[bool]:
        """Whether each matcher took its token. One after the other: a token costs microseconds."""
        items = _items(matchers, 2, _TARGET, "No matchers")
        tokens = [misuse.count("token", item[1]) for item in items]
        return [item[0].consume_token(token) for item, token in zip(items, tokens, strict=True)]

    def fill(self, items: Sequence[Any], rows: Mask) -> None:
        """The masks of (matcher, index) pairs. What is neither over nor forced is made at once, without the GIL."""
        plain = [item for item in items if item[0]._is_plain()]
        for item in items:
            if not item[0]._is_plain():
                item[0]._fill(rows[item[1]])
        if len(plain) == 1:
            plain[0][0]._fill(rows[plain[0][1]])
        elif plain:
            made = np.empty((len(plain), rows.shape[1]), np.int32)
            fill_masks([item[0]._parser.matcher for item in plain], made, self._threads)
            for (matcher, index), row in zip(plain, made, strict=True):
                rows[index] = row
                matcher._finish(rows[index])


def _items(given: Any, size: int, wanted: str, empty: str) -> list[Any]:
    if not isinstance(given, (list, tuple)):
        raise misuse.wrong_type("interpreters", "a list", given)
    if not given:
        raise InputError(empty, code="matchers_empty")
    for item in given:
        if not isinstance(item, tuple):
            raise misuse.WrongTypeError(f"'{type(item).__name__}' object is not an instance of 'tuple'")
        if len(item) != size:
            raise InputError(wanted, code="matchers_invalid")
        if not isinstance(item[0], LLMatcher):
            raise misuse.WrongTypeError(f"'{type(item[0]).__name__}' object is not an instance of 'LLMatcher'")
        misuse.count("index", item[1])
    if len({id(item[0]) for item in given}) < len(given):
        raise misuse.already_borrowed()
    return list(given)


def _rows(items: Sequence[Any], pointer: int, row_bytes: int, count: int) -> Mask:
    for item in items:
        if item[1] >= count:
            raise InputError("Target index out of bounds", code="mask_invalid")
    if len({item[0]._words for item in items}) > 1:
        raise InputError("Invalid buffer size: the matchers have vocabularies of different sizes", code="mask_invalid")
    return rows_at(pointer, row_bytes, count, items[0][0]._words)
