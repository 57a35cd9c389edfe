"""The grammar of arguments that are written as literals of another notation than JSON, by the schema of the tool's
arguments.

The counterpart of `stream.regions.literals`. A notation is a `Spelling` of its own, so that every keyword of JSON
Schema holds as it does in JSON.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from narrows.errors import UnsupportedError
from narrows.grammar import ir, json_text
from narrows.grammar.json_schema import SchemaRules, schema_rules
from narrows.grammar.json_schema import facts as f
from narrows.grammar.json_schema.document import Document
from narrows.grammar.json_schema.families.objects import members, plan
from narrows.grammar.json_schema.families.presence import members as counted_members
from narrows.grammar.json_schema.keywords import report as keyword_report
from narrows.grammar.json_schema.lower import Lowering
from narrows.grammar.json_schema.report import Reporter
from narrows.grammar.json_schema.spelling.spelling import Spelling, seq
from narrows.grammar.options import OnUnsupported
from narrows.stream.names import is_name

if TYPE_CHECKING:
    from narrows.grammar.work import Work
    from narrows.limits import Limits

_WORD = ir.byte_set((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A), b"_")
_LETTER = ir.byte_set((0x41, 0x5A), (0x61, 0x7A), b"_")
NAME = ir.Seq((_LETTER, ir.Repeat(_WORD, 0, 63)))
"""Names of arguments that are not declared."""


class PythonSpelling(Spelling):
    """Python's literals: strings between `quote`s, `True`, `False` and `None` beside JSON's words for them."""

    def __init__(self, quote: str) -> None:
        self.quote = quote.encode()
        super().__init__("bounded", "single" if quote == "'" else "minimal", "python")
        self.constants = {None: (b"None", b"null"), True: (b"True", b"true"), False: (b"False", b"false")}
        self.null = ir.Lexeme(ir.Literals(self.constants[None]))
        self.boolean = ir.Lexeme(ir.Literals((*self.constants[True], *self.constants[False])))

    def quoted(self, body: ir.Node) -> ir.Node:
        return ir.Seq((ir.Bytes(self.quote), body, ir.Bytes(self.quote)))

    def literal(self, text: str) -> list[bytes]:
        return [python_string(text, self.quote.decode()).encode()]


class DelimitedSpelling(Spelling):
    """Strings without escapes between two markers, keys without quotes, no whitespace."""

    def __init__(self, delimiter: str) -> None:
        self.delimiter = delimiter
        anything = ir.Repeat(ir.ANY_BYTE)
        self._free = ir.Not(ir.Seq((anything, ir.Bytes(delimiter.encode()), anything)))
        super().__init__("compact", "none", f"delimited {delimiter}")

    @property
    def strings_apart(self) -> bool:
        return True

    def quoted(self, body: ir.Node) -> ir.Node:
        return ir.And((body, self._free))

    def whole(self, quoted: ir.Node) -> ir.Node:
        return ir.Seq((ir.Marker(self.delimiter), ir.Lexeme(quoted), ir.Marker(self.delimiter)))

    def literal(self, text: str) -> list[bytes]:
        return [text.encode()] if self.delimiter not in text else []

    def key(self, key: str) -> ir.Node:
        if is_bare_key(key):
            return ir.Bytes(key.encode() + self.colon_bytes)
        return seq(self.whole(ir.Literals(tuple(self.literal(key)))), self.colon)

    def other_key(self, keys: list[str], languages: tuple[ir.Node, ...] = (), has_empty: bool = True) -> ir.Node:
        taken = [*languages, *([ir.Not(ir.Literals(tuple(key.encode() for key in keys)))] if keys else ())]
        bare = ir.Distinct(ir.Lexeme(ir.And((NAME, *taken)) if taken else NAME))
        some = ir.Lexeme(ir.And((self.quoted(ir.Repeat(self.character, 1)), *taken)))
        delimiter = ir.Marker(self.delimiter)
        empty = [ir.Seq((delimiter, delimiter))] if has_empty and "" not in keys else []
        return ir.alt(bare, ir.Seq((delimiter, ir.Distinct(some), delimiter)), *empty)

    def one_of(self, keys: list[str]) -> ir.Node:
        bare = ir.Literals(tuple(key.encode() for key in keys if is_bare_key(key)))
        quoted = ir.Literals(tuple(text for key in keys if not is_bare_key(key) for text in self.literal(key)))
        return ir.alt(ir.Lexeme(bare), self.whole(quoted))


def is_bare_key(key: str) -> bool:
    """Whether a key can stand without quotes before a colon."""
    return bool(key) and is_name(key, True, "()[]{}\"',=:") and key == key.strip()


@lru_cache(maxsize=64)
def spelling_of(quote: str, escapes: bool) -> Spelling:
    return PythonSpelling(quote) if escapes else DelimitedSpelling(quote)


def object_rules(
    schema: Any, prefix: str, spelled: Spelling, on_unsupported: str, additional: str, limits: Limits | Work
) -> SchemaRules:
    """`{K:V,K:V}`: the arguments as an object of the notation."""
    return schema_rules(
        schema,
        prefix,
        on_unsupported=on_unsupported,
        additional=additional,
        limits=limits,
        spelled=spelled,
        for_tool=True,
    )


def keyword_rules(
    schema: Any, prefix: str, spelled: Spelling, on_unsupported: str, additional: str, limits: Limits | Work
) -> SchemaRules:
    """`K=V, K=V`: the arguments as a call's keyword arguments, without the brackets around."""
    reporter = Reporter(cast("OnUnsupported", on_unsupported))
    document = Document(schema, limits, foreign_types=True)
    lowering = Lowering(document, spelled, reporter, document.work, prefix, additional)
    lowering.hold_to_objects()
    goals = lowering.goals
    goal = goals.goal([document.root])
    options = [_keywords(lowering, facts, prefix, goal) for facts in goals.alternatives(goal) if facts.types & f.OBJECT]
    lowering.drain()
    rules = {**lowering.rules, **spelled.any_rules(), prefix + "root": ir.alt(*options)}
    return SchemaRules(rules, prefix + "root", keyword_report(document, reporter), dict(lowering.sources))


