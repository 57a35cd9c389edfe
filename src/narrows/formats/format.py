"""A wire format: one TOML file, read. From it come the stream parser, the grammar, the rendered text and the
detection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from narrows.arguments import FLAG, FUNCTION, INTEGER, TEXT, Kind, of, optional, quoted, wants
from narrows.errors import InputError
from narrows.formats.answer_parser import answer_parser
from narrows.formats.definition import FormatDefinition
from narrows.formats.prompt import open_part, start_of
from narrows.formats.render import refuse_unread
from narrows.formats.render import render as render_message
from narrows.formats.styles import reasoning_style
from narrows.formats.writing import turn_grammar
from narrows.grammar.grammar import Grammar
from narrows.grammar.options import Additional, OnUnsupportedOfTools, Untyped
from narrows.limits import DEFAULT_LIMITS, LIMITS, Limits
from narrows.stream.ids import id_factory as make_id_factory
from narrows.stream.message import Message, collect
from narrows.tools.request import read_choice, read_tools

if TYPE_CHECKING:
    from collections.abc import Callable

    from narrows.formats.reasoning import ReasoningStyle
    from narrows.stream.parser import StreamParser
    from narrows.tokens import TokenVocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Format(FormatDefinition):
    """One wire format. Immutable, and shared by any number of parsers. Made by `narrows.formats.get` or `load`."""

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
        untyped: Untyped = "auto",
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
        content: the grammar that the content was held to (see `grammar`), or True: an answer that does not begin with a
            call has none.
        untyped: what an argument written as bare text is where the tool's schema says nothing of it: "string", "json"
            where it can be JSON, or "auto" for the format's own.
        strip: leave out the whitespace where content and reasoning begin and end, and before calls, as other servers
            do; None: as the format says.
        constrained: the answer was held to `grammar`, made with the same arguments: what opens a call is one, also
            where the answer is cut in it.

        Where a call is required or a tool is named, nothing that the answer's end has cut off before a call has a name
        is content. With "auto" it is: half a marker may be text; what opens a call as a whole is markup if the answer
        was `constrained`. A call that the prompt has opened is announced with the first delta, with the arguments that
        the prompt holds.

        Raises InputError `tools_invalid`, `tool_name_duplicate`, `tool_choice_invalid`, `tool_unknown`, and FormatError
        `reasoning_unknown`. Cost: some 10 us, and some 20 us with the first delta. A schema is read when its tool is
        called.
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
        return answer_parser(
            self,
            table,
            choice,
            style,
            parallel=parallel,
            open_text=open_part(prompt, self, style),
            make_id=_checked(id_factory) if id_factory is not None else None,
            vocab=vocab,
            limits=limits,
            hold_calls=hold_calls,
            one_piece=bool(content),
            strip=self.strip if strip is None else strip,
            constrained=constrained,
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
        untyped: Untyped = "auto",
        constrained: bool = False,
    ) -> Message:
        """The complete answer: a parser fed once. Arguments and errors as for `parser`. Cost: linear in the text."""
        parser = self.parser(
            tools,
            tool_choice,
            parallel,
            reasoning,
            prompt,
            id_factory=id_factory,
            vocab=vocab,
            limits=limits,
            hold_calls=hold_calls,
            content=content,
            strip=strip,
            untyped=untyped,
            constrained=constrained,
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
        on_unsupported: OnUnsupportedOfTools = "error",
        limits: Limits = DEFAULT_LIMITS,
        content: Grammar | None = None,
        additional: Additional = "standard",
        max_calls: int | None = None,
    ) -> Grammar:
        """The grammar of what the model may write; arguments as for `parser`, `on_unsupported` and `additional` as for
        JSON Schema: "declared" keeps each tool's arguments to the keys that its schema names, at every depth, where it
        does not say `additionalProperties`.

        "required": one or more calls, after reasoning if the style has any. A named tool: exactly one call of it.
        "auto": text, then possibly calls. "none": text. Tools' schemas shape the arguments; `report` says per tool what
        is looser or tighter. Markers become special tokens when the grammar is compiled for a vocabulary that has them,
        so `vocab` changes nothing here.

        on_unsupported: "by_tool" goes by each tool's `strict`: true refuses what cannot be enforced, else it is left
            out, and `report` says so.
        content: the grammar of the content (a `response_format`): with "auto" the answer is then either calls or that,
            and nothing else.
        max_calls: after so many calls comes the end, those counted that the prompt has begun. The parser reads more
            than that.

        Raises what `parser` and `Grammar.from_json_schema` raise, with pointers into the tools, and InputError
        `max_calls_invalid`.
        """
        wants(TEXT, prompt=prompt, on_unsupported=on_unsupported, additional=additional)
        wants(FLAG, parallel=parallel)
        wants(optional(INTEGER), max_calls=max_calls)
        wants(optional(_GRAMMAR), content=content)
        wants(LIMITS, limits=limits)
        _one_of(on_unsupported, "on_unsupported", get_args(OnUnsupportedOfTools))
        _one_of(additional, "additional", get_args(Additional))
        if max_calls is not None and max_calls < 1:
            raise InputError(f"max_calls must be at least 1, not {max_calls}", code="max_calls_invalid")
        table = read_tools(tools, limits=limits)
        choice, style = read_choice(tool_choice, table), self.style(reasoning)
        return turn_grammar(
            self,
            table,
            choice,
            style,
            parallel=parallel,
            prompt=prompt,
            on_unsupported=on_unsupported,
            additional=additional,
            limits=limits,
            content=content,
            max_calls=max_calls,
        )

    def starts_in_reasoning(self, prompt: str, reasoning: str | None = "auto") -> bool:
        """Whether the answer to this prompt begins inside the model's reasoning. Arguments as for `parser`."""
        wants(TEXT, prompt=prompt)
        style = self.style(reasoning)
        return style is not None and not style.shown and start_of(self, style, prompt, calls=False).place == "reasoning"

    def render(self, message: Any, form: str | None = None, ids: bool = False) -> str:
        """The text a model would write for an assistant message (a `Message`, or a dict as in OpenAI's API).

        form: which of the format's ways of writing calls; ids: write the calls' ids where the form can carry them.

        Raises InputError `message_invalid` and `arguments_invalid` with a JSON pointer into the message, `form_unknown`
        and UnsupportedError `message_unsupported` if the parser would not read the message's calls in the text.
        """
        text = render_message(self, message, form, ids)
        refuse_unread(self, message, lambda tools: self.parse(text, tools))
        return text

    def id_factory(self, seed: str | None = None) -> Callable[[int], str]:
        """Ids as this format's models expect them. The same seed (a response's id) gives the same ids."""
        wants(optional(TEXT), seed=seed)
        return make_id_factory(self.ids, seed)

    def style(self, reasoning: str | None) -> ReasoningStyle | None:
        """The reasoning style of this name; "auto" is the format's own. Raises FormatError `reasoning_unknown`."""
        wants(optional(TEXT), reasoning=reasoning)
        if reasoning is None:
            return None
        if reasoning == "auto" or (self.reasoning is not None and reasoning == self.reasoning.name):
            return self.reasoning
        return reasoning_style(reasoning)


def _one_of(value: str, name: str, options: tuple[str, ...]) -> None:
    if value not in options:
        listed = ", ".join(f'"{option}"' for option in options)
        raise InputError(f"{name} must be one of {listed}, not {quoted(value)}", code="invalid_option")


def _checked(id_factory: Callable[[int], str]) -> Callable[[int], str]:
    """The user's function, whose ids must be text."""

    def make_id(index: int) -> str:
        made = id_factory(index)
        if not isinstance(made, str) or not made:
            what = "an empty one" if made == "" else type(made).__name__
            raise InputError(f"id_factory must return a str, not {what}", code="wrong_type", pointer="/id_factory")
        return made

    return make_id


_GRAMMAR = of("a narrows.Grammar", Grammar)
_CONTENT = Kind("a narrows.Grammar or a bool", lambda value: isinstance(value, (bool, Grammar)))
_VOCABULARY = Kind("a narrows.Vocabulary", lambda value: hasattr(value, "token_bytes") and hasattr(value, "special"))
