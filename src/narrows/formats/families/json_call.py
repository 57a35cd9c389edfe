"""What the families have in common that write a call as a JSON object with its name and its arguments.

A spelling is the text of a call with `$name`, `$arguments` and `$id` in it: `{"name": $name, "arguments": $arguments}`.
The grammar and `render` are made from the same spellings.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.formats.families.base import Shape
from narrows.formats.families.openers import Opener
from narrows.formats.spelling import arguments_of, arguments_text, json_text
from narrows.stream.regions.json_call import CallKeys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from narrows.formats.rule_writer import RuleWriter
    from narrows.grammar import ir
    from narrows.tools.request import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonCallShape(Shape):
    """The properties of a call's object."""

    name_keys: tuple[str, ...] = ("name",)
    """The properties that hold the name. The first is written."""
    arguments_keys: tuple[str, ...] = ("arguments",)
    """The properties that hold the arguments. The first is written."""
    id_keys: tuple[str, ...] = ()
    """The properties that hold the call's id. The first is written."""
    ignored_keys: tuple[str, ...] = ()
    """Further properties that models write and that mean nothing."""

    def problems(self) -> Iterator[tuple[str, str]]:
        for key, names in (("name_keys", self.name_keys), ("arguments_keys", self.arguments_keys)):
            if not names:
                yield key, "must not be empty"

    def markers_after_values(self) -> tuple[str, ...]:
        """None: JSON shows where it ends."""
        return ()

    def call_keys(self) -> CallKeys:
        """What the region that reads a call must know."""
        names, arguments = frozenset(self.name_keys), frozenset(self.arguments_keys)
        return CallKeys(names, arguments, frozenset(self.id_keys), frozenset(self.ignored_keys))

    # The spellings.

    def spelling(self) -> str:
        """How `render` writes a call: `{"name": $name, "arguments": $arguments}` with the first keys."""
        return f"{{{json_text(self.name_keys[0])}: $name, {json_text(self.arguments_keys[0])}: $arguments}}"

    def spelling_with_id(self) -> str:
        """The same with the id at the end, where the templates that write an id put it; "" if calls have none."""
        return f"{self.spelling()[:-1]}, {json_text(self.id_keys[0])}: $id}}" if self.id_keys else ""

    def further_spellings(self) -> tuple[str, ...]:
        """Spellings that the grammar allows, but `render` does not write."""
        return ()

    # The grammar.

    def object_node(self, writer: RuleWriter, tool: Tool | None, ids: bool = True) -> ir.Node:
        """The grammar of a call's object. `ids`: an id may stand in it."""
        written = _node(writer, self.spelling(), tool)
        for other in (self.spelling_with_id() if ids else "", *self.further_spellings()):
            written = writer.either(written, _node(writer, other, tool)) if other else written
        return written

    # The text.

    def object_text(self, name: str, arguments: Mapping[str, Any] | str, call_id: str = "", index: int = 0) -> str:
        """A call's object. If the spelling always has an id, calls without one are numbered."""
        spelling = self.spelling()
        if call_id and "$id" not in spelling:
            spelling = self.spelling_with_id() or spelling
        values = {"$name": json_text(name), "$id": json_text(call_id or str(index))}
        pieces = (
            self.arguments_text(arguments) if part == "$arguments" else values.get(part, part)
            for part in parts(spelling)
        )
        return "".join(pieces)

    def arguments_text(self, arguments: Mapping[str, Any] | str) -> str:
        """A call's arguments as `render` writes them."""
        return arguments_text(arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonMarkedShape(JsonCallShape):
    """The keys of the families that write such objects between markers, or where an answer begins."""

    open: str = ""
    """The marker before a call. It may be left out if `at_start` is set: then the first bracket opens."""
    open_also: tuple[str, ...] = ()
    """Other spellings of `open` that are read, but not written."""
    close: str = ""
    """The marker after a call."""
    close_also: tuple[str, ...] = ()
    """Other spellings of `close` that are read, but not written."""
    at_start: bool = False
    """Calls begin only where the answer begins, or after its reasoning. What begins there is a call if it has a name,
    arguments that are an object, and no properties but those that the keys name. Else it is text. The free text of the
    grammar begins with something else."""
    strict: bool = False
    """Use the same test as with `at_start` to tell calls from text, though there is a marker."""
    name_is_key: bool = False
    """The name is the object's one property, the arguments are its value: `{N: O}`."""
    written: str = ""
    """How a call is written, if not as `{"name": $name, "arguments": $arguments}` with the first keys."""
    written_also: tuple[str, ...] = ()
    """Other spellings that the grammar allows, but `render` does not write."""
    arguments_indent: str = ""
    """The arguments are written over several lines. All lines but the first begin with this, and with `arguments_step`
    for each level."""
    arguments_step: str = "    "
    """The indentation of a level, with `arguments_indent`."""

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super(JsonMarkedShape, self).problems()
        if not self.open and not self.at_start:
            yield "open", "must not be empty, unless at_start is set"
        yield from spelling_problems(self.written, "written") if self.written else ()
        for spelling in self.written_also:
            yield from spelling_problems(spelling, "written_also")

    def markers(self) -> tuple[str, ...]:
        return tuple(m for m in (self.open, *self.open_also, self.close, *self.close_also) if m)

    def call_keys(self) -> CallKeys:
        keys, strict = super(JsonMarkedShape, self).call_keys(), self.at_start or self.strict
        return CallKeys(keys.name, keys.arguments, keys.id, keys.ignored, self.name_is_key, strict)

    def marked_openers(self, first: str, second: str = "") -> list[Opener]:
        """The shape's markers, each before these characters. If it has none: the bracket that its calls begin with."""
        if not self.open:
            return [Opener(first, keep=True, at_start=True)]
        return [Opener(marker, first, at_start=self.at_start, second=second) for marker in (self.open, *self.open_also)]

    def spelling(self) -> str:
        return self.written or super(JsonMarkedShape, self).spelling()

    def spelling_with_id(self) -> str:
        return "" if self.written else super(JsonMarkedShape, self).spelling_with_id()

    def further_spellings(self) -> tuple[str, ...]:
        return self.written_also

    def arguments_text(self, arguments: Mapping[str, Any] | str) -> str:
        if not self.arguments_indent:
            return arguments_text(arguments)
        pretty = json.dumps(arguments_of(arguments), ensure_ascii=False, indent=self.arguments_step)
        return pretty.replace("\n", "\n" + self.arguments_indent)


_SLOTS = ("$name", "$arguments", "$id")


def parts(spelling: str, slots: tuple[str, ...] = _SLOTS) -> Iterator[str]:
    """The spelling cut at its slots, in order; slots stand for themselves. Linear in pieces, of which there are few."""
    while True:
        places = [(at, slot) for slot in slots if slot and (at := spelling.find(slot)) >= 0]
        if not places:
            break
        at, slot = min(places)
        if at:
            yield spelling[:at]
        yield slot
        spelling = spelling[at + len(slot) :]
    if spelling:
        yield spelling


def spelling_problems(spelling: str, key: str) -> Iterator[tuple[str, str]]:
    """What is wrong with the spelling that this key holds: (key, message) each."""
    slots = list(parts(spelling))
    for slot in ("$name", "$arguments"):
        if slots.count(slot) != 1:
            yield key, f"must hold {slot} once"
    if slots.count("$id") > 1:
        yield key, "must hold $id once"


def _node(writer: RuleWriter, spelling: str, tool: Tool | None) -> ir.Node:
    nodes: list[ir.Node] = []
    for part in parts(spelling):
        if part == "$name":
            nodes.append(writer.quoted_name(tool))
        elif part == "$arguments":
            nodes.append(writer.arguments(tool))
        elif part == "$id":
            nodes += [writer.text('"'), writer.call_id(), writer.text('"')]
        else:
            nodes.append(writer.text(part))
    return writer.seq(*nodes)
