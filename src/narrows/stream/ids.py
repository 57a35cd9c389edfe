"""Ids for calls whose format carries none."""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

STYLES = {"openai": ("call_", 24), "mistral": ("", 9)}
"""Style -> (prefix, characters). Mistral's templates refuse ids that are not nine letters or digits."""


def insisted_length(style: str) -> int:
    """The exact number of letters and digits that an id of this style must have; 0 where templates take any id."""
    prefix, length = STYLES[style]
    return 0 if prefix else length


def id_factory(style: str = "openai", seed: str | None = None) -> Callable[[int], str]:
    """A function from a call's index to its id. The same seed gives the same ids; without one they are random."""
    prefix, length = STYLES[style]
    base = seed if seed is not None else secrets.token_hex(16)

    def make(index: int) -> str:
        number = int.from_bytes(hashlib.sha256(f"{base}\0{index}".encode("utf-8", "surrogatepass")).digest(), "big")
        letters = []
        for _ in range(length):
            number, digit = divmod(number, len(_ALPHABET))
            letters.append(_ALPHABET[digit])
        return prefix + "".join(letters)

    return make
