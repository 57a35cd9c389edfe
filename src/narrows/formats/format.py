"""A wire format: one TOML file, read. From it come the stream parser, the grammar, the rendered text and the detection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.arguments import FLAG, FUNCTION, INTEGER, TEXT, Kind, of, optional, quoted, wants
from narrows.errors import InputError
from narrows.formats.prompt import open_part
from narrows.formats.reading import build_regions
from narrows.limits import DEFAULT_LIMITS, LIMITS, Limits
from narrows.stream.ids import id_factory as make_id_factory
from narrows.stream.machine import Due
from narrows.stream.message import Message, collect
from narrows.stream.parser import StreamParser
from narrows.stream.strip import StrippingParser
from narrows.tools.request import read_choice, read_tools

if TYPE_CHECKING:
    from collections.abc import Callable

    from narrows.formats.families.base import Head, Shape
    from narrows.grammar.grammar import Grammar
    from narrows.tokens import TokenVocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningStyle:
    """How reasoning is set off from content: `formats/reasoning/NAME.toml`."""

    name: str
    pairs: tuple[tuple[str, str], ...]
    """(opener, closer); the first pair is the one that is rendered."""
    aliases: tuple[str, ...] = ()
    """Names under which other servers know it."""
    wraps: tuple[tuple[str, str], ...] = ()
    """(opener, closer) around the content behind the reasoning: markup, where they come. The first pair is rendered."""
    tokens: tuple[str, ...] = ()
    """Parts of these markers that vocabularies hold as single tokens."""
    before_open: str = ""
    """May stand before an opener at the very beginning; there, the parser reads all blanks over."""
    after_open: str = ""
    before_close: str = ""
    after_close: str = ""
    inside_content: str = ""
    """At most this much is layout behind an opener of the content and before its closer."""
    anywhere: bool = False
    """Reasoning (and content that is set off) may begin behind content too."""
    calls: str = "end"
    """A call inside ends the reasoning ("end") or is part of it ("data")."""
    content: str = "end"
    """The opener of content that is set off, inside reasoning that was not closed: it ends the reasoning ("end"), does so where it begins or
    ends a line ("line"), or is part of it ("data"). Before any reasoning, it counts in any case, and so does a call's."""
    message_start: str = ""
    """What begins with this begins a message, whatever was not closed before."""
    head: Head | None = None
    """How messages are headed, where heads are more than a few literals."""
    calls_in_content: str = "end"
    """A call inside content that is set off ends it ("end") or is part of it ("data")."""
    before_calls: int = 0
    """Which of `wraps` is written where calls follow."""
    content_bare: bool = True
    """Content may be written without its opener. The parser reads it so in any case."""
    opened: bool = False
    """Without a prompt to tell, the answer begins inside."""
    close_alone: bool = False
    """A closer at the very beginning says that there is no reasoning; it is markup."""
    shown: bool = False
    """Reasoning is left in the content, with its markers. Where an answer begins inside, the opener is written before it."""

    @property
    def empty(self) -> tuple[str, ...]:
        """Openers whose last newline is missing, with a closer right behind: there is no reasoning."""
        return tuple(
            opener.rstrip("\n") + closer for opener, _ in self.pairs if opener[-1:] == "\n" for _, closer in self.pairs
        )

    def wrap(self, calls_follow: bool) -> tuple[str, str]:
        """The (opener, closer) that is written around content."""
        return self.wraps[self.before_calls if calls_follow else 0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Detect:
    """Literals by which a chat template gives its format away."""

    all: tuple[str, ...]
    """All of these are there."""
    any: tuple[str, ...] = ()
    """One of these is there."""
    none: tuple[str, ...] = ()
    """None of these is there."""
    likely: tuple[str, ...] = ()
    """Literals of templates that go with the format but do not write its calls: told with less confidence, where no other format fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One wire format. Immutable, and shared by any number of parsers. Made by `narrows.formats.get` or `load`."""

    name: str
    title: str
    models: tuple[str, ...]
    aliases: tuple[str, ...]
    """Names under which other servers know it."""
    reasoning: ReasoningStyle | None
    ids: str
    calls: tuple[Shape, ...]
    """Ways of writing calls; the first is the one that is rendered by default."""
    read_only: frozenset[str] = frozenset()
    """Forms that are read where a model slips into them, but neither rendered nor allowed by the grammar."""
    before: str
    """Layout between the text and the first call."""
    between: str
    """Layout between calls."""
    around_reasoning: tuple[str, ...] = ("", "", "")
    """Layout that is written behind the opener of reasoning, before its closer and behind that."""
    detect: Detect | None
    source: str
    """The TOML file's text."""
    tokens: tuple[str, ...] = ()
    """Parts of markers that vocabularies hold as single tokens, where a marker is more than its token."""
    ends: tuple[str, ...] = ()
    """Markup that models write at the end of a turn, before its end token: read over."""
    turns: tuple[str, ...] = ()
    """What ends or heads a turn in these models' prompts, besides what is known of all (see `formats.prompt`)."""
    strip: bool = False
    """Leave out the blanks at the ends of the text, and before calls."""
    untyped: str = "string"
    """What an argument written as bare text is where no schema says: "string", or "json" where it can be JSON."""
    verified: bool = True
    """Held against a chat template of a model that writes it, or what one writes; False: written from descriptions and other parsers."""

    def parser(
        self,
        tools: Any = None,
        tool_choice: Any = "auto",
        parallel: bool = True,
        reasoning: str | None = "auto",
        prompt: str = "",
        id_factory: Callable[[int], str] | None = None,
        vocab: TokenVocabulary | None = None,
        limits: Limits = DEFAULT_LIMITS,
        hold_calls: bool = False,
        content: Grammar | bool | None = None,
        strip: bool | None = None,
        untyped: str = "auto",
        constrained: bool = False,
    ) -> StreamParser:
        """A parser for one answer.

        tools: OpenAI tools, dicts or objects; None: any name is a call, its arguments untyped; []: nothing is a call.
        tool_choice: "none" makes nothing a call; every other choice reads what the model writes.
        parallel: False: what follows the first call is text.
        reasoning: a style's name, "auto" for the format's own, None to leave its markers in the content.
        prompt: the rendered prompt, or a suffix that holds the last turn: sets the start state.
        id_factory: index -> id, for calls that carry none; see `id_factory`.
        vocab: to be fed token ids.
        hold_calls: a call is announced when it is complete, with all its arguments; what does not come to that is text.
        content: the grammar that the content was held to (see `grammar`), or True: an answer that does not begin with a call has none.
        untyped: what an argument written as bare text is where the tool's schema says nothing of it: "string", "json" where it can be JSON, or
            "auto" for the format's own.
        strip: leave out the blanks where content and reasoning begin and end, and before calls, as other servers do; None: as the format says.
        constrained: the answer was held to `grammar`, made with the same arguments: what opens a call is one, also where the answer is cut in it.

        Where a call is required or a tool is named, nothing that the answer's end has cut off before a call has a name is content. With
        "auto" it is: half a marker may be text; what opens a call as a whole is markup if the answer was `constrained`.
        A call that the prompt has opened is announced with the first delta, with the arguments that the prompt holds.
        """
        wants(TEXT, prompt=prompt, untyped=untyped)
        wants(FLAG, parallel=parallel, hold_calls=hold_calls, constrained=constrained)
        wants(optional(FLAG), strip=strip)
        wants(optional(FUNCTION), id_factory=id_factory)
        wants(optional(_CONTENT), content=content)
        wants(optional(_VOCABULARY), vocab=vocab)
        wants(LIMITS, limits=limits)
        table = read_tools(tools, self.untyped if untyped == "auto" else untyped, limits)
        choice = read_choice(tool_choice, table)
        style = self.style(reasoning)
        calls = table.tools != {} and choice.mode != "none"
        kind = StrippingParser if (self.strip if strip is None else strip) else StreamParser
        return kind(
            lambda encode: build_regions(self, style, calls, parallel, encode, choice.name, bool(content)),
            self.markers(style),
            table,
            id_factory or make_id_factory(self.ids),
            limits,
            open_part(prompt, self, style),
            vocab,
            hold_calls,
            Due(call=calls and choice.mode in ("required", "named"), grammar=calls and constrained),
            style.pairs[0][0] if style is not None and style.shown else "",
        )

    def parse(
        self,
        text: str,
        tools: Any = None,
        tool_choice: Any = "auto",
        parallel: bool = True,
        reasoning: str | None = "auto",
        prompt: str = "",
        id_factory: Callable[[int], str] | None = None,
        vocab: TokenVocabulary | None = None,
        limits: Limits = DEFAULT_LIMITS,
        hold_calls: bool = False,
        content: Grammar | bool | None = None,
        strip: bool | None = None,
        untyped: str = "auto",
        constrained: bool = False,
    ) -> Message:
        """The complete answer: a parser fed once. Arguments as for `parser`."""
        parser = self.parser(
            tools,
            tool_choice,
            parallel,
            reasoning,
            prompt,
            id_factory,
            vocab,
            limits,
            hold_calls,
            content,
            strip,
            untyped,
            constrained,
        )
        return collect([*parser.feed(text), *parser.finish()])

    def grammar(
        self,
        tools: Any = None,
        tool_choice: Any = "required",
        parallel: bool = True,
        reasoning: str | None = "auto",
        prompt: str = "",
        vocab: TokenVocabulary | None = None,
        on_unsupported: str = "error",
        limits: Limits = DEFAULT_LIMITS,
        content: Grammar | None = None,
        additional: str = "standard",
        max_calls: int | None = None,
    ) -> Grammar:
        """The grammar of what the model may write; arguments as for `parser`, `on_unsupported` and `additional` as for JSON Schema: "declared"
        keeps each tool's arguments to the keys that its schema names, at every depth, where it does not say `additionalProperties`.

        "required": one or more calls, after reasoning if the style has any. A named tool: exactly one call of it. "auto": text, then
        possibly calls. "none": text. Tools' schemas shape the arguments; `report` says per tool what is looser or tighter. Markers
        become special tokens when the grammar is compiled for a vocabulary that has them, so `vocab` changes nothing here.

        on_unsupported: "by_tool" goes by each tool's `strict`: true refuses what cannot be enforced, else it is left out, and `report` says so.
        content: the grammar of the content (a `response_format`): with "auto" the answer is then either calls or that, and nothing else.
        max_calls: behind so many calls comes the end, those counted that the prompt has begun. The parser reads more than that.
        """
        from narrows.formats.writing import turn_grammar

        wants(TEXT, prompt=prompt, on_unsupported=on_unsupported, additional=additional)
        wants(FLAG, parallel=parallel)
        wants(optional(INTEGER), max_calls=max_calls)
        wants(optional(_CONTENT), content=content)
        wants(LIMITS, limits=limits)
        if max_calls is not None and max_calls < 1:
            raise InputError(f"max_calls must be at least 1, not {max_calls}", code="max_calls_invalid")
        table = read_tools(tools, limits=limits)
        choice, style = read_choice(tool_choice, table), self.style(reasoning)
        return turn_grammar(
            self, table, choice, parallel, style, prompt, on_unsupported, additional, limits, content, max_calls
        )

    def render(self, message: Any, form: str | None = None, ids: bool = False) -> str:
        """The text a model would write for an assistant message (a `Message`, or a dict as in OpenAI's API).

        form: which of the format's ways of writing calls; ids: write the calls' ids where the form can carry them.
        """
        from narrows.formats.render import render

        return render(self, message, form, ids)

    def id_factory(self, seed: str | None = None) -> Callable[[int], str]:
        """Ids as this format's models expect them. The same seed (a response's id) gives the same ids."""
        wants(optional(TEXT), seed=seed)
        return make_id_factory(self.ids, seed)

    def style(self, reasoning: str | None) -> ReasoningStyle | None:
        """The reasoning style of this name; "auto" is the format's own."""
        wants(optional(TEXT), reasoning=reasoning)
        if reasoning is None:
            return None
        if reasoning == "auto" or (self.reasoning is not None and reasoning == self.reasoning.name):
            return self.reasoning
        from narrows.formats.registry import reasoning_style

        return reasoning_style(reasoning)

    @property
    def written(self) -> tuple[Shape, ...]:
        """The ways of writing calls that the grammar allows."""
        return tuple(shape for shape in self.calls if shape.form not in self.read_only)

    def form(self, name: str | None) -> Shape:
        """The way of writing calls of this name (None: the first)."""
        wants(optional(TEXT), form=name)
        for shape in self.calls:
            if name is None or shape.form == name:
                return shape
        known = ", ".join(shape.form for shape in self.calls)
        raise InputError(f"{self.name} has no form {quoted(name)}", code="form_unknown", hint=f"Its forms: {known}")

    def markers(self, style: ReasoningStyle | None) -> tuple[str, ...]:
        """Every literal that a vocabulary may hold as one token."""
        wants(optional(of("a ReasoningStyle", ReasoningStyle)), style=style)
        found = [m for shape in self.calls for m in shape.markers()]
        for pair in (*style.pairs, *style.wraps) if style else ():
            found += pair
        found += self.ends
        tokens = [*self.tokens, *(style.tokens if style else ())]
        found = [m for m in found if not any(token in m for token in tokens)]  # the others are more than a token
        return tuple(dict.fromkeys(found + tokens))


def _is_content(value: object) -> bool:
    from narrows.grammar.grammar import Grammar

    return isinstance(value, (bool, Grammar))


_CONTENT = Kind("a narrows.Grammar or a bool", _is_content)
_VOCABULARY = Kind("a narrows.Vocabulary", lambda value: hasattr(value, "token_bytes") and hasattr(value, "special"))
