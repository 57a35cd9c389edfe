"""How the JSON formats write what stands between their markers: one canonical spelling, for the grammar and for `render`.

A spelling is the text itself with `$name`, `$arguments` and `$id` in it: `{"name": $name, "arguments": $arguments}`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from narrows.formats.families.base import Entry
from narrows.formats.spelling import arguments_of, arguments_text, json_text
from narrows.stream.regions.json_call import CallKeys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from narrows.formats.rule_writer import RuleWriter
    from narrows.grammar import ir
    from narrows.stream.machine import Region
    from narrows.tools.request import Tool

_SLOTS = ("$name", "$arguments", "$id")


def parts(spelling: str, slots: tuple[str, ...] = _SLOTS) -> Iterator[str]:
    """The spelling cut at its slots, in order; slots stand for themselves. Linear in pieces, of which there are few."""
    while True:
        found = [(at, slot) for slot in slots if slot and (at := spelling.find(slot)) >= 0]
        if not found:
            break
        at, slot = min(found)
        if at:
            yield spelling[:at]
        yield slot
        spelling = spelling[at + len(slot) :]
    if spelling:
        yield spelling


def problems(spelling: str, pointer: str, optional_id: bool = True) -> Iterator[tuple[str, str]]:
    """(key, what is wrong with it), for the loader."""
    found = list(parts(spelling))
    for slot in ("$name", "$arguments"):
        if found.count(slot) != 1:
            yield pointer, f"must hold {slot} once"
    if found.count("$id") > 1 or (not optional_id and "$id" not in found):
        yield pointer, "must hold $id once"


def object_node(lowering: RuleWriter, shape: Any, tool: Tool | None, ids: bool = True) -> ir.Node:
    """The grammar of a call's object in its canonical spelling, or in the one with an id where there is one."""
    written = _node(lowering, shape.written or plain_spelling(shape), tool)
    with_id = spelling_with_id(shape) if ids else ""
    for other in (with_id, *shape.written_also):
        written = lowering.either(written, _node(lowering, other, tool)) if other else written
    return written


def _node(lowering: RuleWriter, spelling: str, tool: Tool | None) -> ir.Node:
    nodes: list[ir.Node] = []
    for part in parts(spelling):
        if part == "$name":
            nodes.append(lowering.quoted_name(tool))
        elif part == "$arguments":
            nodes.append(lowering.arguments(tool))
        elif part == "$id":
            nodes += [lowering.text('"'), lowering.call_id(), lowering.text('"')]
        else:
            nodes.append(lowering.text(part))
    return lowering.seq(*nodes)


def object_text(shape: Any, name: str, arguments: Mapping[str, Any] | str, call_id: str = "", index: int = 0) -> str:
    """A call's object. Where the spelling always has an id, calls without one are numbered."""
    spelling = shape.written or plain_spelling(shape)
    if call_id and "$id" not in spelling:
        spelling = spelling_with_id(shape) or spelling
    values = {"$name": json_text(name), "$id": json_text(call_id or str(index))}
    pieces = (_arguments(arguments, shape) if p == "$arguments" else values.get(p, p) for p in parts(spelling))
    return "".join(pieces)


def _arguments(arguments: Mapping[str, Any] | str, shape: Any) -> str:
    if shape.arguments_indent:
        pretty = json.dumps(arguments_of(arguments), ensure_ascii=False, indent=shape.arguments_step)
        return pretty.replace("\n", "\n" + shape.arguments_indent)
    return arguments_text(arguments)


def plain_spelling(shape: Any) -> str:
    """`{"name": $name, "arguments": $arguments}` with the shape's first keys."""
    return f"{{{json_text(shape.name_keys[0])}: $name, {json_text(shape.arguments_keys[0])}: $arguments}}"


def spelling_with_id(shape: Any) -> str:
    """The plain spelling with the id behind, where the templates that write one put it; "" where there is none."""
    if not shape.id_keys or shape.written:
        return ""
    return f"{plain_spelling(shape)[:-1]}, {json_text(shape.id_keys[0])}: $id}}"


def entries_of(shape: Any, region: Region, first: str, second: str = "") -> list[Entry]:
    """The shape's markers, or, where it has none, the bracket that its calls begin with."""
    if not shape.open:
        return [Entry(first, region, keep=True, at_start=True)]
    return [
        Entry(marker, region, first, at_start=shape.at_start, second=second)
        for marker in (shape.open, *shape.open_also)
    ]


def keys_of(shape: Any) -> CallKeys:
    return CallKeys(
        frozenset(shape.name_keys),
        frozenset(shape.arguments_keys),
        frozenset(shape.id_keys),
        frozenset(shape.ignored_keys),
        shape.name_is_key,
        shape.at_start or shape.strict,
    )
