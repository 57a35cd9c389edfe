"""A JSON value as text, in pieces: `json.dumps` holds the interpreter until it is done, a tenth of a second for 8 MB.

The same text for the same value, and the only spelling: it is what a definition is known by.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
PIECE = 2_000
"""Values that are written at once: some 0.2 ms."""
_dumps = json.JSONEncoder(ensure_ascii=True, check_circular=False, separators=(",", ":")).encode


def definition_text(value: Any) -> bytes:
    """ASCII, without whitespace. The value is a tree of dicts with names, lists, strings, numbers, booleans and None.
    No recursion beyond what `json` does in a piece. Cost: some 0.5 us a value besides."""
    return "".join(_pieces(value, _sizes(value))).encode("ascii")


def _sizes(root: Any) -> dict[int, int]:
    """Values in each dict and list, by identity, itself included."""
    order: list[tuple[Any, list[Any]]] = []
    todo = [root] if isinstance(root, (dict, list)) else []
    while todo:
        node = todo.pop()
        inner = [v for v in (node.values() if isinstance(node, dict) else node) if isinstance(v, (dict, list))]
        order.append((node, inner))
        todo += inner
    sizes: dict[int, int] = {}
    for node, inner in reversed(order):
        sizes[id(node)] = 1 + len(node) - len(inner) + sum(sizes[id(v)] for v in inner)
    return sizes


def _pieces(root: Any, sizes: dict[int, int]) -> Iterator[str]:
    """Texts to be joined."""
    todo: list[Iterator[str | tuple[Any]]] = [iter([(root,)])]
    while todo:
        step = next(todo[-1], None)
        if step is None:
            todo.pop()
        elif isinstance(step, str):
            yield step
        elif sizes.get(id(step[0]), 1) <= PIECE:
            yield _dumps(step[0])
        elif isinstance(step[0], dict):
            todo.append(_dict_steps(step[0], sizes))
        else:
            todo.append(_list_steps(step[0], sizes))


def _dict_steps(node: dict[str, Any], sizes: dict[int, int]) -> Iterator[str | tuple[Any]]:
    mark = "{"
    for run, large in _runs(node.items(), [sizes.get(id(value), 1) for value in node.values()]):
        if large:
            yield f"{mark}{_dumps(run[0][0])}:"
            yield (run[0][1],)
        else:
            yield mark + _dumps(dict(run))[1:-1]
        mark = ","
    yield "}"


def _list_steps(node: list[Any], sizes: dict[int, int]) -> Iterator[str | tuple[Any]]:
    mark = "["
    for run, large in _runs(node, [sizes.get(id(value), 1) for value in node]):
        yield mark if large else mark + _dumps(run)[1:-1]
        if large:
            yield (run[0],)
        mark = ","
    yield "]"


def _runs(members: Iterable[T], sizes: list[int]) -> Iterator[tuple[list[T], bool]]:
    """Members that make a piece together; True with one that is more than a piece by itself."""
    run: list[T] = []
    weight = 0
    for member, size in zip(members, sizes, strict=True):
        if run and weight + size > PIECE:
            yield run, False
            run, weight = [], 0
        if size > PIECE:
            yield [member], True
            continue
        run.append(member)
        weight += size
    if run:
        yield run, False
