"""GrammarMatcher: the position of one sequence in a compiled grammar.

Where xgrammar and narrows differ, this class does what xgrammar does: stop tokens are allowed where the text may end,
after one of them nothing is, and asking for a mask then raises. A stop token is never text.

Cost of a mask: that of `narrows.Matcher.fill_mask`, and some 3 us of Python. Accepting a token: 0.5 us more.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from narrows.compat.xgrammar.bitmask import Words, array_of, rows_of
from narrows.compat.xgrammar.compiler import CompiledGrammar
from narrows.compat.xgrammar.draft_tree import DraftTree
from narrows.compat.xgrammar.exception import CompatError, WrongTypeError, theirs, unsupported
from narrows.errors import NarrowsError
from narrows.grammar.captures import by_their_ends, has_captures


class GrammarMatcher:
    """Belongs to one sequence, and to one thread at a time."""

    __slots__ = ("_by_itself", "_compiled", "_has_stopped", "_matcher", "_stops", "_temperature")

    def __init__(
        self,
        compiled_grammar: CompiledGrammar,
        *,
        override_stop_tokens: int | Sequence[int] | None = None,
        terminate_without_stop_token: bool = False,
        max_rollback_tokens: int = -1,
        default_temperature: float | None = None,
    ) -> None:
        """override_stop_tokens: instead of the vocabulary's. terminate_without_stop_token: the text has ended as soon
        as it is complete, and no stop token is accepted.

        Raises CompatError `argument_invalid`.
        """
        if not isinstance(compiled_grammar, CompiledGrammar):
            raise CompatError(
                f"a CompiledGrammar is wanted, not {type(compiled_grammar).__name__}",
                code="wrong_type",
                hint="Compile the grammar with GrammarCompiler first",
            )
        if max_rollback_tokens != -1:
            warnings.warn("max_rollback_tokens has no effect: rollback has no bound", DeprecationWarning, stacklevel=2)
        info = compiled_grammar.tokenizer_info
        if override_stop_tokens is None:
            self._stops = StopTokens(info.stop_token_ids, info.vocab_size, are_text=False)
        else:
            given = [override_stop_tokens] if isinstance(override_stop_tokens, int) else list(override_stop_tokens)
            self._stops = StopTokens(_checked(given, info.vocab_size), info.vocab_size, are_text=True)
        self._compiled = compiled_grammar
        self._matcher = compiled_grammar._constraint.matcher()
        self._has_stopped = False
        self._by_itself = terminate_without_stop_token
        self._temperature = None if default_temperature is None else float(default_temperature)

    def accept_token(self, token_id: int, *, debug_print: bool = False) -> bool:
        """Append this token. False if it does not fit, is out of range or has no bytes, or after the stop token; then
        nothing changes. `debug_print` prints nothing."""
        try:
            token = index(token_id)
        except TypeError:
            raise WrongTypeError(f"a token is an int, not {type(token_id).__name__}") from None
        if self._has_stopped:
            return False
        if token in self._stops.ids:
            self._has_stopped = not self._by_itself and self._matcher.is_accepting
            return self._has_stopped
        if not 0 <= token < self._stops.size:
            return False
        try:
            return self._matcher.accept(token)
        except NarrowsError as error:
            raise theirs(error) from error

    def accept_string(self, input_str: str | bytes, *, debug_print: bool = False) -> bool:
        """Append this text, as one step for `rollback`. False if it does not fit."""
        if not isinstance(input_str, (str, bytes)):
            raise WrongTypeError(f"a text is a str or bytes, not {type(input_str).__name__}")
        if self._has_stopped:
            return False
        data = input_str.encode("utf-8", "surrogatepass") if isinstance(input_str, str) else input_str
        try:
            return self._matcher.accept_bytes(data)
        except NarrowsError as error:
            raise theirs(error) from error

    def fill_next_token_bitmask(self, bitmask: Any, index: int = 0, *, debug_print: bool = False) -> bool:
        """Write the mask of the next token into a row of the bitmask. Does not change the position.

        bitmask: int32[rows, ceil(vocab_size / 32)] or a single row, in the memory of the CPU.
        Returns False if every token is allowed, so that the mask need not be applied.

        Raises CompatError `bitmask_invalid`, and `matcher_terminated` after the stop token.
        """
        rows = rows_of(bitmask, self._stops.size)
        if not 0 <= index < len(rows):
            raise CompatError(
                f"the bitmask has {len(rows)} rows, and none {index}", code="bitmask_invalid", pointer="/index"
            )
        return self._fill(rows[index])

    def _fill(self, row: Words) -> bool:
        self._check_open("there is no mask")
        target = row if row.flags.c_contiguous else np.empty(len(row), np.int32)
        try:
            self._matcher.fill_mask(target)
        except NarrowsError as error:
            raise theirs(error) from error
        needs_mask = self._complete(target)
        if target is not row:
            row[:] = target
        return needs_mask

    def _complete(self, row: Words) -> bool:
        """Add the stop tokens to a mask of the engine. Returns whether some token is not allowed."""
        self._stops.place(row, self._matcher.is_accepting)
        return self._stops.leaves_out_some(row)

    def _check_open(self, what: str) -> None:
        if self._has_stopped:
            raise CompatError(
                f"{what} after the stop token",
                code="matcher_terminated",
                hint="Ask is_terminated() first, or go back with rollback or reset",
            )

    def traverse_draft_tree(
        self,
        retrieve_next_token: Any,
        retrieve_next_sibling: Any,
        draft_tokens: Any,
        token_bitmask: Any,
        time_threshold: float = -1.0,
        temperatures: Any = None,
    ) -> bool:
        """Write the masks of a tree of drafts. The position does not change.

        retrieve_next_token, retrieve_next_sibling: int64[nodes], the first child and the next sibling of each node, or
        -1. Node 0 is the root: where the sequence stands; its draft token is not read. draft_tokens: int64[nodes].
        token_bitmask: int32[nodes, ceil(vocab_size / 32)]. A node whose token does not fit, and one that ends the text,
        gets a mask without tokens; the nodes below them are left alone.
        time_threshold: seconds after which False is returned, with the tree half done; 0 or less for none.
        temperatures: float32[nodes], set as `temperature` of each node that fits, and to -1 for the others.

        Raises CompatError `draft_tree_invalid` and `bitmask_invalid`.
        """
        tree = DraftTree(retrieve_next_token, retrieve_next_sibling, draft_tokens)
        rows = rows_of(token_bitmask, self._stops.size, (2,))
        warmth = None if temperatures is None else array_of("temperatures", temperatures, np.float32, (1,))
        if len(rows) != len(tree) or (warmth is not None and len(warmth) != len(tree)):
            raise CompatError(
                f"the tree has {len(tree)} nodes; there must be a row for each", code="draft_tree_invalid"
            )
        if warmth is not None:
            warmth[:] = -1
        latest = time.monotonic() + time_threshold if time_threshold > 0 else None
        depth = 0
        try:
            for node, level, token in tree.walk():
                if latest is not None and time.monotonic() > latest:
                    return False
                self.rollback(depth - max(level - 1, 0))
                depth = max(level - 1, 0)
                if level and not self.accept_token(token):
                    rows[node] = 0
                    tree.leave(node)
                    continue
                depth = level
                if self._has_stopped:
                    rows[node] = 0
                    tree.leave(node)
                else:
                    self._fill(rows[node])
                    if warmth is not None and self.temperature is not None:
                        warmth[node] = self.temperature
            return True
        finally:
            self.rollback(depth)

    def find_jump_forward_string(self) -> str:
        """The text that must come next. Bytes that are only a part of a character are left out. Raises CompatError
        `matcher_terminated` after the stop token."""
        self._check_open("nothing must come")
        try:
            data = self._matcher.forced_bytes()
        except NarrowsError as error:
            raise theirs(error) from error
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            return data[: error.start].decode()

    def rollback(self, num_tokens: int = 1) -> None:
        """Take the last steps back. Without a bound. Raises CompatError `rollback_too_far`."""
        if num_tokens <= 0:
            return
        steps = len(self._matcher) + self._has_stopped
        if num_tokens > steps:
            raise CompatError(f"{num_tokens} steps cannot be taken back: there are {steps}", code="rollback_too_far")
        rest = num_tokens - self._has_stopped
        self._has_stopped = False
        if rest:
            self._matcher.rollback(rest)

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted; with `terminate_without_stop_token`, whether the text is complete."""
        return self._matcher.is_accepting if self._by_itself else self._has_stopped

    def is_completed(self) -> bool:
        """Whether the text so far is a text of the grammar, with or without a stop token."""
        return self._matcher.is_accepting

    def reset(self) -> None:
        """Back to the start of the text."""
        self._matcher.reset()
        self._has_stopped = False

    def fork(self) -> GrammarMatcher:
        """An independent matcher at the same position."""
        other = GrammarMatcher.__new__(GrammarMatcher)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        other._matcher = self._matcher.fork()
        return other

    def get_captures(self, *, deduplicate: bool = True) -> list[tuple[str, bytes]]:
        """What rules have captured in the text so far, in the order in which it ends. Cost: the text is read again.

        Raises CompatError `compat_unsupported` with `deduplicate=False`: what a rule captured before it ended is not
        kept."""
        if not deduplicate:
            unsupported("captures that are not final", "Leave deduplicate=True")
        grammar = self._compiled._constraint.grammar
        assert grammar is not None
        if not has_captures(grammar.module):
            return []
        try:
            captures = self._matcher.captures()
        except NarrowsError as error:
            raise theirs(error) from error
        return [(one.name, one.data) for one in by_their_ends(captures)]

    @property
    def temperature(self) -> float | None:
        """`default_temperature`. Raises CompatError `compat_unsupported` for a grammar whose rules have their own."""
        if self._has_temperatures():
            unsupported("temperatures of rules", "Take the temperature out of the grammar")
        return self._temperature

    def _has_temperatures(self) -> bool:
        report = self._compiled._constraint.grammar
        assert report is not None
        return any("annotation: temperature" in getattr(status, "reason", "") for status in report._report.values())

    @property
    def max_rollback_tokens(self) -> int:
        """-1: there is no bound."""
        return -1

    @property
    def stop_token_ids(self) -> list[int]:
        """The tokens that end the text."""
        return list(self._stops.ids)


