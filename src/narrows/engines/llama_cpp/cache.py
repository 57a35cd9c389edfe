"""The accounting of the key-value cache: which sequence holds which cells, how cells lie, and what is kept beside them.

A cell is the keys and values of one token at one position. Sequences with a common prefix hold the same cells. A cell
is free when no sequence holds it. Every sequence in the model has a slot (llama.cpp's sequence number). When a sequence
ends, the contents of its cells are kept in the process's memory for later requests with the same beginning, within a
budget (`radix.py`). They are put into new cells when such a request is placed.

Order. Attention adds up a sequence's cells in the order in which they lie, in half precision. Another order gives other
logits (by up to 1 on SmolLM2). llama.cpp puts new tokens into the lowest free cells, so that the end of one sequence
would change the text of another. Therefore the cells are used like a log. Cells that are given up stay occupied: they
are dead, and belong to a sequence that never runs. New tokens always lie after older ones. When there are too many dead
cells, the living ones are saved, all cells are cleared, and the living ones are restored in order. The same text then
has the same bits, whatever else ran, as long as a batch has fewer than 64 tokens (from there on llama.cpp uses other
arithmetic). Cost: 20 us for each living cell, once in as many tokens as the slack allows.

Dead cells have a cost: attention looks at all of them. Measured on SmolLM2 with one sequence: a step takes 11 ms alone,
11.7 ms with 1,000 cells of other sequences, 14 ms with 4,000. This is why prefixes are not kept in cells.

Cost of finding the longest common prefix: one comparison per running sequence, some 3 us for 1,000 tokens, and a walk
through the kept ones. Cost of keeping or recalling a prefix: see `LlamaModel.save`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from narrows.engines.llama_cpp.radix import PIECE, RadixTree, Span, common_prefix


class CellModel(Protocol):
    """What the accounting calls of the model. `sequence`, `source` and `target` are llama.cpp's sequence numbers."""

    @property
    def shares_prefixes(self) -> bool: ...

    def share(self, source: int, target: int, start: int, end: int) -> None: ...

    def drop_cells(self, sequence: int, start: int = 0) -> None: ...

    def clear_cells(self) -> None: ...

    def save(self, sequence: int) -> bytearray: ...

    def restore(self, sequence: int, saved: bytearray) -> None: ...


RESERVED_SEQUENCES = 2
"""Sequence numbers after those of the slots: one holds the dead cells, one is used to save and restore cells."""


