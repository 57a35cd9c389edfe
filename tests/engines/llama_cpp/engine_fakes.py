"""A model without weights that behaves like llama.cpp where it matters: cells, sequences, logits that depend on every cell that
a sequence has *in the order in which the cells lie*, aborts that leave half a batch behind. And a small vocabulary."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from narrows.events import Content, Event

TOKENS: list[bytes] = [
    b"",
    b"a",
    b"b",
    b"ab",
    b" ",
    b"\xc3",
    b"\xa9",
    b"\xf0\x9f",
    b"\x98\x80",
    b"STOP",
    b"x",
    b"yz",
    b".",
    b"ST",
    b"OP",
    b"!",
]
EOS = 0


class FakeVocabulary:
    size = len(TOKENS)
    eos_ids = (EOS,)

    def token_bytes(self, token: int) -> bytes:
        return TOKENS[token]


@dataclass
class _Cell:
    position: int
    token: int
    owners: set[int] = field(default_factory=set)


class FakeModel:
    """`cells` physical cells. `end_chance`: how likely the end token is at each step."""

    shares_prefixes = True
    vocab_size = len(TOKENS)

    def __init__(
        self, cells: int, *, end_chance: float = 0.02, delay: float = 0.0, abort_at_random: float = 0.0
    ) -> None:
        self._cells: list[_Cell | None] = [None] * cells
        self._head = 0
        self._rows: dict[int, NDArray[np.float32]] = {}
        self._abort = threading.Event()
        self._random = random.Random(1)
        self._end_chance = end_chance
        self._delay = delay
        self._abort_at_random = abort_at_random
        self.fail_at: int | None = None
        self.computed = 0
        self.steps = 0
        self.largest_batch = 0

    def decode(
        self, tokens: Sequence[int], positions: Sequence[int], sequences: Sequence[int], wanted: Sequence[bool]
    ) -> int:
        self.steps += 1
        self.largest_batch = max(self.largest_batch, len(tokens))
        if self.fail_at is not None and self.steps >= self.fail_at:
            return -3
        if self._delay:
            time.sleep(self._delay)
        aborted = self._abort.is_set() or self._random.random() < self._abort_at_random
        count = self._random.randrange(len(tokens)) if aborted else len(tokens)
        self._rows = {}
        for i in range(count):
            owned = [c for c in self._cells if c is not None and sequences[i] in c.owners]
            assert sorted(c.position for c in owned) == list(range(positions[i])), "a position is missing or double"
            self._cells[self._find()] = _Cell(positions[i], tokens[i], {sequences[i]})
            self.computed += 1
            if wanted[i]:
                self._rows[i] = self._row(sequences[i])
        return 2 if aborted else 0

    def _find(self) -> int:
        """llama.cpp's way: the next free cell from the head on, which goes back to the lowest cell that was freed."""
        in_order = chain(range(self._head, len(self._cells)), range(self._head))
        found = next((i for i in in_order if self._cells[i] is None), None)
        assert found is not None, "no cell is free"
        self._head = found + 1
        return found

    def _row(self, sequence: int) -> NDArray[np.float32]:
        text = [(c.position, c.token) for c in self._cells if c is not None and sequence in c.owners]
        return row_for(text, self._end_chance)

    def logits(self, index: int) -> NDArray[np.float32]:
        return self._rows[index]

    def share(self, source: int, target: int, start: int, end: int) -> None:
        for cell in self._cells:
            if cell is not None and source in cell.owners and start <= cell.position < end:
                cell.owners.add(target)

    def drop_cells(self, sequence: int, start: int = 0) -> None:
        for i, cell in enumerate(self._cells):
            if cell is not None and sequence in cell.owners and cell.position >= start:
                cell.owners.discard(sequence)
                if not cell.owners:
                    self._cells[i] = None
                    self._head = min(self._head, i)

    def clear_cells(self) -> None:
        self._cells = [None] * len(self._cells)
        self._head = 0

    def save(self, sequence: int) -> bytearray:
        return bytearray().join(
            c.position.to_bytes(4, "little") + c.token.to_bytes(4, "little")
            for c in self._cells
            if c is not None and sequence in c.owners
        )

    def restore(self, sequence: int, saved: bytearray) -> None:
        for i in range(0, len(saved), 8):
            cell = _Cell(
                int.from_bytes(saved[i : i + 4], "little"), int.from_bytes(saved[i + 4 : i + 8], "little"), {sequence}
            )
            self._cells[self._find()] = cell

    def request_abort(self) -> None:
        self._abort.set()

    def clear_abort(self) -> None:
        self._abort.clear()

    def text_of(self, sequence: int) -> list[int]:
        """The tokens of a sequence in the order in which its cells lie; fails where that is not their order."""
        owned = [c for c in self._cells if c is not None and sequence in c.owners]
        assert [c.position for c in owned] == list(range(len(owned)))
        return [c.token for c in owned]


def row_for(text: list[tuple[int, int]], end_chance: float) -> NDArray[np.float32]:
    digest = hashlib.blake2b(repr(text).encode(), digest_size=8).digest()
    generator = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))
    row = generator.normal(size=len(TOKENS)).astype(np.float32)
    row[EOS] = 30.0 if generator.random() < end_chance else -30.0
    return row


class LaggingParser:
    """Content for every token's bytes, one token late: what it holds must come out at the end. Knows when it is misused."""

    def __init__(self) -> None:
        self._held: str | None = None
        self._place = 0
        self.position = 0
        self.finished = False

    def feed_tokens(self, ids: Sequence[int]) -> list[Event]:
        assert not self.finished
        events: list[Event] = []
        for token in ids:
            events += self._flush()
            self._held = TOKENS[token].decode("latin-1")
            self.position += len(self._held)
        return events

    def finish(self) -> list[Event]:
        assert not self.finished
        self.finished = True
        return self._flush()

    def _flush(self) -> list[Event]:
        text, self._held = self._held, None
        if not text:
            return []
        start, self._place = self._place, self._place + len(text)
        return [Content(text, (start, self._place))]
