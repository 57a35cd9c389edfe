"""From a format and a request's tools to the grammar of what the model may write: the canonical language of the format.

    turn  = [reasoning] text [calls]     tool_choice "auto"
          | [reasoning] calls            "required"; one call of the tool where one is named
          | [reasoning] text             "none", or no tools

The parser reads all of it exactly: free text leaves out whatever the parser would take for a marker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from narrows.errors import InputError, UnsupportedError
from narrows.formats.parameters import beginning, beginning_node
from narrows.formats.prompt import content_begun, start_of
from narrows.formats.reading import BRACKETS
from narrows.formats.rule_writer import RuleWriter
from narrows.grammar import ir
from narrows.grammar.embed import embedded
from narrows.grammar.free_text import TEXT, containing, ending, without
from narrows.grammar.grammar import Grammar
from narrows.grammar.quotient import NamesUnknown, quotient

if TYPE_CHECKING:
    from narrows.formats.definition import FormatDefinition
    from narrows.formats.reasoning import ReasoningStyle
    from narrows.limits import Limits
    from narrows.tools.request import Choice, Tool, Tools


def turn_grammar(
    fmt: FormatDefinition,
    table: Tools,
    choice: Choice,
    style: ReasoningStyle | None,
    *,
    parallel: bool,
    prompt: str,
    on_unsupported: str,
    additional: str,
    limits: Limits,
    content: Grammar | None = None,
    max_calls: int | None = None,
) -> Grammar:
    """See `Format.grammar`."""
    has_calls = table.tools != {} and choice.mode != "none"
    if not has_calls and choice.mode in ("required", "named"):
        raise InputError("a call is required, but there are no tools", code="tools_missing", pointer="/tools")
    writer = RuleWriter(table, on_unsupported, additional, limits)
    writer.tokens = (*fmt.tokens, *(style.tokens if style is not None else ()))
    writer.ids = fmt.ids
    writer.named = choice.name if has_calls and choice.mode == "named" else None
    begin_at = start_of(fmt, style, prompt, calls=has_calls, named=writer.named)
    place, begun = begin_at.place, begin_at.begun
    if max_calls is not None:
        writer.most = _calls_left(max_calls, place, begin_at.calls_before, begin_at.calls_begun)
    calls: ir.Node = ir.NEVER
    later_calls: ir.Node = ir.NEVER
    if has_calls:
        calls = later_calls = ir.Ref("calls")
        now, later = _calls(fmt, table, choice, parallel, writer)
        writer.rules["calls"] = ir.alt(*now, *later)
        if now:
            later_calls = ir.Ref("later calls")
            writer.rules["later calls"] = ir.alt(*later)
    rules = writer.rules
    begin = fmt.openers(tuple(table.tools) if table.tools is not None else None, writer.named) if has_calls else []
    openers = [opener.node or opener.marker for opener in begin if not opener.at_start]
    first = list(dict.fromkeys(opener.node or opener.marker for opener in begin if opener.at_start))
    rules["turn"] = _turn(fmt, choice, calls, later_calls, has_calls, openers, first, style, writer)
    if content is not None and choice.mode not in ("required", "named"):
        rules["turn"] = _held_turn(fmt, content, calls, has_calls, style, begin_at.text, writer)
    start: ir.Node = ir.Ref("turn")
    if style is not None:
        rules["reasoning"] = _reasoning(style, openers, first, writer)
    if place == "reasoning":
        start = ir.seq(ir.Ref("reasoning"), start)
    elif place == "opening" and style is not None:
        opener, closer = style.pairs[0]
        alone = [ir.seq(writer.marker(closer), _after_close(style), start)] if style.close_alone else []
        before = writer.optional(writer.text(style.before_open)) if style.before_open else ir.EMPTY
        start = ir.alt(ir.seq(before, writer.marker(opener), ir.Ref("reasoning"), start), *alone, start)
    elif place == "wrapped" and style is not None:
        start = _rest_of_wrapped(style, False, openers, writer)
        if content is not None:
            raise UnsupportedError(
                "the prompt has begun the content, which has a grammar of its own", code="content_unsupported"
            )
        if has_calls:
            more = ir.seq(_rest_of_wrapped(style, True, openers, writer), calls)
            start = ir.alt(start, more) if choice.mode == "auto" else more
    elif place == "after":
        more = ir.optional(ir.seq(ir.optional(writer.text(fmt.between)), later_calls))
        start = more if has_calls and parallel and writer.most != 0 else ir.EMPTY
    elif place in ("call", "closing"):
        starts = [
            *(opener.marker for opener in begin),
            *(shape.open for shape in fmt.written if shape.open),
            *([fmt.heading] if fmt.heading else ()),
        ]
        start = _rest_of_call(rules, begin_at.text[begin_at.call_at :], starts)
    if begun.strip() and place not in ("call", "closing"):
        start = _after_begun(rules, start, begun)
    if fmt.ends and (has_calls or style is not None):
        start = ir.seq(start, ir.optional(writer.marker(fmt.ends[0])))
    rules["root"] = start
    ordered = {"root": rules.pop("root"), **rules}
    return Grammar(ir.Module(ordered, "root", writer.sources), writer.report, writer.work.spent)


def _calls_left(most: int, place: str, before: int, begun: int) -> int:
    """How many calls the rules may write, where the prompt has begun some. Those that stand in the markup that is open
    at its end count among them; a call that has begun may always come to its end."""
    if place == "after":
        return max(most - begun, 0)
    return max(most - before, begun - before, 1) if place in ("call", "closing") else most


def _calls(
    fmt: FormatDefinition, table: Tools, choice: Choice, parallel: bool, writer: RuleWriter
) -> tuple[list[ir.Node], list[ir.Node]]:
    """The ways of writing calls that count at the beginning of an answer alone, and those that count everywhere."""
    tools: list[Tool | None] = [None] if table.tools is None else list(table.tools.values())
    if choice.mode == "named" and table.tools is not None:
        tools = [table.tools[choice.name or ""]]
    many = parallel and choice.mode != "named"
    now: list[ir.Node] = []
    later: list[ir.Node] = []
    for shape in fmt.written:
        options = [shape.call(writer, tool) for tool in tools]
        rule = f"call/{shape.form}"
        writer.rules[rule] = ir.alt(*options)
        forms = now if shape.at_start else later
        forms.append(shape.calls(writer, ir.Ref(rule), many, fmt.between))
    return now, later


def _holding(openers: Iterable[str | ir.Node]) -> ir.Node:
    """Any bytes with one of these somewhere."""
    texts = containing(opener for opener in openers if isinstance(opener, str))
    anything = ir.Repeat(ir.ANY_BYTE)
    nodes = [ir.Seq((anything, opener, anything)) for opener in openers if not isinstance(opener, str)]
    return ir.alt(texts, *nodes)


def _turn(
    fmt: FormatDefinition,
    choice: Choice,
    calls: ir.Node,
    later_calls: ir.Node,
    has_calls: bool,
    openers: Sequence[str | ir.Node],
    at_start: list[str | ir.Node],
    style: ReasoningStyle | None,
    writer: RuleWriter,
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
        # After a closer that stays in the text, calls may begin.
        anywhere += [closer for _, closer in fmt.reasoning.pairs]
    heads = [fmt.heading] if fmt.heading else []
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
    texts = [node for shape in fmt.calls if (node := shape.text(writer)) is not None] if has_calls else []
    if texts:
        bare = ir.alt(*texts)
    if heads:
        bare = ir.alt(ir.seq(writer.text(heads[0]), bare), bare)
    if at_start:
        bare = ir.alt(bare, calls)
    if style is None or not wraps:
        return bare
    options = [ir.seq(writer.marker(style.wrap(False)[0]), _rest_of_wrapped(style, False, openers, writer))]
    if has_calls:
        gap = ir.optional(writer.text(fmt.before)) if fmt.before else ir.EMPTY
        opener = writer.marker(style.wrap(True)[0])
        options.append(ir.seq(opener, _rest_of_wrapped(style, True, openers, writer), gap, calls))
    if style.content_bare:
        options.append(bare)
    elif has_calls:
        options.append(calls)
    return ir.alt(*options)


def _held_turn(
    fmt: FormatDefinition,
    content: Grammar,
    calls: ir.Node,
    has_calls: bool,
    style: ReasoningStyle | None,
    begun: str,
    writer: RuleWriter,
) -> ir.Node:
    """An answer without reasoning whose content has a grammar of its own: that, or calls."""
    has_content = content_begun(fmt, style, begun)
    if has_content or any(shape.text(writer) is not None for shape in fmt.calls):
        raise UnsupportedError(
            "the prompt has begun the content, which has a grammar of its own"
            if has_content
            else f"{fmt.name} has text in a form of its own, which cannot be held to a grammar",
            code="content_unsupported",
            hint="Leave the content's grammar out",
        )
    embedded_rules, body, sources = embedded(content.module, "content/")
    writer.rules.update(embedded_rules)
    writer.sources.update({rule: f"/content{pointer}" for rule, pointer in sources.items()})
    writer.report.update({f"/content{pointer}": status for pointer, status in content.report.items()})
    options: list[ir.Node] = [body]
    if style is not None and style.wraps:
        opener, closer = style.wrap(False)
        inside = writer.text(style.inside_content)
        options = [ir.seq(writer.marker(opener), inside, body, inside, writer.marker(closer))]
        options += [body] if style.content_bare else []
    options += [ir.seq(writer.text(fmt.heading), body)] if fmt.heading else []
    return ir.alt(*options, *([calls] if has_calls else []))


def _rest_of_wrapped(
    style: ReasoningStyle, calls_follow: bool, openers: Sequence[str | ir.Node], writer: RuleWriter
) -> ir.Node:
    """Content that is set off, from after its opener to after its closer."""
    closer = style.wrap(calls_follow)[1]
    banned = [*(end for _, end in style.wraps), *(openers if style.calls_in_content == "end" else ()), *_starts(style)]
    text, inside = ir.Lexeme(without(TEXT, _holding(banned))), writer.text(style.inside_content)
    return ir.seq(inside, text, inside, writer.marker(closer))


def _reasoning(
    style: ReasoningStyle, openers: Sequence[str | ir.Node], at_start: Sequence[str | ir.Node], writer: RuleWriter
) -> ir.Node:
    """From after the opener to after the closer."""
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
    return ir.seq(inside, writer.marker(style.pairs[0][1]), _after_close(style))


def _starts(style: ReasoningStyle) -> list[str]:
    return [style.message_start] if style.message_start else []


def _heads(style: ReasoningStyle) -> list[str]:
    """What begins a head of a message, besides the openers."""
    return [style.head.start, style.head.channel] if style.head is not None else []


def _words(openers: Iterable[str | ir.Node]) -> list[str]:
    return [opener for opener in openers if isinstance(opener, str)]


def _at_beginning(openers: Iterable[str | ir.Node]) -> list[ir.Node]:
    """Any bytes that begin, after whitespace, with one of those openers that are more than a literal."""
    whitespace, anything = ir.Repeat(ir.byte_set(b" \t\n\r")), ir.Repeat(ir.ANY_BYTE)
    return [ir.Seq((whitespace, opener, anything)) for opener in openers if not isinstance(opener, str)]


def _after_close(style: ReasoningStyle) -> ir.Node:
    """At most the layout that may stand after a closer."""
    layout = tuple(style.after_close[:n].encode() for n in range(len(style.after_close) + 1))
    return ir.Literals(layout) if style.after_close else ir.EMPTY


_LONGEST_CALL = 4_096
"""Bytes of a call in the prompt that a grammar goes on from: some 0.1 ms each."""


def _rest_of_call(rules: dict[str, ir.Node], begun: str, openers: list[str]) -> ir.Node:
    """What may follow a call that the prompt has begun. Adds to the rules."""
    at = min((place for opener in openers if (place := begun.find(opener)) >= 0), default=-1)
    data = begun[at:].encode("utf-8", "surrogatepass")
    if at >= 0 and len(data) <= _LONGEST_CALL:
        after, start = _rest(rules, "turn", data)
        if after[start] != ir.NEVER:
            rules.update(after)
            return ir.Ref(start)
    raise UnsupportedError(
        "the prompt ends inside a call that is not spelled as the grammar spells calls",
        code="prompt_inside_call",
        hint=f"Spell it as `render` does, in at most {_LONGEST_CALL:,} bytes, or begin the call in the answer",
    )


def _rest(rules: dict[str, ir.Node], start: str, prefix: bytes) -> tuple[dict[str, ir.Node], str]:
    """The quotient by a prefix."""
    try:
        return quotient(rules, start, prefix)
    except NamesUnknown:
        raise UnsupportedError(
            "the prompt ends inside an object in which some keys of a kind must come",
            code="prompt_inside_call",
            hint="Begin the object in the answer",
        ) from None


def _after_begun(rules: dict[str, ir.Node], start: ir.Node, begun: str) -> ir.Node:
    """What may follow text that may be the beginning of a marker. Adds to the rules."""
    for text in (begun.lstrip(), begun):  # whitespace before a marker is layout, unless it is part of it
        after, name = _rest({**rules, "answer": start}, "answer", text.encode("utf-8", "surrogatepass"))
        if after[name] != ir.NEVER:
            rules.update(after)
            return ir.Ref(name)
    return start
