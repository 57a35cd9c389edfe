"""The grammar of arguments that nest as elements, by the schema of the tool's arguments: the counterpart of
`stream.regions.xml_nested`.

An object is its members' elements in the order of the schema, an array its items', and everything else is text as in
`parameters`. A member that the schema does not name is not written, for its closing tag would have to repeat its name.
Arrays and objects of an enumeration are JSON.
"""

from __future__ import annotations

from narrows.formats.parameters import ParameterRules
from narrows.grammar import ir
from narrows.grammar.json_schema import declared
from narrows.grammar.json_schema import facts as f
from narrows.value_types import Place

_SCALARS = {"boolean", "number", "integer", "null"}


class NestedRules(ParameterRules):
    """Rules for the parameters of one tool. `Wire.key` writes an opening tag, `Wire.close` a closing one."""

    def _prepare(self) -> None:
        self._prefix = self._lowering.prefix
        self._names: dict[tuple[int, int, bool], str] = {}
        self._todo: list[tuple[str, f.Facts, Place, bool, bool]] = []
        self._elements: dict[str, ir.Node] = {}

    def _drain(self) -> None:
        while self._todo:
            name, facts, place, is_array, some = self._todo.pop()
            if is_array:
                self._elements[name] = self._array(facts, place, some)
            else:
                parts = self._members(facts, place, without_item="array" in place.types)
                self._elements[name] = (
                    self._some(name, parts) if some else ir.seq(*(self._part(*part) for part in parts))
                )
            self._lowering.count(1)
        super()._drain()
        self._lowering.rules.update(self._elements)

    def _value(self, key: ir.Node, goal: f.Goal, place: Place) -> ir.Node:
        content = self._content(goal, place)
        if content is ir.NEVER:
            return ir.NEVER
        assert self._wire.close is not None
        return ir.seq(self._wire.key(key, ""), content, self._wire.close(key))

    def _content(self, goal: f.Goal, place: Place) -> ir.Node:
        """What stands between an element's tags."""
        kind = place.kind
        types = set(kind.types)
        scalars = types & _SCALARS
        if "string" in types:
            scalars -= {"boolean", "number", "integer"} if kind.members is None else set()
        options = self._strings(goal, kind) if "string" in types else []
        options += self._others(goal, scalars)
        alternatives = self._goals.alternatives(goal)
        for type_, bit in (("object", f.OBJECT), ("array", f.ARRAY)):
            if type_ not in place.types:
                continue
            of_type = [facts for facts in alternatives if facts.types & bit]
            if any(facts.values for facts in of_type):
                options += self._others(goal, {type_})
                continue
            # Where nothing would be read as something else, there is something.
            some = "string" in place.types or (type_ == "array" and "object" in place.types)
            for facts in of_type:
                if bit == f.OBJECT:  # for the report: what nobody names is not written here
                    declared.other_keys(self._goals, facts, goal)
                options.append(self._later(facts, place, bit == f.ARRAY, some))
        options = [node for node in options if node is not ir.NEVER]
        return ir.alt(*options) if options else ir.NEVER

    def _later(self, facts: f.Facts, place: Place, is_array: bool, some: bool) -> ir.Node:
        """A rule for these members or items, lowered when its turn comes."""
        key = (id(facts), id(place), is_array)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"{self._prefix}element/{len(self._names)}"
            self._todo.append((name, facts, place, is_array, some))
        return ir.Ref(name)

    def _object(self, facts: f.Facts, place: Place, others: list[str] | None) -> ir.Node:
        return ir.seq(*(self._part(*part) for part in self._members(facts, place, without_item=False)))

    def _part(self, node: ir.Node, required: bool) -> ir.Node:
        return node if required else ir.optional(node)

    def _some(self, name: str, parts: list[tuple[ir.Node, bool]]) -> ir.Node:
        """The parts, but not none of them."""
        if any(required for _, required in parts):
            return ir.seq(*(self._part(*part) for part in parts))
        rest: ir.Node = ir.EMPTY
        firsts: list[ir.Node] = []  # by the first part that is there
        for number in range(len(parts) - 1, -1, -1):
            firsts.append(ir.seq(parts[number][0], rest))
            tail = f"{name}/{number}"
            self._elements[tail] = ir.seq(ir.optional(parts[number][0]), rest)
            rest = ir.Ref(tail)
        return ir.alt(*reversed(firsts)) if firsts else ir.NEVER

    def _array(self, facts: f.Facts, place: Place, some: bool) -> ir.Node:
        for items in facts.items:
            if where := items.unique_at or items.equal_at:
                self._reporter.unsupported(where, "which items differ cannot be enforced in this format")
            for one in items.contained:
                reason = "how many items satisfy a schema cannot be enforced in this format"
                self._reporter.unsupported(one.pointer, reason)
        least = max([items.min for items in facts.items] + [int(some)])
        most = min((items.max for items in facts.items if items.max is not None), default=None)
        width = max((len(items.prefix) for items in facts.items), default=0)
        rest = self._item(facts, place, width)
        further = None if most is None else max(most - width, 0)
        node: ir.Node = ir.EMPTY
        if rest is not ir.NEVER and further != 0:
            node = ir.Repeat(rest, max(least - width, 0), further)
        elif least > width:
            node = ir.NEVER
        for index in range(width - 1, -1, -1):
            item = self._item(facts, place, index)
            if item is ir.NEVER or (most is not None and index >= most):
                node = ir.NEVER if index < least else ir.EMPTY
                continue
            node = ir.seq(item, node) if node is not ir.NEVER else ir.NEVER
            node = ir.optional(node) if index >= least and node is not ir.NEVER else node
        return node

    def _item(self, facts: f.Facts, place: Place, index: int) -> ir.Node:
        sites = [items.prefix[index] if index < len(items.prefix) else items.rest for items in facts.items]
        return self._value(ir.Bytes(b"item"), self._goals.goal(sites), place.item(index))
