"""What families of wire formats write grammars with: one request on its way to rules.

A family asks for the pieces of a call (a marker, a name, a tool's arguments) and puts them together; what is the same
for several calls becomes one rule. Cost: that of the tools' schemas, each read once.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from narrows.errors import GrammarError, InputError, LimitError, UnsupportedError
from narrows.formats.parameters import ParameterRules
from narrows.formats.spelling import json_text
from narrows.grammar import ir
from narrows.grammar.embed import embedded
from narrows.grammar.in_json_string import in_json_string
from narrows.grammar.json_schema import SchemaRules, schema_rules
from narrows.grammar.json_schema.report import Status
from narrows.grammar.languages import front_end
from narrows.grammar.work import Work
from narrows.stream.ids import insisted_length
from narrows.tools.request import INPUT
from narrows.value_types import NOWHERE

if TYPE_CHECKING:
    from narrows.formats.parameters import Wire
    from narrows.limits import Limits
    from narrows.tools.request import Tool, Tools

_NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}
"""OpenAI: a tool that declares no parameters takes none."""
BY_TOOL = "by_tool"
"""What cannot be enforced is an error where the tool says `strict`, and ignored elsewhere."""
NAME_CHARACTERS = string.ascii_letters + string.digits + "_.:/-"
NAME = ir.Repeat(ir.byte_set(NAME_CHARACTERS.encode()), 1, 64)
"""Names of calls where no tools were given."""


class RuleWriter:
    """One request on its way to rules. `rules`, `sources` and `report` are what it has come to."""

    def __init__(self, table: Tools, on_unsupported: str, additional: str, limits: Limits) -> None:
        self.rules: dict[str, ir.Node] = {}
        self.sources: dict[str, str] = {}
        self.report: dict[str, Any] = {}
        self.named: str | None = None
        """The tool that the request names."""
        self.tokens: tuple[str, ...] = ()
        """Parts of markers that vocabularies hold as single tokens."""
        self.ids = "openai"
        """The style of the format's ids."""
        self.most: int | None = None
        """Calls that an answer may have, where that is bounded."""
        self._positions = {name: i for i, name in enumerate(table.tools or ())}
        self._on_unsupported = on_unsupported
        self._additional = additional
        self.work = Work(limits)
        """Of all tools together."""

    # Pieces.

    def seq(self, *items: ir.Node) -> ir.Node:
        return ir.seq(*items)

    def optional(self, *items: ir.Node) -> ir.Node:
        return ir.optional(ir.seq(*items))

    def text(self, text: str) -> ir.Node:
        """Exactly these characters, never as a special token."""
        return ir.Bytes(text.encode())

    def marker(self, marker: str) -> ir.Node:
        """A marker: the special token of this name, or its characters. An empty one is no marker."""
        return marker_node(marker, self.tokens) if marker else ir.EMPTY

    def word(self, without_characters: str = "") -> ir.Node:
        """A name or an id of which nothing is known, but that it has none of these characters."""
        letters = ir.byte_set(b"".join(c.encode() for c in NAME_CHARACTERS if c not in without_characters))
        return ir.Lexeme(ir.Repeat(letters, 1, 64))

    def call_id(self) -> ir.Node:
        """The id of a call: as the templates insist on, or any word."""
        length = insisted_length(self.ids)
        if not length:
            return self.word()
        return ir.Lexeme(ir.Repeat(ir.byte_set((string.ascii_letters + string.digits).encode()), length, length))

    def number(self) -> ir.Node:
        """A running number."""
        return ir.Lexeme(ir.Repeat(ir.byte_set((0x30, 0x39)), 1, 9))

    def either(self, *nodes: ir.Node) -> ir.Node:
        return ir.alt(*nodes)

    def repeated(self, call: ir.Node, many: bool, between: str) -> ir.Node:
        """One call, or several with the layout between them. Whitespace may be left out (models differ, and it means
        nothing); markup may not, for without it the parser reads no further call."""
        if not many:
            return call
        marked = any(token in between for token in self.tokens)
        gap = self.marker(between) if marked else self.text(between)
        return self.several(call, ir.seq(gap if between.strip() else ir.optional(gap), call))

    def separated(self, item: ir.Node, many: bool, separator: str) -> ir.Node:
        """One item, or several with the separator between them."""
        return self.several(item, ir.seq(self.text(separator), item)) if many else item

    def several(self, first: ir.Node, further: ir.Node) -> ir.Node:
        """The first call and further ones, as many as an answer may have: a state each, where that is bounded. A family
        that repeats calls does it by this, or by one of those above."""
        if self.most is not None and self.most <= 1:
            return first
        return ir.seq(first, ir.Repeat(further, 0, None if self.most is None else self.most - 1))

    # Arguments.

    def arguments(self, tool: Tool | None) -> ir.Node:
        """A call's arguments as JSON, by the tool's schema."""
        name = f"{self._name(tool)}/arguments"
        if tool is not None and tool.input is not None:
            return self._input(tool, tool.input, name)
        if name not in self.rules:
            written = self._checked(tool, lambda schema, how: schema_rules(
                schema, name + "/", on_unsupported=how, additional=self._additional, limits=self.work,
                for_tool=True
            ))  # fmt: skip
            self._add(tool, written.rules, written.sources, written.report)
            self.rules[name] = ir.Ref(written.start)
        return ir.Ref(name)

    def _input(self, tool: Tool, given: tuple[str, str], name: str) -> ir.Node:
        """The arguments of a tool whose `input` has a grammar, in the spelling of most templates."""
        if name not in self.rules:
            front = front_end(given[0])
            try:
                module, _ = front.read(given[1], self.work, **front.of_those({"dialect": "rust"}))
                rules, start, sources = embedded(in_json_string(module), name + "/")
            except (GrammarError, InputError, LimitError) as error:
                error.pointer = f"/tools/{self._positions[tool.name]}/function/{INPUT}"
                raise
            self.rules.update(rules)
            self.sources.update(sources)
            self.rules[name] = ir.seq(ir.Bytes(b'{"input": "'), start, ir.Bytes(b'"}'))
        return ir.Ref(name)

    def json_string(self) -> ir.Node:
        """Any JSON string."""
        written = schema_rules({"type": "string"}, "string/", on_unsupported="error", limits=self.work)
        self.rules.update(written.rules)
        return ir.Ref(written.start)

    def quoted_name(self, tool: Tool | None) -> ir.Node:
        """A call's name as a JSON string."""
        if tool is None:
            return ir.Lexeme(ir.Seq((ir.Bytes(b'"'), NAME, ir.Bytes(b'"'))))
        return ir.Bytes(b'"' + _encoded(tool.name) + b'"')

    def parameters(
        self, form: str, wire: Wire, tool: Tool | None, rules: type[ParameterRules] = ParameterRules
    ) -> ir.Node:
        """A call's arguments as tags around bare text."""
        self._refuse_input(tool)
        name = f"{self._name(tool)}/parameters/{form}"
        if name not in self.rules:
            written = self._checked(tool, lambda schema, how: rules(
                schema,
                name + "/",
                wire,
                tool.place if tool is not None else NOWHERE,
                key_characters=NAME,
                on_unsupported=how,
                additional=self._additional,
                limits=self.work,
            ))  # fmt: skip
            self._add(tool, written.rules, written.sources, written.report())
            self.rules[name] = written.node
        return ir.Ref(name)

    def arguments_by(
        self, part: str, make: Callable[[Any, str, str, str, Work], SchemaRules], tool: Tool | None
    ) -> ir.Node:
        """A call's arguments in a notation of the family's own: `make(schema, prefix, on_unsupported, additional,
        work)`."""
        self._refuse_input(tool)
        name = f"{self._name(tool)}/{part}"
        if name not in self.rules:
            written = self._checked(
                tool, lambda schema, how: make(schema, name + "/", how, self._additional, self.work)
            )
            self._add(tool, written.rules, written.sources, written.report)
            self.rules[name] = written.node
        return ir.Ref(name)

    def _name(self, tool: Tool | None) -> str:
        return f"tool/{self._positions[tool.name]}" if tool is not None else "tool/any"

    def _pointer(self, tool: Tool) -> str:
        return f"/tools/{self._positions[tool.name]}/function/parameters"

    def _refuse_input(self, tool: Tool | None) -> None:
        """For notations whose strings are no JSON."""
        if tool is not None and tool.input is not None:
            raise UnsupportedError(
                "the model's format does not write arguments as JSON, so a tool's input cannot have a grammar",
                code="input_unsupported",
                pointer=f"/tools/{self._positions[tool.name]}/function/{INPUT}",
                hint="Leave the format out",
            )

    def _checked(self, tool: Tool | None, make: Callable[[Any, Any], Any]) -> Any:
        """`make(schema, on_unsupported)`, for a tool's arguments. An error says whose. What cannot be written in this
        format at all is left out where the tool takes that: then the arguments are any object."""
        how = self._on_unsupported
        if how == BY_TOOL:
            how = "ignore" if tool is not None and not tool.strict else "error"
        try:
            return make(_arguments_schema(tool), how)
        except (GrammarError, LimitError) as error:
            if tool is None:
                raise
            if error.code == "schema_unsupported" and how != "error":
                self.report[self._pointer(tool)] = Status("ignored", error.message)
                return make({"type": "object"}, how)
            error.pointer = self._pointer(tool) + (error.pointer or "")
            raise

    def _add(
        self, tool: Tool | None, rules: dict[str, ir.Node], sources: dict[str, str], report: dict[str, Any]
    ) -> None:
        self.rules.update(rules)
        at = self._pointer(tool) if tool is not None else ""
        self.sources.update({rule: at + pointer for rule, pointer in sources.items()})
        if tool is not None:
            for pointer, status in report.items():
                self.report.setdefault(at + pointer, status)


