"""The state of one sequence, with the interface of SGLang's BaseGrammarObject.

SGLang's order of calls, in its scheduler's thread:

    step       fill_vocab_mask_batched(rows); apply_vocab_mask on the device; sample; accept_token
    drafts     fill_vocab_mask, accept_token, ... rollback(1) along the tree of drafts; accept_token for what was taken
    the end    is_terminated after an end token; from there on accept_token does nothing
    new        copy() of the object that is kept for the key: a state of its own, at the start of the text

An exception in accept_token ends one request. One in another call would end the server. So what fails while a mask is
filled is kept until the next token is accepted. Until then only end tokens are allowed. While SGLang looks at drafts
(`ahead`), not even accept_token may raise; there the failure ends the look ahead.

Cost: that of narrows.Matcher, and about a microsecond of Python a call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sglang.srt.constrained.base_grammar_backend import BaseGrammarObject, GrammarStats

from narrows import Constraint, Matcher, fill_masks
from narrows.compile_cache import Lease
from narrows.errors import NarrowsError, shortened, without_frames
from narrows.plugins.sglang.masking import rows
from narrows.plugins.sglang.masking.definitions import Definition


class Grammar(BaseGrammarObject):
    """Belongs to one request."""

    def __init__(self, definition: Definition, lease: Lease[Constraint], stats: Any = None) -> None:
        super().__init__()
        self.definition = definition
        self._lease = lease  # keeps the constraint in use while this object lives
        self.matcher: Matcher = lease.value.matcher()
        self.grammar_stats = stats if stats is not None else GrammarStats(dispatch_type=definition.kind)
        self._failed: NarrowsError | None = None
        self._is_ahead = False
        self._past_failure = 0
        """Drafts that were accepted after a failure."""

    def copy(self) -> Grammar:
        """An object at the start of the text, with a state of its own. Cost: a microsecond or two."""
        stats = dataclasses.replace(self.grammar_stats, is_cache_hit=True, tree_traversal_time=[])
        return Grammar(self.definition, self._lease, stats)

    # The sequence.

    def accept_token(self, token: int) -> None:
        """Append this token. After the end it does nothing. Raises ValueError if it does not fit, which makes SGLang
        end this request with an error."""
        if self.is_terminated():
            return
        self.current_token = token
        try:
            if self._failed is None and self.matcher.accept(token):
                return
        except NarrowsError as error:
            self._fail(error)
        if self._failed is not None and self._is_ahead:
            self._past_failure += 1
            return
        raise ValueError(self._why_not(token))

    def rollback(self, k: int) -> None:
        """Take the last k accepted tokens back. Raises ValueError if there are not so many."""
        failed = min(k, self._past_failure)
        self._past_failure -= failed
        try:
            self.matcher.rollback(k - failed)
        except NarrowsError as error:
            raise ValueError(str(error)) from None
        if k > 0:
            self._failed = None

    def is_terminated(self) -> bool:
        """Whether an end token was accepted."""
        return self.matcher.is_finished or self._past_failure > 0

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """While this lasts, what is accepted is a draft, and will be rolled back."""
        self._is_ahead = True
        try:
            yield
        finally:
            self._is_ahead = False

    # Masks.

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> Any:
        """int32[batch_size, ceil(vocab_size / 32)] on the CPU, which allows all."""
        return rows.allocate(vocab_size, batch_size)

    def fill_vocab_mask(self, vocab_mask: Any, idx: int) -> None:
        """Write the mask of the next token into this row. After the end, and where a limit is reached, it allows end
        tokens alone. Never raises an error of narrows."""
        self._fill(rows.words(vocab_mask)[idx])

    @staticmethod
    def fill_vocab_mask_batched(entries: Sequence[Any], vocab_mask: Any) -> None:
        """Write the masks of the next tokens of many sequences. Other rows stay as they are. Rows of narrows' grammars
        are made in one call without the GIL, also those behind reasoning; other objects fill their own."""
        fill_batch(entries, vocab_mask)

    @staticmethod
    def reset_vocab_mask(vocab_mask: Any) -> None:
        """Make a mask that is used again allow all."""
        vocab_mask.fill_(rows.FREE)

    @staticmethod
    def move_vocab_mask(vocab_mask: Any, device: Any) -> Any:
        return rows.move(vocab_mask, device)

    @staticmethod
    def apply_vocab_mask(logits: Any, vocab_mask: Any) -> None:
        """Set the logits of what is not allowed to minus infinity, in place."""
        rows.apply(logits, vocab_mask)

    @property
    def masked(self) -> Grammar | None:
        """The grammar whose mask is this object's mask: itself."""
        return self

    @property
    def is_open(self) -> bool:
        """Whether the mask of the next token is the matcher's."""
        return self._failed is None and not self.is_terminated()

    def _fill(self, row: rows.Words) -> None:
        try:
            if self.is_open:
                self.matcher.fill_mask(row)
                return
        except NarrowsError as error:
            self._fail(error)
        rows.allow_only(row, self._lease.value.vocabulary.eos_ids)

    # Jumping forward. SGLang 0.5.23 has the interface, and does not call it.

    def try_jump_forward(self, tokenizer: Any) -> tuple[list[int], str] | None:
        """([], the text that must come next). None if there is none."""
        try:
            text = _whole_characters(self.matcher.forced_bytes()) if self.is_open else ""
        except NarrowsError as error:
            self._fail(error)
            return None
        return ([], text) if text else None

    def jump_forward_str_state(self, helper: tuple[list[int], str]) -> tuple[str, int]:
        """(the text, -1): the state is the matcher's, so it needs no number."""
        return helper[1], -1

    def jump_and_retokenize(
        self, old_output_ids: Sequence[int], new_output_ids: Sequence[int], next_state: int
    ) -> None:
        """Go from the accepted tokens `old_output_ids` to `new_output_ids`: back to where they differ, and on from
        there. Raises ValueError if one does not fit."""
        same = 0
        for old, new in zip(old_output_ids, new_output_ids, strict=False):
            if old != new:
                break
            same += 1
        if same < len(old_output_ids):
            self.rollback(len(old_output_ids) - same)
        for token in new_output_ids[same:]:
            self.accept_token(token)

    # What went wrong.

    def _fail(self, error: NarrowsError) -> None:
        self._failed = without_frames(error)  # its frames hold this object

    def _why_not(self, token: int) -> str:
        if self._failed is not None:
            return f"The grammar cannot go on: {self._failed}"
        try:
            reason = str(self.matcher.explain(token))
        except NarrowsError as error:
            reason = str(error)
        return f"Tokens not accepted: {token}: {reason}. Key string: {shortened(self.definition.text)}"

    def __repr__(self) -> str:
        return f"<narrows grammar, {self.definition.kind} {shortened(self.definition.text)!r}, {self.matcher!r}>"


def _whole_characters(data: bytes) -> str:
    """The text of the bytes up to the first that is no character of its own: the sequence may stand inside of one."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        return data[: error.start].decode()


def fill_batch(entries: Sequence[Any], vocab_mask: Any) -> None:
    """`Grammar.fill_vocab_mask_batched`."""
    ours: list[tuple[int, Grammar]] = []
    for entry in entries:
        grammar = getattr(entry.grammar, "masked", None)
        if isinstance(grammar, Grammar) and grammar.is_open:
            ours.append((entry.row, grammar))
        else:
            entry.grammar.fill_vocab_mask(vocab_mask, entry.row)
    if not ours:
        return
    view = rows.words(vocab_mask)
    places = [row for row, _ in ours]
    in_a_row = places == list(range(places[0], places[0] + len(places)))
    made = view[places[0] : places[0] + len(places)] if in_a_row else np.empty((len(ours), view.shape[1]), np.int32)
    try:
        fill_masks([grammar.matcher for _, grammar in ours], made)
    except NarrowsError:  # one of them reached a limit: each finds out for itself
        for row, grammar in ours:
            grammar.fill_vocab_mask(vocab_mask, row)
        return
    if not in_a_row:
        view[places] = made
