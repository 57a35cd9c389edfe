"""xgrammar's setting of a recursion depth. narrows recurses over no grammar and no text: what is set has no effect, and
`narrows.Limits` bounds the work instead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from narrows.compat.xgrammar.exception import CompatError
from narrows.compat.xgrammar.serialized import get_serialization_version

__all__ = ["get_max_recursion_depth", "get_serialization_version", "max_recursion_depth", "set_max_recursion_depth"]

_MOST = 1_000_000
_depth = 10_000


def get_max_recursion_depth() -> int:
    """What was set last; 10,000 at first."""
    return _depth


def set_max_recursion_depth(max_recursion_depth: int) -> None:
    """Kept, without effect."""
    global _depth
    if not 0 <= max_recursion_depth <= _MOST:
        raise CompatError(f"a recursion depth is from 0 to {_MOST:,}", code="argument_invalid")
    _depth = max_recursion_depth


@contextmanager
def max_recursion_depth(temp_depth: int) -> Iterator[None]:
    """The same for a block."""
    before = get_max_recursion_depth()
    set_max_recursion_depth(temp_depth)
    try:
        yield
    finally:
        set_max_recursion_depth(before)