def slack(cells: int, batch_tokens: int) -> int:
    """Cells for dead tokens that the model needs in addition to the `cells` that may be held."""
    return max(512, cells // 4, batch_tokens)


class CellCache:
    """`cells` cells and the slots 0..slots-1. `kept_bytes` and `kept_tokens` limit what is kept for later requests, in
    pieces of `piece` tokens. None is no limit.

    The model has `cells + slack(cells, batch_tokens)` cells and `slots + RESERVED_SEQUENCES` sequence numbers.
    """

    def __init__(
        self,
        model: CellModel,
        *,
        cells: int,
        slots: int,
        batch_tokens: int,
        kept_bytes: int | None,
        kept_tokens: int | None = None,
        piece: int = PIECE,
    ) -> None:
        self._model = model
        self.total = cells
        self._batch_tokens = batch_tokens
        self._slack = slack(cells, batch_tokens)
        self._grave, self._moving = slots, slots + 1
        self._kept = RadixTree(kept_bytes if model.shares_prefixes else 0, kept_tokens, piece=piece)
        self._tokens = np.zeros((slots, cells), dtype=np.int32)
        self._cells = np.zeros((slots, cells), dtype=np.int32)
        self._lengths = [0] * slots
        self._holders = np.zeros(cells, dtype=np.int32)
        self._free = list(range(cells - 1, -1, -1))
        self._free_slots = list(range(slots - 1, -1, -1))
        self._active: set[int] = set()
        self._log_end = 0
        """Number of occupied cells of the model, including the dead ones."""

    # Queries.

    @property
    def used(self) -> int:
        """Cells held by running sequences."""
        return self.total - len(self._free)

    @property
    def kept(self) -> int:
        """Number of tokens that are kept for later requests."""
        return self._kept.tokens

    @property
    def kept_bytes(self) -> int:
        """Bytes of memory that their keys and values take."""
        return self._kept.bytes

    def length(self, slot: int) -> int:
        """Number of the slot's tokens that are in the cells."""
        return self._lengths[slot]

    def longest_prefix(self, tokens: NDArray[np.int32], without: Collection[int] = ()) -> tuple[int | None, int]:
        """(slot, length) of the longest prefix of `tokens` that a running sequence holds, ignoring the slots in
        `without`."""
        best: int | None = None
        longest = 0
        if self._model.shares_prefixes:
            for slot in self._active:
                length = common_prefix(self._tokens[slot, : self._lengths[slot]], tokens)
                if length > longest and slot not in without:
                    best, longest = slot, length
        return best, longest

    def kept_prefix(self, tokens: NDArray[np.int32]) -> int:
        """Length of the longest prefix of `tokens` that is kept."""
        return self._kept.length(tokens)

    def room_for(self, tokens: int, donor: int | None, shared: int, beside: Collection[int]) -> bool:
        """Whether a sequence of `tokens` tokens fits beside the slots `beside` if all other cells are given up.
        `shared` of its tokens are in the cells of slot `donor`."""
        marked = self._marked(beside)
        if donor is not None:
            marked[self._cells[donor, :shared]] = True
        return self.total - int(np.count_nonzero(marked)) >= tokens - shared

    def held(self, slots: Iterable[int]) -> int:
        """Number of cells that these slots hold. A cell that several of them share counts once."""
        return int(np.count_nonzero(self._marked(slots)))

    def own(self, slots: Sequence[int]) -> list[int]:
        """For each of these slots, the number of its cells that no other of them holds."""
        holders = np.zeros(self.total, dtype=np.int32)
        cells = [self._cells[slot, : self._lengths[slot]] for slot in slots]
        for each in cells:
            holders[each] += 1
        return [int(np.count_nonzero(holders[each] == 1)) for each in cells]

    def _marked(self, slots: Iterable[int]) -> NDArray[np.bool_]:
        marked = np.zeros(self.total, dtype=np.bool_)
        for slot in slots:
            marked[self._cells[slot, : self._lengths[slot]]] = True
        return marked

    # Changes.

    def open(self, donor: int | None, shared: int) -> int:
        """A slot for a new sequence, holding the first `shared` tokens of `donor`."""
        slot = self._free_slots.pop()
        self._active.add(slot)
        if donor is not None and shared:
            self._model.share(donor, slot, 0, shared)
            held = self._cells[donor, :shared]
            self._cells[slot, :shared] = held
            self._tokens[slot, :shared] = self._tokens[donor, :shared]
            self._holders[held] += 1
            self._lengths[slot] = shared
        return slot

    def recall(self, slot: int, tokens: NDArray[np.int32]) -> int:
        """Extend a slot that holds the beginning of `tokens` by what is kept of the rest. Returns the slot's length. It
        stops early if there are too few free cells."""
        if self._model.shares_prefixes:
            for span in self._kept.find(tokens):
                if span.end > self._lengths[slot] and not self._restore_kept(slot, span, tokens):
                    break
        return self._lengths[slot]

    def _restore_kept(self, slot: int, span: Span, tokens: NDArray[np.int32]) -> bool:
        start, piece = self._lengths[slot], span.piece
        size = piece.end - piece.start
        most = self.total + self._slack - self._batch_tokens
        if self._log_end + size > most:
            self.tidy(force=True)
        if self._log_end + size > most or not self.extend(slot, tokens[start : span.end].tolist()):
            return False
        self._log_end += size - (span.end - start)
        self._model.restore(self._moving, piece.data)
        self._model.share(self._moving, slot, start, span.end)
        for dead in ((piece.start, start), (span.end, piece.end)):
            if dead[0] < dead[1]:
                self._model.share(self._moving, self._grave, *dead)
        self._model.drop_cells(self._moving)
        return True

    def extend(self, slot: int, tokens: Sequence[int]) -> bool:
        """Take cells for tokens that are about to be computed. False if there are too few; then none is taken."""
        if len(self._free) < len(tokens):
            return False
        start = self._lengths[slot]
        end = start + len(tokens)
        taken = [self._free.pop() for _ in tokens]
        self._cells[slot, start:end] = taken
        self._tokens[slot, start:end] = tokens
        self._holders[taken] = 1
        self._lengths[slot] = end
        self._log_end += len(tokens)
        return True

    def tidy(self, *, idle: bool = False, force: bool = False) -> bool:
        """Put the living cells in order if there are too many dead ones, or if a batch would find no room. Call this
        before each batch. With `force`, do so if there is any dead cell. True if the cells were put in order.

        When `idle`, fewer dead cells suffice, so that the next request need not wait for this.
        """
        living = self.total - len(self._free)
        dead = self._log_end - living
        crowded = self._log_end + self._batch_tokens > self.total + self._slack
        most_dead = 0 if force else (64 if idle else 256) + living // 4
        if not self._model.shares_prefixes or not (crowded or dead > most_dead):
            return False
        # (slot, earlier slot whose cells it shares, how many it shares, its own further cells)
        saved: list[tuple[int, int | None, int, bytearray]] = []
        for slot in self._active:
            if not self._lengths[slot]:
                continue
            donor, shared = None, 0
            for earlier, _, _, _ in saved:
                common = common_prefix(
                    self._cells[earlier, : self._lengths[earlier]], self._cells[slot, : self._lengths[slot]]
                )
                if common > shared:
                    donor, shared = earlier, common
            own = self._save(slot, shared, self._lengths[slot]) if shared < self._lengths[slot] else bytearray()
            saved.append((slot, donor, shared, own))
        self._model.clear_cells()
        for slot, donor, shared, own in saved:
            self._restore_after(slot, donor, shared, own)
        self._log_end = living
        return True

    def _save(self, slot: int, start: int, end: int) -> bytearray:
        self._model.share(slot, self._moving, start, end)
        own = self._model.save(self._moving)
        self._model.drop_cells(self._moving)
        return own

    def _restore_after(self, slot: int, donor: int | None, shared: int, own: bytearray) -> None:
        if donor is not None:
            self._model.share(donor, slot, 0, shared)
        if own:
            self._model.restore(self._moving, own)
            self._model.share(self._moving, slot, shared, self._lengths[slot])
            self._model.drop_cells(self._moving)

    def truncate(self, slot: int, length: int) -> None:
        """Give up the cells from `length` on. A recurrent state cannot go back a few tokens: it gives up all cells."""
        if self._model.shares_prefixes:
            self._model.share(slot, self._grave, length, self._lengths[slot])
            self._model.drop_cells(slot, length)
        else:
            self._model.drop_cells(slot)
            length = 0
        held = self._cells[slot, length : self._lengths[slot]]
        self._holders[held] -= 1
        self._free += held[self._holders[held] == 0].tolist()
        self._lengths[slot] = length

    def close(self, slot: int, keep: bool) -> None:
        """Close the slot of an ended or preempted sequence. With `keep`, later sequences may begin with its tokens."""
        if keep:
            self._kept.insert(
                self._tokens[slot, : self._lengths[slot]], lambda start, end: self._save(slot, start, end)
            )
        self._active.remove(slot)
        self.truncate(slot, 0)
        self._free_slots.append(slot)
