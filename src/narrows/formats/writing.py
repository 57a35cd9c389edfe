"""From a format and a request's tools to the grammar of what the model may write: the canonical language of the format.

    turn  = [reasoning] text [calls]     tool_choice "auto"
          | [reasoning] calls            "required"; one call of the tool where one is named
          | [reasoning] text             "none", or no tools

The parser reads all of it exactly: free text leaves out whatever the parser would take for a marker.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from narrows.errors import GrammarError, InputError, LimitError, UnsupportedError
from narrows.formats.families.base import Build, Entry
from narrows.formats.parameters import TEXT, ParameterRules, beginning, beginning_node, containing, ending, without
from narrows.formats.prompt import open_part
from narrows.formats.reading import BRACKETS
from narrows.formats.render import heading
from narrows.formats.spelling import json_text
from narrows.grammar import ir
from narrows.grammar.embed import embedded
from narrows.grammar.json_schema import SchemaRules, schema_rules
from narrows.grammar.json_schema.report import Status
from narrows.grammar.quotient import quotient
from narrows.grammar.work import Work
from narrows.stream.ids import insisted_length
from narrows.value_types import NOWHERE

if TYPE_CHECKING:
    from narrows.formats.format import Format, ReasoningStyle
    from narrows.formats.parameters import Wire
    from narrows.grammar.grammar import Grammar
    from narrows.limits import Limits
    from narrows.tools.request import Choice, Tool, Tools

_NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}
"""OpenAI: a tool that declares no parameters takes none."""
BY_TOOL = "by_tool"
"""What cannot be enforced is an error where the tool says `strict`, and ignored elsewhere."""
_NAME_CHARACTERS = string.ascii_letters + string.digits + "_.:/-"
_NAME = ir.Repeat(ir.byte_set(_NAME_CHARACTERS.encode()), 1, 64)
"""Names of calls where no tools were given."""


class Lowering:
    """One request on its way to rules; the families' vocabulary for grammars."""

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
        letters = ir.byte_set(b"".join(c.encode() for c in _NAME_CHARACTERS if c not in without_characters))
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
        """One call, or several, with the layout between them or without it (models differ, and it means nothing)."""
        if not many:
            return call
        marked = any(token in between for token in self.tokens)
        gap = ir.optional(self.marker(between) if marked else self.text(between)) if between else ir.EMPTY
        return self.several(call, ir.seq(gap, call))

    def separated(self, item: ir.Node, many: bool, separator: str) -> ir.Node:
        """One item, or several with the separator between them."""
        return self.several(item, ir.seq(self.text(separator), item)) if many else item

    def several(self, first: ir.Node, further: ir.Node) -> ir.Node:
        """The first call and further ones, as many as an answer may have: a state each, where that is bounded. A family that repeats calls
        does it by this, or by one of those above."""
        if self.most is not None and self.most <= 1:
            return first
        return ir.seq(first, ir.Repeat(further, 0, None if self.most is None else self.most - 1))

    # Arguments.

    def arguments(self, tool: Tool | None) -> ir.Node:
        """A call's arguments as JSON, by the tool's schema."""
        name = f"{self._name(tool)}/arguments"
        if name not in self.rules:
            made = self._checked(tool, lambda schema, how: schema_rules(
                schema, name + "/", on_unsupported=how, additional=self._additional, limits=self.work, foreign_types=True
            ))  # fmt: skip
            self._add(tool, made.rules, made.sources, made.report)
            self.rules[name] = ir.Ref(made.start)
        return ir.Ref(name)

    def json_string(self) -> ir.Node:
        """Any JSON string."""
        made = schema_rules({"type": "string"}, "string/", on_unsupported="error", limits=self.work)
        self.rules.update(made.rules)
        return ir.Ref(made.start)

    def quoted_name(self, tool: Tool | None) -> ir.Node:
        """A call's name as a JSON string."""
        if tool is None:
            return ir.Lexeme(ir.Seq((ir.Bytes(b'"'), _NAME, ir.Bytes(b'"'))))
        return ir.Bytes(b'"' + _encoded(tool.name) + b'"')

    def parameters(
        self, form: str, wire: Wire, tool: Tool | None, rules: type[ParameterRules] = ParameterRules
    ) -> ir.Node:
        """A call's arguments as tags around bare text."""
        name = f"{self._name(tool)}/parameters/{form}"
        if name not in self.rules:
            made = self._checked(tool, lambda schema, how: rules(
                schema,
                name + "/",
                wire,
                tool.place if tool is not None else NOWHERE,
                key_characters=_NAME,
                on_unsupported=how,
                additional=self._additional,
                limits=self.work,
            ))  # fmt: skip
            self._add(tool, made.rules, made.sources, made.report())
            self.rules[name] = made.node
        return ir.Ref(name)

    def arguments_by(
        self, part: str, make: Callable[[Any, str, str, str, Work], SchemaRules], tool: Tool | None
    ) -> ir.Node:
        """A call's arguments in a notation of the family's own: `make(schema, prefix, on_unsupported, additional, work)`."""
        name = f"{self._name(tool)}/{part}"
        if name not in self.rules:
            made = self._checked(tool, lambda schema, how: make(schema, name + "/", how, self._additional, self.work))
            self._add(tool, made.rules, made.sources, made.report)
            self.rules[name] = made.node
        return ir.Ref(name)

    def _name(self, tool: Tool | None) -> str:
        return f"tool/{self._positions[tool.name]}" if tool is not None else "tool/any"

    def _pointer(self, tool: Tool) -> str:
        return f"/tools/{self._positions[tool.name]}/function/parameters"

    def _checked(self, tool: Tool | None, make: Callable[[Any, Any], Any]) -> Any:
        """`make(schema, on_unsupported)`, for a tool's arguments. An error says whose. What cannot be written in this format at all is
        left out where the tool takes that: then the arguments are any object."""
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
        found = [(begin, -len(token)) for token in tokens if (begin := marker.find(token, at)) >= 0]
        if not found:
            break
        begin, length = min(found)
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


