"""Whether a terminal looks at what stands before or behind it.

What looks around sees the text of the terminal alone, and the edges of that text as if nothing stood there. In Lark it
sees the whole text: `/if\\b/` is no beginning of `ifs`. This finds the terminals for which that makes a difference:
`(?<!\\\\)` in a string between quotes looks at the string, and `(?!x)` at the end of a terminal looks beyond it.

Cost: linear in the pattern.
"""

from __future__ import annotations

from narrows.grammar.json_schema.report import Status
from narrows.grammar.regex.tree import Behind, Chars, Choice, Concat, Edge, Look, Repeat, Tree, children, children_first

_UNBOUNDED = 1 << 40
"""A width that stands for all larger ones."""
Width = tuple[int, int]
"""The number of characters that a part matches, at least and at most."""


class LooksBeyond(Exception):
    """A part asks for text beyond the terminal, so that the terminal alone never matches."""

    def __init__(self, part: Edge | Look | Behind) -> None:
        super().__init__()
        self.part = part


def beyond(root: Tree) -> Status | None:
    """How the terminal differs from Lark's for what stands beside it; None if it looks at itself alone."""
    widths = _widths(root)
    found: Status | None = None
    todo: list[tuple[Tree, Width, Width]] = [(root, (0, 0), (0, 0))]
    seen: set[tuple[int, Width, Width]] = set()
    while todo:
        node, before, after = todo.pop()
        if (id(node), before, after) in seen:
            continue
        seen.add((id(node), before, after))
        if isinstance(node, Concat):
            lengths = [widths[id(item)] for item in node.items]
            ends = [after]
            for length in reversed(lengths):
                ends.append(_sum(length, ends[-1]))
            for item, length, end in zip(node.items, lengths, reversed(ends[:-1]), strict=True):
                todo.append((item, before, end))
                before = _sum(before, length)
        elif isinstance(node, Repeat):
            more = 0, widths[id(node)][1]
            todo.append((node.item, _sum(before, more), _sum(after, more)))
        elif isinstance(node, Choice):
            todo += [(item, before, after) for item in node.items]
        elif not isinstance(node, Chars):
            found = _status(node, widths, before, after) or found
    return found


def _status(part: Edge | Look | Behind, widths: dict[int, Width], before: Width, after: Width) -> Status | None:
    if isinstance(part, Edge):
        sides = (before, [left for left, _ in part.pairs]), (after, [right for _, right in part.pairs])
        if any(room[1] == 0 and not any(side.edge for side in asked) for room, asked in sides):
            raise LooksBeyond(part)
        sees = any(room[0] == 0 and not all(side.is_anything for side in asked) for room, asked in sides)
        return Status("over", "what stands beside the terminal is not looked at") if sees else None
    room = after if isinstance(part, Look) else before
    least, most = widths[id(part.item)]
    if most <= room[0]:
        return None
    if part.negate:
        return Status("over", "what stands beside the terminal is not looked at")
    if least > room[1]:
        raise LooksBeyond(part)
    return Status("under", "what is looked for must stand in the terminal itself")


def _widths(root: Tree) -> dict[int, Width]:
    widths: dict[int, Width] = {}
    for node in children_first(root):
        inner = [widths[id(child)] for child in children(node)]
        if isinstance(node, Chars):
            width = 1, 1
        elif isinstance(node, Concat):
            width = min(sum(low for low, _ in inner), _UNBOUNDED), min(sum(high for _, high in inner), _UNBOUNDED)
        elif isinstance(node, Choice):
            width = min([low for low, _ in inner], default=0), max([high for _, high in inner], default=0)
        elif isinstance(node, Repeat):
            most = _UNBOUNDED if node.max is None and inner[0][1] else inner[0][1] * (node.max or 0)
            width = min(inner[0][0] * node.min, _UNBOUNDED), min(most, _UNBOUNDED)
        else:
            width = 0, 0
        widths[id(node)] = width
    return widths


def _sum(one: Width, other: Width) -> Width:
    return min(one[0] + other[0], _UNBOUNDED), min(one[1] + other[1], _UNBOUNDED)
