"""The published meta-schemas: schemas of schemas, one for each draft. A schema may refer to them, so that a value is
itself a schema:

    {"$ref": "https://json-schema.org/draft/2020-12/schema"}

They come from the package jsonschema-specifications (the extra `schemas`), which holds nothing else. Without it they
are documents like any other, which the caller gives as `resources`. Nothing is fetched.

Cost: nothing for schemas that do not refer to them; the package is imported when the first one does.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

ADDRESSES = ("http://json-schema.org/", "https://json-schema.org/")
"""What their addresses begin with."""
EXTRA = "schemas"


def is_published(address: str) -> bool:
    return address.startswith(ADDRESSES)


def is_here() -> bool:
    """Whether the package is installed."""
    return bool(_registry())


def documents(addresses: Iterable[str]) -> dict[str, object]:
    """The documents that references to these addresses may lead to, by their own addresses. Since 2019-09 a draft has
    one for each of its vocabularies."""
    found: dict[str, object] = {}
    for address in addresses:
        base = address.partition("#")[0]
        known = _registry()
        if base in known:
            draft = base.removesuffix("/schema").partition("/meta/")[0]
            found |= {name: schema for name, schema in known.items() if name == base or name.startswith(f"{draft}/")}
    return found


@cache
def _registry() -> dict[str, object]:
    try:
        from jsonschema_specifications import REGISTRY
    except ImportError:
        return {}
    return {address.rstrip("#"): REGISTRY.contents(address) for address in REGISTRY}