def turn_grammar(
    fmt: Format,
    table: Tools,
    choice: Choice,
    parallel: bool,
    style: ReasoningStyle | None,
    prompt: str,
    on_unsupported: str,
    additional: str,
    limits: Limits,
    content: Grammar | None = None,
    max_calls: int | None = None,
) -> Grammar:
    """See `Format.grammar`."""
    from narrows.grammar.grammar import Grammar

    has_calls = table.tools != {} and choice.mode != "none"
    if not has_calls and choice.mode in ("required", "named"):
        raise InputError("a call is required, but there are no tools", code="tools_missing", pointer="/tools")
    lowering = Lowering(table, on_unsupported, additional, limits)
    lowering.tokens = (*fmt.tokens, *(style.tokens if style is not None else ()))
    lowering.ids = fmt.ids
    lowering.named = choice.name if has_calls and choice.mode == "named" else None
    place, call_begins_at, begun, prompt_calls = start_place(fmt, style, prompt, has_calls, lowering.named)
    if max_calls is not None:
        lowering.most = _calls_left(max_calls, place, *prompt_calls)
    calls: ir.Node = ir.NEVER
    later_calls: ir.Node = ir.NEVER
    if has_calls:
        calls = later_calls = ir.Ref("calls")
        now, later = _calls(fmt, table, choice, parallel, lowering)
        lowering.rules["calls"] = ir.alt(*now, *later)
        if now:
            later_calls = ir.Ref("later calls")
            lowering.rules["later calls"] = ir.alt(*later)
    rules = lowering.rules
    begin = entries(fmt, table, lowering.named) if has_calls else []
    openers = [entry.opener or entry.marker for entry in begin if not entry.at_start]
    first = list(dict.fromkeys(entry.opener or entry.marker for entry in begin if entry.at_start))
    rules["turn"] = _turn(fmt, choice, calls, later_calls, has_calls, openers, first, style, lowering)
    if content is not None and choice.mode not in ("required", "named"):
        rules["turn"] = _held_turn(fmt, content, calls, has_calls, style, prompt, lowering)
    start: ir.Node = ir.Ref("turn")
    if style is not None:
        rules["reasoning"] = _reasoning(style, openers, first, lowering)
    if place == "reasoning":
        start = ir.seq(ir.Ref("reasoning"), start)
    elif place == "opening" and style is not None:
        opener, closer = style.pairs[0]
        alone = [ir.seq(lowering.marker(closer), _after_close(style), start)] if style.close_alone else []
        before = lowering.optional(lowering.text(style.before_open)) if style.before_open else ir.EMPTY
        start = ir.alt(ir.seq(before, lowering.marker(opener), ir.Ref("reasoning"), start), *alone, start)
    elif place == "wrapped" and style is not None:
        start = _rest_of_wrapped(style, False, openers, lowering)
        if content is not None:
            raise UnsupportedError(
                "the prompt has begun the content, which has a grammar of its own", code="content_unsupported"
            )
        if has_calls:
            more = ir.seq(_rest_of_wrapped(style, True, openers, lowering), calls)
            start = ir.alt(start, more) if choice.mode == "auto" else more
    elif place == "after":
        more = ir.optional(ir.seq(ir.optional(lowering.text(fmt.between)), later_calls))
        start = more if has_calls and parallel and lowering.most != 0 else ir.EMPTY
    elif place in ("call", "closing"):
        starts = [
            *(entry.marker for entry in begin),
            *(shape.open for shape in fmt.written if shape.open),
            *heading(fmt),
        ]
        start = _rest_of_call(rules, open_part(prompt, fmt, style)[call_begins_at:], starts)
    if begun.strip() and place not in ("call", "closing"):
        start = _behind(rules, start, begun)
    if fmt.ends and (has_calls or style is not None):
        start = ir.seq(start, ir.optional(lowering.marker(fmt.ends[0])))
    rules["root"] = start
    ordered = {"root": rules.pop("root"), **rules}
    return Grammar(ir.Module(ordered, "root", lowering.sources), lowering.report, lowering.work.spent)


