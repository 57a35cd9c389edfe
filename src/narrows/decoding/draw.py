"""Numeric pieces of sampling: which ids a mask allows, which weights a filter keeps, and the draw itself.

All work on one row of float32 numbers. None of them sorts a whole row.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from narrows.decoding.processors import Logits

Ids = NDArray[np.int64]


def allowed_ids(mask: NDArray[np.int32], size: int) -> Ids:
    """Token ids whose bit is set in a mask row (bit t & 31 of word t >> 5), ascending."""
    bits = np.unpackbits(mask.astype("<i4", copy=False).view(np.uint8), count=size, bitorder="little")
    return np.flatnonzero(bits.view(np.bool_))  # five times as fast as on bytes


def spread(values: Logits, ids: Ids, size: int) -> Logits:
    """float32[size]: the values at their ids, and -inf elsewhere."""
    row = np.full(size, -np.inf, dtype=np.float32)
    row[ids] = values
    return row


def without(values: Logits, ids: Ids | None, forbidden: Ids) -> Logits:
    """The values with -inf at forbidden ids. Unchanged if that would leave no token."""
    if ids is None:
        places = forbidden
    else:
        places = np.searchsorted(ids, forbidden)
        inside = places < ids.size
        places = places[inside][ids[places[inside]] == forbidden[inside]]
    if not places.size:
        return values
    cut = values.copy()
    cut[places] = -np.inf
    return cut if float(cut.max()) > -math.inf else values


_FLOORS = (np.float32(math.exp(-6)), np.float32(math.exp(-12)), np.float32(0))
"""Lower bounds for the search for the largest weights, relative to the largest of all, 1. The weights above the first
bound, some hundred, are nearly always enough."""


def kth_largest(weights: Logits, k: int) -> float:
    """The k-th largest weight, or 0 if fewer than k are above 0."""
    for floor in _FLOORS:
        near = weights[weights > floor]
        if near.size >= k:
            return float(np.partition(near, -k)[-k])
    return 0.0


def nucleus_floor(weights: Logits, top_p: float) -> float:
    """The least weight of the smallest set of largest weights whose share is `top_p`."""
    target = top_p * float(weights.sum(dtype=np.float64))
    for floor in _FLOORS:
        near = np.sort(weights[weights > floor])[::-1]
        sums = np.cumsum(near, dtype=np.float64)
        if sums[-1] >= target:
            return float(near[int(np.searchsorted(sums, target))])
    return 0.0  # rounding: the sum in another order was below the target


_BLOCK = 64


class Wheel:
    """Draws indices with the probabilities of `weights` (float32, at least one above 0).

    Sums blocks first, then inside one block, because a running sum of the whole row takes three times as long as
    everything else. A second draw from the same weights costs a hundredth of the first.
    """

    __slots__ = ("_blocks", "_sums", "_weights")

    def __init__(self, weights: Logits) -> None:
        self._weights = weights
        self._blocks = np.add.reduceat(weights, np.arange(0, weights.size, _BLOCK), dtype=np.float64)
        self._sums = np.cumsum(self._blocks)

    def at(self, uniform: float) -> int:
        """Index where the running sum of the weights passes `uniform` (0..1) of the total."""
        aim = uniform * float(self._sums[-1])
        # side="right" never chooses a block or index of weight 0. If rounding passes the end, the last weight above 0
        # is chosen.
        block = int(np.searchsorted(self._sums, aim, side="right"))
        if block >= self._blocks.size or not self._blocks[block]:
            block = int(np.flatnonzero(self._blocks)[-1])
        inside = self._weights[block * _BLOCK : (block + 1) * _BLOCK]
        rest = aim - (float(self._sums[block - 1]) if block else 0.0)
        place = int(np.searchsorted(np.cumsum(inside, dtype=np.float64), rest, side="right"))
        return block * _BLOCK + min(place, int(np.flatnonzero(inside)[-1]))