class StopTokens:
    """The stop tokens of a matcher, and their bits in a mask."""

    __slots__ = ("_are_text", "_bits", "_full", "_words", "ids", "size")

    def __init__(self, ids: Sequence[int], size: int, *, are_text: bool) -> None:
        """are_text: some may be text for the engine, which must not count."""
        self.ids = tuple(ids)
        self.size = size
        self._are_text = are_text
        full = np.zeros(((size + 31) // 32) * 4, np.uint8)
        packed = np.packbits(np.ones(size, bool), bitorder="little")
        full[: len(packed)] = packed
        self._full = full.view(np.int32)
        bits: dict[int, int] = {}
        for token in self.ids:
            bits[token >> 5] = bits.get(token >> 5, 0) | 1 << (token & 31)
        self._words = np.array(list(bits), np.intp)
        self._bits = np.array(list(bits.values()), np.uint32).view(np.int32)

    def place(self, row: Words, may_end: bool) -> None:
        """Allow them if the text may end, and only then."""
        if self._are_text and not may_end:
            row[self._words] &= ~self._bits
        elif may_end:
            row[self._words] |= self._bits

    def leaves_out_some(self, row: Words) -> bool:
        """Whether some token is not allowed. If not, all bits of the row are set, as xgrammar leaves them."""
        full = self._full
        if not len(full) or row[0] != full[0] or not np.array_equal(row, full):
            return True
        row.fill(-1)
        return False


def _checked(stops: list[int], size: int) -> list[int]:
    for token in stops:
        if not 0 <= token < size:
            raise CompatError(
                f"the stop token {token} is out of range", code="argument_invalid", pointer="/override_stop_tokens"
            )
    if not stops:
        raise CompatError(
            "override_stop_tokens is empty",
            code="argument_invalid",
            pointer="/override_stop_tokens",
            hint="Leave it out for the tokenizer's stop tokens",
        )
    return list(dict.fromkeys(stops))