def _calls_left(most: int, place: str, before: int, begun: int) -> int:
    """How many calls the rules may write, where the prompt has begun some. Those that stand in the markup that is open at its end count
    among them; a call that has begun may always come to its end."""
    if place == "after":
        return max(most - begun, 0)
    return max(most - before, begun - before, 1) if place in ("call", "closing") else most


def _calls(
    fmt: Format, table: Tools, choice: Choice, parallel: bool, lowering: Lowering
) -> tuple[list[ir.Node], list[ir.Node]]:
    """The ways of writing calls that count at the beginning of an answer alone, and those that count everywhere."""
    tools: list[Tool | None] = [None] if table.tools is None else list(table.tools.values())
    if choice.mode == "named" and table.tools is not None:
        tools = [table.tools[choice.name or ""]]
    many = parallel and choice.mode != "named"
    now: list[ir.Node] = []
    later: list[ir.Node] = []
    for shape in fmt.written:
        options = [shape.call(lowering, tool) for tool in tools]
        rule = f"call/{shape.form}"
        lowering.rules[rule] = ir.alt(*options)
        forms = now if getattr(shape, "at_start", False) else later
        forms.append(shape.calls(lowering, ir.Ref(rule), many, fmt.between))
    return now, later


def entries(fmt: Format, table: Tools | None = None, named: str | None = None) -> list[Entry]:
    """The ways into a call, as they stand in a text."""
    names = tuple(table.tools) if table is not None and table.tools is not None else None
    head = fmt.reasoning.head if fmt.reasoning is not None else None
    build = Build(lambda marker: marker, parallel=True, named=named, names=names, head=head)
    return [entry for shape in fmt.calls for entry in shape.entries(build)]


def _holding(openers: Iterable[str | ir.Node]) -> ir.Node:
    """Any bytes with one of these somewhere."""
    texts = containing(opener for opener in openers if isinstance(opener, str))
    anything = ir.Repeat(ir.ANY_BYTE)
    nodes = [ir.Seq((anything, opener, anything)) for opener in openers if not isinstance(opener, str)]
    return ir.alt(texts, *nodes)


