"""The API key that a request carries: `Authorization: Bearer KEY`, as OpenAI's clients send it, or `x-api-key: KEY`, as
Anthropic's do.

A request with two different keys has none: one could be the key that is checked, the other the client's name.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence

Headers = Iterable[tuple[bytes, bytes]]
"""As ASGI has them: names in lower case."""


def key_of(headers: Headers) -> bytes | None:
    """The key, or None. Never log it."""
    given: set[bytes] = set()
    names: list[bytes] = []
    for name, value in headers:
        if name == b"authorization":
            scheme, _, key = value.partition(b" ")
            given.add(key.strip() if scheme.lower() == b"bearer" else b"")
            names.append(name)
        elif name == b"x-api-key":
            given.add(value.strip())
            names.append(name)
    if len(given) != 1 or len(set(names)) != len(names):
        return None
    return given.pop() or None


def is_one_of(key: bytes | None, keys: Sequence[bytes]) -> bool:
    """How long it takes does not tell where keys differ."""
    matches = [hmac.compare_digest(key or b"", known) for known in keys]
    return key is not None and any(matches)
