"""The grammar of parameters that are written as bare text, by the schema of the tool's arguments.

The counterpart of `stream.regions.values`: it allows exactly the spellings that the parser reads back as the value that
the schema allows. A string is raw text that holds none of the literals that end a value; any other value is its JSON.
Where a parameter may be a string or something else, the text decides, so a string that would be read as something else
cannot be written, and numbers and booleans beside a string are left out, for `5` is then a string.

What types the parser expects where is asked of the same `Place` as the parser asks (`Tool.place`). What values of these
types the schema allows comes from its alternatives (`Goals`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from narrows.errors import UnsupportedError
from narrows.grammar import ir, utf8
from narrows.grammar.free_text import ANYTHING, TEXT, ending, without
from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.declared import other_keys
from narrows.grammar.json_schema.document import Document, Site
from narrows.grammar.json_schema.keywords import report as keyword_report
from narrows.grammar.json_schema.lower import Lowering
from narrows.grammar.json_schema.report import Reporter, Status
from narrows.grammar.json_schema.spelling import patterns
from narrows.grammar.json_schema.spelling.spelling import spelling
from narrows.grammar.options import OnUnsupported
from narrows.grammar.work import Work
from narrows.stream.json_scan import WHITESPACE
from narrows.stream.regions.values import to_json
from narrows.value_types import JSON_TYPES, UNTYPED, Place, ValueType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from narrows.limits import Limits

_NESTED = frozenset(("object", "array"))
_BLANKS = ir.Repeat(ir.byte_set(b" \t\n\r"))


def followed(markers: Iterable[str], tags: Iterable[str], end: str, lines: bool = False) -> ir.Node:
    """Any bytes that, with `end` after them, hold one of these markers and after it, whitespace apart, one of these
    tags, but for `end` itself as the marker. With `lines`, the whitespace begins with a line's end: the counterpart of
    `stream.markers.Ahead`."""
    markers, tags = tuple(markers), tuple(tags)
    last = end.lstrip(WHITESPACE)
    cut = [tag[:n] for tag in tags for n in range(1, len(tag)) if _agree(end, tag[n:])]
    completed = [tag for tag in tags if _agree(last, tag)]
    halves = [marker[:n] for marker in markers for n in range(1, len(marker)) if _agree(end, marker[n:])]
    blanks = ir.optional(ir.seq(ir.byte_set(b"\r\n"), _BLANKS)) if lines else _BLANKS
    before = ir.seq(ANYTHING, ir.Literals(tuple(sorted({marker.encode() for marker in markers}))), blanks)
    options = [ir.seq(before, ir.Literals(tuple(sorted({tag.encode() for tag in tags}))), ANYTHING)]
    options += [ir.seq(before, ir.Literals(tuple(sorted({tag.encode() for tag in cut}))))] if cut else []
    options += [before] if completed else []
    options += [ending(halves)] if halves else []
    return ir.alt(*options)


def _agree(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def beginning(literals: Iterable[str]) -> ir.Node:
    """Any bytes that begin, after whitespace, with one of these."""
    return beginning_node(ir.Literals(tuple(sorted({t.encode() for t in literals}))))


def beginning_node(node: ir.Node) -> ir.Node:
    """Any bytes that begin, after whitespace, with this."""
    return ir.Seq((_BLANKS, node, ANYTHING))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """How one format writes a parameter."""

    key: Callable[[ir.Node, str], ir.Node]
    """A key's literal or lexeme in its tags up to the value. The second argument is the declared type, where the wire
    is typed."""
    after_value: ir.Node
    lead: str = ""
    """What stands before a value on its line."""
    banned: ir.Node
    """Texts that no raw value is, with its lead, as a regular node: they hold what would end it."""
    spell: Callable[[str], str | None]
    """A key as it is written; None where it cannot be."""
    close: Callable[[ir.Node], ir.Node] | None = None
    """The closing tag of this key, for families whose values nest."""
    types: Mapping[str, str] | None = None
    """Typed wires: JSON type -> what the wire calls it. Then a value is what its type says, and its text decides
    nothing."""
    empty: str = ""
    """What may stand in place of the parameters where there are none."""
    text: Callable[[ir.Node], ir.Node] | None = None
    """Further ways of writing a string: a regular node for its text -> a node for its spelling (None: the text
    itself)."""
    json: Callable[[ir.Node], ir.Node] | None = None
    """How an object or array is written, given its JSON (None: the JSON itself)."""


def _refuse_counts(facts: f.Facts, reporter: Reporter) -> None:
    """For values that are not written as JSON: what is said of the keys of this object beyond their names."""
    for members in facts.members:
        for pattern, _ in members.patterns:
            reporter.unsupported(pattern.pointer, _KEYS_BY_PATTERN, kind="under")
        if members.names is not None:
            reporter.unsupported(members.names.pointer, _KEYS_BY_PATTERN, kind="under")
        for bound, where in ((members.least, members.least_at), (members.most, members.most_at)):
            if bound:
                reporter.unsupported(where, "the number of arguments cannot be bounded in this format")
        for some in members.some:
            reporter.unsupported(some.site.pointer, "that some argument is of a kind cannot be enforced in this format")
        for where in members.brings_at if members.brings else ():
            reporter.unsupported(where, "which arguments come together cannot be enforced in this format")


_KEYS_BY_PATTERN = "arguments whose names are not listed cannot be written in this format"


class ParameterRules:
    """Rules for the parameters of one tool."""

    def __init__(
        self,
        schema: Any,
        prefix: str,
        wire: Wire,
        place: Place,
        *,
        key_characters: ir.Node,
        on_unsupported: str = "error",
        additional: str = "standard",
        limits: Limits | Work,
    ) -> None:
        """`place`: where the parser sees the arguments."""
        self._wire = wire
        self._key_characters = key_characters
        self._work = Work.of(limits)
        self._reporter = Reporter(cast("OnUnsupported", on_unsupported))
        self._document = Document(schema, self._work, foreign_types=True)
        self._lowering = Lowering(
            self._document, spelling("bounded", "all"), self._reporter, self._work, prefix, additional
        )
        self._lowering.hold_to_objects()
        self._goals = self._lowering.goals
        self._only: dict[frozenset[str], Site] = {}
        while True:
            self._prepare()
            goal = self._goals.goal([self._document.root])
            self.node = ir.alt(*[
                self._object(facts, place, other_keys(self._goals, facts, goal))
                for facts in self._goals.alternatives(goal)
                if facts.types & f.OBJECT
            ])  # fmt: skip
            self._drain()
            if self._lowering.complete():
                break
        self.rules = {**self._lowering.rules, **self._lowering.spelling.any_rules()}
        self.sources = dict(self._lowering.sources)

    def report(self) -> dict[str, Status]:
        """JSON pointer of each keyword -> its status."""
        return keyword_report(self._document, self._reporter)

    def _prepare(self) -> None:
        """Before the first rule."""

    def _drain(self) -> None:
        self._lowering.drain()

    def _object(self, facts: f.Facts, place: Place, others: list[str] | None) -> ir.Node:
        """`others`: the only keys that may be besides those that the facts name; None: any."""
        parts = [node if required else ir.optional(node) for node, required in self._members(facts, place)]
        extra = self._extra(facts, place, tuple(self._keys(facts)), others)
        if extra is not ir.EMPTY:
            parts.append(extra)
        if self._wire.empty and not any(members.required for members in facts.members):
            return ir.alt(ir.seq(*parts), ir.Bytes(self._wire.empty.encode()))
        return ir.seq(*parts)

    def _keys(self, facts: f.Facts) -> dict[str, bool]:
        """The members that the schema names, in its order, and whether they are required."""
        required = {key for members in facts.members for key in members.required}
        keys = dict.fromkeys(key for members in facts.members for key in members.named)
        keys.update(dict.fromkeys(key for members in facts.members for key in members.required))
        return {key: key in required for key in keys}

    def _members(self, facts: f.Facts, place: Place, without_item: bool = False) -> list[tuple[ir.Node, bool]]:
        """(a member's node, whether it is required), but for those that cannot be. `without_item`: and but for
        `item`."""
        if facts.values:
            raise UnsupportedError(
                "an enumeration of whole argument objects cannot be written as parameters",
                code="schema_unsupported",
                pointer=facts.values[0].pointer,
            )
        _refuse_counts(facts, self._reporter)
        parts: list[tuple[ir.Node, bool]] = []
        for key, required in self._keys(facts).items():
            self._work.spend(20)
            goal = self._goals.member(facts.members, key)
            spelled = self._wire.spell(key)
            value = self._value(ir.Bytes((spelled or "").encode()), goal, place.member(key))
            if without_item and key == "item":
                value = ir.NEVER
            if value is ir.NEVER and not required:
                continue
            if spelled is None:
                raise UnsupportedError(
                    f"the property {key[:80]!r} cannot be written as a parameter", code="schema_unsupported"
                )
            parts.append((value, required))
        return parts

    def _extra(self, facts: f.Facts, place: Place, keys: tuple[str, ...], others: list[str] | None) -> ir.Node:
        """Parameters that the schema does not name: only where it says of what kind, or names none at all."""
        typed = [members.extra for members in facts.members if members.extra is not None]
        if any(members.patterns or members.names for members in facts.members):
            return ir.EMPTY  # _members has said so
        if keys and not any(isinstance(site.schema, dict) and site.schema for site in typed):
            return ir.EMPTY
        goal = self._goals.goal(typed)
        if others is not None:
            spelled = [(key, self._wire.spell(key)) for key in others]
            values = [self._value(ir.Bytes(s.encode()), goal, place.member(key)) for key, s in spelled if s is not None]
            return ir.seq(*map(ir.optional, values))
        other = place.other_member()
        # Another branch may name a key, and so the parser takes its value for something else.
        taken = dict.fromkeys([*keys, *sorted(name for name in place.names if place.member(name).kind != other.kind)])
        name = without(self._key_characters, *([ir.Literals(tuple(k.encode() for k in taken))] if taken else []))
        value = self._value(ir.Distinct(ir.Lexeme(name)), goal, other)
        return ir.EMPTY if value is ir.NEVER else ir.Repeat(value)

    def _value(self, key: ir.Node, goal: f.Goal, place: Place) -> ir.Node:
        """One parameter; `place` is where the parser will see its value."""
        kind = place.kind
        if self._wire.types is not None:
            return self._typed(key, goal, kind.types if place.typed else JSON_TYPES, self._wire.types)
        options: list[ir.Node] = []
        rest = {t for t in JSON_TYPES if t != "string" and t in kind.types}
        if "string" in kind.types:
            rest -= {"boolean", "number", "integer"} if kind.members is None else set()
            options += self._strings(goal, kind)
        options += self._others(goal, rest)
        options = [node for node in options if node is not ir.NEVER]
        if not options:
            return ir.NEVER
        return ir.seq(self._wire.key(key, ""), ir.alt(*options), self._wire.after_value)

    def _typed(self, key: ir.Node, goal: f.Goal, allowed: frozenset[str], types: Mapping[str, str]) -> ir.Node:
        """One parameter whose tag says of what type it is."""
        options: list[ir.Node] = []
        for declared in dict.fromkeys(types.values()):
            among = {t for t, name in types.items() if name == declared and t in allowed}
            nodes = self._strings(goal, UNTYPED) if "string" in among else []
            nodes += self._others(goal, among - {"string"})
            nodes = [node for node in nodes if node is not ir.NEVER]
            if nodes:
                options.append(ir.seq(self._wire.key(key, declared), ir.alt(*nodes), self._wire.after_value))
        return ir.alt(*options) if options else ir.NEVER

    def _strings(self, goal: f.Goal, kind: ValueType) -> list[ir.Node]:
        return [self._string(facts, kind) for facts in self._goals.alternatives(goal) if facts.types & f.STRING]

    def _others(self, goal: f.Goal, types: set[str]) -> list[ir.Node]:
        """Values of these types, as JSON."""
        wire = self._wire
        split = [types] if wire.json is None else [types & _NESTED, types - _NESTED]
        nodes: list[ir.Node] = []
        for among in split:
            if not among:
                continue
            only = self._only.setdefault(frozenset(among), Site("", {"type": sorted(among)}))
            node = self._lowering.node((*goal, only))
            if node is not ir.NEVER:
                node = wire.json(node) if wire.json is not None and among <= _NESTED else node
                nodes.append(ir.seq(ir.Bytes(wire.lead.encode()), node))
        return nodes

    def _string(self, facts: f.Facts, kind: ValueType) -> ir.Node:
        """Strings as raw text after the lead, without what ends a value or would be read as something else."""
        lead = self._wire.lead
        if facts.values:
            chosen = min(facts.values, key=lambda values: len(values.options))
            self._work.spend(len(chosen.options))
            texts = [option for option in chosen.options if isinstance(option, str) and self._reads_back(option, kind)]
            body: ir.Node = ir.Literals(tuple((lead + text).encode() for text in texts)) if texts else ir.NEVER
            if not texts:
                return body
        else:
            body = ir.seq(ir.Bytes(lead.encode()), TEXT)
        parts = [body]
        if facts.text is not None:
            for text in patterns.bodies(facts.text.patterns, "none", self._reporter, self._work):
                parts.append(ir.seq(ir.Bytes(lead.encode()), text))
            if facts.text.min or facts.text.max is not None:
                counted = ir.Repeat(utf8.node(utf8.ANY), facts.text.min, facts.text.max)
                parts.append(ir.seq(ir.Bytes(lead.encode()), counted))
        banned = [self._wire.banned]
        if "null" in kind.types:
            banned.append(ir.Bytes(lead.encode() + b"null"))
        brackets = [b for b, t in (("{", "object"), ("[", "array")) if t in kind.types]
        if brackets:
            banned.append(ir.seq(ir.Bytes(lead.encode()), beginning(brackets)))
        allowed = without(ir.And(tuple(parts)) if len(parts) > 1 else parts[0], *banned)
        return ir.Lexeme(allowed) if self._wire.text is None else self._wire.text(allowed)

    def _reads_back(self, text: str, kind: ValueType) -> bool:
        """Whether the parser reads this raw text as this string."""
        return to_json(text, kind, self._work.limits.stream_depth)[:1] == '"'