def _turn(
    fmt: Format,
    choice: Choice,
    calls: ir.Node,
    later_calls: ir.Node,
    has_calls: bool,
    openers: Sequence[str | ir.Node],
    at_start: list[str | ir.Node],
    style: ReasoningStyle | None,
    lowering: Lowering,
) -> ir.Node:
    """An answer without reasoning."""
    if choice.mode in ("required", "named"):
        return calls
    banned: list[ir.Node] = []
    wraps = style.wraps if style is not None else ()
    thoughts = [opener for opener, _ in (*style.pairs, *wraps)] if style is not None else []
    thoughts += [*style.empty, *_heads(style)] if style is not None else []
    anywhere = [*openers, *(thoughts if style is not None and style.anywhere else ())]
    if style is None and fmt.reasoning is not None and at_start:
        # Behind a closer that stays in the text, calls may begin.
        anywhere += [closer for _, closer in fmt.reasoning.pairs]
    heads = heading(fmt)
    ends = fmt.ends if has_calls or style is not None else ()
    if anywhere or heads or ends:
        banned.append(_holding([*anywhere, *heads, *ends]))
    first = [] if style is None or style.anywhere else list(thoughts)
    first += [closer for _, closer in style.pairs] if style is not None and style.close_alone else []
    first += [style.head.recipient, style.head.message] if style is not None and style.head is not None else []
    first += [opener for opener in at_start if isinstance(opener, str)]
    if first:
        banned.append(beginning(first))
    banned += [beginning_node(opener) for opener in at_start if not isinstance(opener, str)]
    text: ir.Node = ir.Lexeme(without(TEXT, *banned))
    bare: ir.Node = text
    if has_calls:
        overlaps = [m[:n] for m in openers if isinstance(m, str) for n in range(1, len(m)) if m.startswith(m[n:])]
        before = ir.Lexeme(without(TEXT, *banned, ending(overlaps))) if overlaps else text
        bare = ir.alt(text, ir.seq(before, later_calls)) if overlaps else ir.seq(text, ir.optional(later_calls))
    texts = [shape.text(lowering) for shape in fmt.calls if hasattr(shape, "text")] if has_calls else []
    if texts:
        bare = ir.alt(*texts)
    if heads:
        bare = ir.alt(ir.seq(lowering.text(heads[0]), bare), bare)
    if at_start:
        bare = ir.alt(bare, calls)
    if style is None or not wraps:
        return bare
    options = [ir.seq(lowering.marker(style.wrap(False)[0]), _rest_of_wrapped(style, False, openers, lowering))]
    if has_calls:
        gap = ir.optional(lowering.text(fmt.before)) if fmt.before else ir.EMPTY
        opener = lowering.marker(style.wrap(True)[0])
        options.append(ir.seq(opener, _rest_of_wrapped(style, True, openers, lowering), gap, calls))
    if style.content_bare:
        options.append(bare)
    elif has_calls:
        options.append(calls)
    return ir.alt(*options)


def _held_turn(
    fmt: Format,
    content: Grammar,
    calls: ir.Node,
    has_calls: bool,
    style: ReasoningStyle | None,
    prompt: str,
    lowering: Lowering,
) -> ir.Node:
    """An answer without reasoning whose content has a grammar of its own: that, or calls."""
    begun = open_part(prompt, fmt, style)
    said = fmt.parse(begun, [], reasoning=style.name if style is not None else None).content or ""
    if said.strip() or any(hasattr(shape, "text") for shape in fmt.calls):
        raise UnsupportedError(
            "the prompt has begun the content, which has a grammar of its own"
            if said.strip()
            else f"{fmt.name} has text in a form of its own, which cannot be held to a grammar",
            code="content_unsupported",
            hint="Leave the content's grammar out",
        )
    made, body, sources = embedded(content.module, "content/")
    lowering.rules.update(made)
    lowering.sources.update({rule: f"/content{pointer}" for rule, pointer in sources.items()})
    lowering.report.update({f"/content{pointer}": status for pointer, status in content.report.items()})
    options: list[ir.Node] = [body]
    if style is not None and style.wraps:
        opener, closer = style.wrap(False)
        inside = lowering.text(style.inside_content)
        options = [ir.seq(lowering.marker(opener), inside, body, inside, lowering.marker(closer))]
        options += [body] if style.content_bare else []
    options += [ir.seq(lowering.text(head), body) for head in heading(fmt)]
    return ir.alt(*options, *([calls] if has_calls else []))


def _rest_of_wrapped(
    style: ReasoningStyle, calls_follow: bool, openers: Sequence[str | ir.Node], lowering: Lowering
) -> ir.Node:
    """Content that is set off, from behind its opener to behind its closer."""
    closer = style.wrap(calls_follow)[1]
    banned = [*(end for _, end in style.wraps), *(openers if style.calls_in_content == "end" else ()), *_starts(style)]
    text, inside = ir.Lexeme(without(TEXT, _holding(banned))), lowering.text(style.inside_content)
    return ir.seq(inside, text, inside, lowering.marker(closer))