def _keywords(lowering: Lowering, facts: f.Facts, prefix: str, goal: f.Goal) -> ir.Node:
    if facts.values:
        raise UnsupportedError(
            "an enumeration of whole argument objects cannot be written as keyword arguments",
            code="schema_unsupported",
            pointer=facts.values[0].pointer,
        )
    gap = lowering.spelling.gap
    for some in (some for every in facts.members for some in every.some):
        reason = "that some argument is of a kind cannot be enforced in this format"
        lowering.reporter.unsupported(some.site.pointer, reason, kind="over")
    planned = plan(lowering, facts, [], goal)
    if planned is None:
        return ir.NEVER
    pairs: list[tuple[str, ir.Node, bool]] = []
    for key, value, is_required in planned.members:
        if key.isidentifier():
            pairs.append((key, seq(ir.Bytes(key.encode() + b"="), lowering.node(value), gap), is_required))
        elif key in planned.keys:
            raise UnsupportedError(
                f"the property {key[:80]!r} cannot be written as a keyword argument", code="schema_unsupported"
            )
    others: list[ir.Node] = []
    for one in planned.classes:
        if one.only:
            names: ir.Node = ir.Lexeme(ir.Literals(tuple(key.encode() for key in one.only if key.isidentifier())))
        else:
            taken = [ir.Not(ir.Literals(tuple(key.encode() for key in planned.keys)))] if planned.keys else []
            parts = (NAME, *one.languages, *taken)
            names = ir.Distinct(ir.Lexeme(ir.And(parts) if len(parts) > 1 else NAME))
        others.append(seq(names, ir.Bytes(b"="), lowering.node(one.goal), gap))
    name = lowering.rule(prefix + "arguments", ir.EMPTY).name
    other = ir.alt(*others) if others else None
    if planned.presence.is_anything:
        return members(lowering, name, [(node, is_required) for _, node, is_required in pairs], other)
    return counted_members(lowering, name, pairs, other, planned.presence)


# The text of values.


def python_string(text: str, quote: str) -> str:
    """A string as Python's literal, characters beyond ASCII as they are."""
    if quote == '"':
        return '"' + json_text.minimal(text).decode("utf-8", "surrogatepass") + '"'
    for raw, escaped in (("\\", "\\\\"), (quote, "\\" + quote), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(raw, escaped)
    return quote + text + quote


def literal_text(value: Any, quote: str, escapes: bool) -> str:
    """A value as the notation writes it. An explicit stack: values may be deep."""
    comma, colon = (", ", ": ") if escapes else (",", ":")
    parts: list[str] = []
    todo: list[tuple[bool, Any]] = [(True, value)]  # (whether it is a value, not text)
    while todo:
        is_value, item = todo.pop()
        if not is_value:
            parts.append(item)
        elif isinstance(item, str):
            parts.append(python_string(item, quote) if escapes else quote + item + quote)
        elif isinstance(item, dict):
            inner: list[tuple[bool, Any]] = [(False, "{")]
            for k, (key, member) in enumerate(item.items()):
                bare = not escapes and is_bare_key(str(key))
                inner += [(False, comma if k else ""), (not bare, str(key)), (False, colon), (True, member)]
            todo += reversed([*inner, (False, "}")])
        elif isinstance(item, (list, tuple)):
            inner = [(False, "[")]
            for k, member in enumerate(item):
                inner += [(False, comma if k else ""), (True, member)]
            todo += reversed([*inner, (False, "]")])
        elif item is None or isinstance(item, bool):
            parts.append(str(item) if escapes else {None: "null", True: "true", False: "false"}[item])
        else:
            parts.append(str(item))
    return "".join(parts)
