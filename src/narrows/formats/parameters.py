"""The grammar of parameters that are written as bare text, by the schema of the tool's arguments.

The counterpart of `stream.coerce`: it allows exactly the spellings that the parser reads back as the value that the schema
allows. A string is raw text that holds none of the literals that end a value; any other value is its JSON. Where a parameter may
be a string or something else, the text decides, so a string that would be read as something else cannot be written,
and numbers and booleans beside a string are left out, for `5` is then a string.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from narrows.errors import UnsupportedError
from narrows.grammar import ir, regex, utf8
from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.document import Document, Site
from narrows.grammar.json_schema.formats import PATTERNS
from narrows.grammar.json_schema.keywords import report as keyword_report
from narrows.grammar.json_schema.lower import Lowering as SchemaLowering
from narrows.grammar.json_schema.report import OnUnsupported, Reporter, Status
from narrows.grammar.json_schema.spelling import spelling
from narrows.stream.coerce import ALL_TYPES, UNTYPED, ValueType, parameter_type, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from narrows.limits import Limits

TEXT = ir.Repeat(utf8.node(utf8.ANY))
"""Any text, as a regular node."""
_ANYTHING = ir.Repeat(ir.ANY_BYTE)
_BLANKS = ir.Repeat(ir.byte_set(b" \t\n\r"))


def without(text: ir.Node, *banned: ir.Node) -> ir.Node:
    """Texts of `text` that match none of `banned`: regular."""
    return ir.And((text, *(ir.Not(b) for b in banned))) if banned else text


def containing(literals: Iterable[str]) -> ir.Node:
    """Any bytes with one of these somewhere."""
    return ir.Seq((_ANYTHING, ir.Literals(tuple(sorted({t.encode() for t in literals}))), _ANYTHING))


def beginning(literals: Iterable[str]) -> ir.Node:
    """Any bytes that begin, behind blanks, with one of these."""
    return ir.Seq((_BLANKS, ir.Literals(tuple(sorted({t.encode() for t in literals}))), _ANYTHING))


class ParameterRules:
    """Rules for the parameters of one tool. `key(node)` wraps a key's literal or lexeme into its tags up to the value, `value(node)`
    a value's text; `banned` are the literals that a raw value cannot hold, `lead` what stands before it on its line."""

    def __init__(
        self,
        schema: Any,
        prefix: str,
        *,
        key: Callable[[ir.Node], ir.Node],
        after_value: ir.Node,
        lead: str,
        banned: Iterable[str],
        key_characters: ir.Node,
        on_unsupported: OnUnsupported,
        limits: Limits,
    ) -> None:
        self._schema = schema
        self._key = key
        self._after_value = after_value
        self._lead = lead
        self._banned = tuple(banned)
        self._key_characters = key_characters
        self._limits = limits
        self._reporter = Reporter(on_unsupported)
        self._document = Document(schema, limits)
        self._lowering = SchemaLowering(self._document, spelling("bounded", "all"), self._reporter, limits, prefix)
        self._cannot: list[str] = []
        alternatives = self._lowering.alternatives(self._lowering.goal([self._document.root]))
        self.node = ir.alt(*[self._object(facts) for facts in alternatives if facts.types & f.OBJECT])
        self._lowering.drain()
        self.rules = {**self._lowering.rules, **self._lowering.spelling.any_rules()}
        self.sources = dict(self._lowering.sources)

    def report(self) -> dict[str, Status]:
        """JSON pointer of each keyword -> its status."""
        return keyword_report(self._document, self._reporter)

    def _object(self, facts: f.Facts) -> ir.Node:
        if facts.values:
            raise UnsupportedError(
                "an enumeration of whole argument objects cannot be written as parameters",
                code="schema_unsupported",
                pointer=facts.values[0].pointer,
            )
        required = {key: members.required_at for members in facts.members for key in members.required}
        keys = dict.fromkeys(key for members in facts.members for key in members.named)
        keys.update(dict.fromkeys(required))
        parts: list[ir.Node] = []
        for key in keys:
            goal = self._lowering.goal(members.named.get(key, members.extra) for members in facts.members)
            value = self._value(goal, parameter_type(self._schema, key))
            if value is ir.NEVER and key not in required:
                continue
            self._check_key(key)
            node = ir.seq(self._key(ir.Bytes(key.encode())), value, self._after_value)
            parts.append(node if key in required else ir.optional(node))
        parts.append(self._extra(facts, tuple(keys)))
        return ir.seq(*parts)

    def _extra(self, facts: f.Facts, keys: tuple[str, ...]) -> ir.Node:
        """Parameters that the schema does not name: only where it says of what kind, or names none at all."""
        typed = [members.extra for members in facts.members if members.extra is not None]
        if keys and not any(isinstance(site.schema, dict) and site.schema for site in typed):
            return ir.EMPTY
        kind = UNTYPED
        if typed:
            unnamed = "".join(keys) + "\0"  # a key that is not declared
            kind = parameter_type(self._schema, unnamed)
        value = self._value(self._lowering.goal(typed), kind)
        if value is ir.NEVER:
            return ir.EMPTY
        name = without(self._key_characters, *([ir.Literals(tuple(k.encode() for k in keys))] if keys else []))
        return ir.Repeat(ir.seq(self._key(ir.Lexeme(name)), value, self._after_value))

    def _check_key(self, key: str) -> None:
        if not key.strip() == key or not key or any(c < " " or c in "<>" or "\ud800" <= c <= "\udfff" for c in key):
            raise UnsupportedError(
                f"the property {key[:80]!r} cannot be written as a parameter", code="schema_unsupported"
            )

    def _value(self, goal: f.Goal, kind: ValueType) -> ir.Node:
        """One value with its lead; `kind` is what the parser will take it for."""
        lead = ir.Bytes(self._lead.encode())
        options: list[ir.Node] = []
        rest = {t for t in ALL_TYPES if t != "string" and t in kind.types}
        if "string" in kind.types:
            rest -= {"boolean", "number", "integer"} if kind.members is None else set()
            for facts in self._lowering.alternatives(goal):
                if facts.types & f.STRING:
                    options.append(self._string(facts, kind))
        if rest:
            only = Site("", {"type": sorted(rest)})
            node = self._lowering.node((*goal, only)) if goal else self._lowering.node((only,))
            if node is not ir.NEVER:
                options.append(ir.seq(lead, node))
        options = [node for node in options if node is not ir.NEVER]
        return ir.alt(*options) if options else ir.NEVER

    def _string(self, facts: f.Facts, kind: ValueType) -> ir.Node:
        """Strings as raw text behind the lead, without what ends a value or would be read as something else."""
        lead = self._lead
        if facts.values:
            chosen = min(facts.values, key=lambda values: len(values.options))
            texts = [option for option in chosen.options if isinstance(option, str) and self._reads_back(option, kind)]
            body: ir.Node = ir.Literals(tuple((lead + text).encode() for text in texts)) if texts else ir.NEVER
            if not texts:
                return body
        else:
            body = ir.seq(ir.Bytes(lead.encode()), TEXT)
        parts = [body]
        if facts.text is not None:
            for pattern in facts.text.patterns:
                parts.append(ir.seq(ir.Bytes(lead.encode()), self._pattern(pattern)))
            if facts.text.min or facts.text.max is not None:
                counted = ir.Repeat(utf8.node(utf8.ANY), facts.text.min, facts.text.max)
                parts.append(ir.seq(ir.Bytes(lead.encode()), counted))
        banned = [containing(self._banned)]
        behind = [ir.Bytes(lead.encode())]
        if "null" in kind.types:
            banned.append(ir.seq(*behind, ir.Bytes(b"null")))
        brackets = [b for b, t in (("{", "object"), ("[", "array")) if t in kind.types]
        if brackets:
            banned.append(ir.seq(*behind, beginning(brackets)))
        return ir.Lexeme(without(ir.And(tuple(parts)) if len(parts) > 1 else parts[0], *banned))

    def _reads_back(self, text: str, kind: ValueType) -> bool:
        """Whether the parser reads this raw text as this string."""
        return to_json(text, kind, self._limits.stream_depth)[:1] == '"'

    def _pattern(self, pattern: f.Pattern) -> ir.Node:
        source = f"^(?:{PATTERNS[pattern.name]})$" if pattern.name else pattern.source
        try:
            return regex.search_node(source, dialect="ecma", encode=utf8.node, limits=self._limits)
        except UnsupportedError as error:
            self._reporter.unsupported(pattern.pointer, error.message, hint=error.hint)
            return TEXT