def _reasoning(
    style: ReasoningStyle, openers: Sequence[str | ir.Node], at_start: Sequence[str | ir.Node], lowering: Lowering
) -> ir.Node:
    """From behind the opener to behind the closer."""
    contents = [opener for opener, _ in style.wraps]
    banned = [*(closer for _, closer in style.pairs), *(openers if style.calls == "end" else ()), *_starts(style)]
    banned += contents if style.content == "end" else []
    if style.content == "line":
        banned += [line for opener in contents for line in ("\n" + opener, opener + "\n")]
    # Before any reasoning, every opener counts.
    other = [*(opener for opener, _ in style.pairs), *style.empty, *_heads(style), *_words(openers)]
    other += [opener for opener in contents if opener.strip()]
    other += [opener for opener in at_start if isinstance(opener, str) and opener not in BRACKETS]
    other = [opener for opener in other if opener not in banned]
    nodes = _at_beginning(openers) if style.calls != "end" else []
    nodes += [beginning_node(opener) for opener in at_start if not isinstance(opener, str)]
    inside = ir.Lexeme(without(TEXT, _holding(banned), beginning(other), *nodes))
    return ir.seq(inside, lowering.marker(style.pairs[0][1]), _after_close(style))


def _starts(style: ReasoningStyle) -> list[str]:
    return [style.message_start] if style.message_start else []


def _heads(style: ReasoningStyle) -> list[str]:
    """What begins a head of a message, besides the openers."""
    return [style.head.start, style.head.channel] if style.head is not None else []


def _words(openers: Iterable[str | ir.Node]) -> list[str]:
    return [opener for opener in openers if isinstance(opener, str)]


def _at_beginning(openers: Iterable[str | ir.Node]) -> list[ir.Node]:
    """Any bytes that begin, behind blanks, with one of those openers that are more than a literal."""
    blanks, anything = ir.Repeat(ir.byte_set(b" \t\n\r")), ir.Repeat(ir.ANY_BYTE)
    return [ir.Seq((blanks, opener, anything)) for opener in openers if not isinstance(opener, str)]


def _after_close(style: ReasoningStyle) -> ir.Node:
    """At most the layout that may stand behind a closer."""
    layout = tuple(style.after_close[:n].encode() for n in range(len(style.after_close) + 1))
    return ir.Literals(layout) if style.after_close else ir.EMPTY


_LONGEST_CALL = 4_096
"""Bytes of a call in the prompt that a grammar goes on from: some 0.1 ms each."""


def _rest_of_call(rules: dict[str, ir.Node], begun: str, openers: list[str]) -> ir.Node:
    """What may follow a call that the prompt has begun. Adds to the rules."""
    at = min((found for opener in openers if (found := begun.find(opener)) >= 0), default=-1)
    data = begun[at:].encode("utf-8", "surrogatepass")
    if at >= 0 and len(data) <= _LONGEST_CALL:
        made, start = quotient(rules, "turn", data)
        if made[start] != ir.NEVER:
            rules.update(made)
            return ir.Ref(start)
    raise UnsupportedError(
        "the prompt ends inside a call that is not spelled as the grammar spells calls",
        code="prompt_inside_call",
        hint=f"Spell it as `render` does, in at most {_LONGEST_CALL:,} bytes, or begin the call in the answer",
    )


def _behind(rules: dict[str, ir.Node], start: ir.Node, begun: str) -> ir.Node:
    """What may follow text that may be the beginning of a marker. Adds to the rules."""
    for text in (begun.lstrip(), begun):  # blanks before a marker are layout, unless they are part of it
        made, name = quotient({**rules, "answer": start}, "answer", text.encode("utf-8", "surrogatepass"))
        if made[name] != ir.NEVER:
            rules.update(made)
            return ir.Ref(name)
    return start


def start_place(
    fmt: Format, style: ReasoningStyle | None, prompt: str, has_calls: bool, named: str | None = None
) -> tuple[str, int, str, tuple[int, int]]:
    """Where the prompt leaves the answer: "opening" (nothing yet), "reasoning", "content" (reasoning is over, or was never there),
    "wrapped" (content that is set off), "call" (inside one), "closing" (behind one whose closing marker, or list's end, is due), "after" (a call); where the last call begins in `open_part`; what its
    end may be the beginning of; and how many calls it has begun (see `StreamParser.prompt_calls`)."""
    name = style.name if style is not None else None
    choice = {"function": {"name": named}} if named is not None else "auto"
    parser = fmt.parser(None if has_calls else [], tool_choice=choice, reasoning=name, prompt=prompt)
    parser.feed("")
    text = open_part(prompt, fmt, style)
    begun = parser.unread
    place = "content" if parser.place == "opening" and text.lstrip() != begun.lstrip() else parser.place
    return place, max(len(text) + parser.call_begins_at, 0), begun, parser.prompt_calls