def marker_node(marker: str, tokens: tuple[str, ...]) -> ir.Node:
    """A marker: itself where it may be one token, else its parts, of which some may be tokens and the rest is text."""
    parts: list[ir.Node] = []
    at = 0
    while at < len(marker):
        places = [(begin, -len(token)) for token in tokens if (begin := marker.find(token, at)) >= 0]
        if not places:
            break
        begin, length = min(places)
        parts += [ir.Bytes(marker[at:begin].encode()), ir.Marker(marker[begin : begin - length])]
        at = begin - length
    if not parts:
        return ir.Marker(marker)
    return ir.seq(*parts, ir.Bytes(marker[at:].encode()))


def _encoded(name: str) -> bytes:
    try:
        return json_text(name)[1:-1].encode()
    except UnicodeEncodeError:
        raise InputError(f"the tool name {name!r} holds a lone surrogate", code="tools_invalid") from None


def _arguments_schema(tool: Tool | None) -> Any:
    """The schema of a call's arguments, which are an object whatever it says."""
    if tool is None:
        return {"type": "object"}
    schema = _NO_PARAMETERS if tool.parameters is None else tool.parameters
    if schema is True:
        return {"type": "object"}
    return {**schema, "type": "object"} if isinstance(schema, dict) and "type" not in schema else schema
