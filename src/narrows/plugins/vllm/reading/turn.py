"""Reads one choice of one request: the stream that vLLM's tool parser and reasoning parser share.

vLLM makes a reasoning parser and a tool parser for each choice of a request. If both are narrows', they share one
`Turn`, so that one parser reads every character once, reasoning and calls. Deltas and complete answers go through the
same code. Their calls have the same ids, because the ids are seeded by the request's id and the number of the choice.

Start state: it comes from the prompt's token ids if vLLM gives them (delegating.py). Otherwise the answer begins
outside of reasoning, or inside for a style such as think_open that always begins so.

Markers are recognized by token id if the vocabulary has them and vLLM gives ids (ids.py), otherwise by their text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from narrows.events import Content, Event, Reasoning, ToolCallArguments, ToolCallStart
from narrows.plugins.vllm import grammar_request
from narrows.plugins.vllm.compat import DeltaFunctionCall, DeltaMessage, DeltaToolCall
from narrows.plugins.vllm.reading.ids import Alignment, prompt_end, vocabulary_of
from narrows.stream import Message, collect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from narrows import Vocabulary
    from narrows.formats import Format
    from narrows.stream import StreamParser


class Turn:
    """One choice of one request. Used by one thread at a time."""

    def __init__(self, fmt: Format, reasoning: str | None, tokenizer: Any, tools: Any = None) -> None:
        """reasoning, tools: as for `Format.parser`. A request's own tools replace `tools`."""
        self.fmt = fmt
        self.reasoning = reasoning
        self.tools = tools
        self.prompt_ids: Sequence[int] | None = None
        self.output_ids: Sequence[int] = ()
        """The token ids of the complete answer, set before `complete`."""
        self.choice = 0
        """Index of the choice in the request."""
        self.flushed = False
        """Whether the caller calls `end` after an answer. If it does not, an end token ends the answer."""
        self.model_config: Any = None
        self._tokenizer = tokenizer
        self._stream: _Stream | None = None
        self._streams = 0
        self._completed = 0
        self._calls = 0
        self._vocab: Vocabulary | None = None
        self._has_vocab = False

    @property
    def vocab(self) -> Vocabulary | None:
        """The model's vocabulary, or None if its tokenizer cannot be read."""
        if not self._has_vocab:
            self._vocab = vocabulary_of(self._tokenizer, self.model_config)
            self._has_vocab = True
        return self._vocab

    @property
    def markers(self) -> tuple[str, ...]:
        """What vocabularies may hold as single tokens."""
        return self.fmt.markers(self.fmt.style(self.reasoning))

    # Deltas.

    def delta(self, text: str, ids: Sequence[int], request: Any) -> Any:
        """What this delta adds, as a DeltaMessage. None if nothing is certain yet."""
        if self._stream is None:
            self._stream = self._begin(request, self._streams)
            self._streams += 1
        events = self._stream.add(text, ids)
        if not self.flushed and self._ends(ids):
            return self._message(events + self._over())
        return self._message(events)

    def end(self) -> Any:
        """End the answer. Returns what was held back. A second call returns None."""
        return self._message(self._over()) if self._stream is not None else None

    def _over(self) -> list[Event]:
        assert self._stream is not None
        events = self._stream.end()
        self._stream = None
        return events

    def _ends(self, ids: Sequence[int]) -> bool:
        vocab = self.vocab if ids else None
        if vocab is None or ids[-1] not in vocab.eos_ids:
            return False
        return all(vocab.special.get(marker) != ids[-1] for marker in self.markers)

    # Complete answers.

    def complete(self, text: str, request: Any) -> Message:
        """Read a complete answer, in a new stream."""
        stream = self._begin(request, self._completed)
        self._completed += 1
        ids, self.output_ids = self.output_ids, ()
        return collect([*stream.add(text, ids), *stream.end()])

    def complete_unsplit(self, text: str) -> Message:
        """Read the text of a complete answer. Its reasoning stays in the content."""
        parser = self.fmt.parser(
            function_tools(self.tools), reasoning=None, prompt=self.prompt(), id_factory=self.fmt.id_factory()
        )
        return collect([*parser.feed(text), *parser.finish()])

    # Deltas and complete answers.

    def parser(self, request: Any, vocab: Vocabulary | None, number: int = 0) -> StreamParser:
        """A parser in the state at the end of the prompt. `number`: how many answers this object has read before."""
        seed = getattr(request, "request_id", None)
        if seed is not None and (number or self.choice):
            seed = f"{seed}-{number}-{self.choice}"
        tools = function_tools(self.tools if request is None else getattr(request, "tools", None) or self.tools or [])
        choice = "none" if getattr(request, "tool_choice", None) == "none" else "auto"
        if request is not None and must_call(request):
            choice = "required"  # then the cut opening of a call is not text
        grammar = getattr(getattr(request, "structured_outputs", None), "grammar", None) or ""
        return self.fmt.parser(
            tools,
            choice,
            reasoning=self.reasoning,
            prompt=self.prompt(),
            id_factory=self.fmt.id_factory(seed),
            vocab=vocab,
            content=grammar_request.holds_content(grammar),
            constrained=grammar_request.is_for_tools(grammar),
        )

    def prompt(self) -> str:
        """The end of the prompt, from its last turn on. "" if vLLM has not given the prompt."""
        if not self.prompt_ids:
            return ""
        if self.vocab is None:
            return str(self._tokenizer.decode(list(self.prompt_ids), skip_special_tokens=False))
        return prompt_end(self.vocab, self.prompt_ids, self.markers)

    def _begin(self, request: Any, number: int) -> _Stream:
        return _Stream(lambda vocab: self.parser(request, vocab, number), self.vocab, self.markers)

    def _message(self, events: list[Event]) -> Any:
        """Events as vLLM's delta. Each call has one entry. Only its first delta has the id and the name."""
        content: list[str] = []
        reasoning: list[str] = []
        calls: dict[int, Any] = {}
        for event in events:
            if isinstance(event, Content):
                content.append(event.text)
            elif isinstance(event, Reasoning):
                reasoning.append(event.text)
            elif isinstance(event, ToolCallStart):
                index = self._calls
                self._calls += 1
                function = DeltaFunctionCall(name=event.name, arguments="")
                calls[index] = DeltaToolCall(index=index, id=event.id, type="function", function=function)
            elif isinstance(event, ToolCallArguments):
                index = self._calls - 1
                if index in calls:
                    calls[index].function.arguments += event.text
                else:
                    calls[index] = DeltaToolCall(index=index, function=DeltaFunctionCall(arguments=event.text))
        fields: dict[str, Any] = {}
        if content:
            fields["content"] = "".join(content)
        if reasoning:
            fields["reasoning"] = "".join(reasoning)
        if calls:
            fields["tool_calls"] = list(calls.values())
        return DeltaMessage(**fields) if fields else None


class _Stream:
    """A parser fed with vLLM's deltas. The first delta decides whether it reads ids or text."""

    __slots__ = ("_alignment", "_make", "_markers", "_parser", "_vocab")

    def __init__(
        self, make: Callable[[Vocabulary | None], StreamParser], vocab: Vocabulary | None, markers: Sequence[str]
    ) -> None:
        self._make = make
        self._markers = markers
        self._vocab = vocab if vocab is not None and any(marker in vocab.special for marker in markers) else None
        self._alignment: Alignment | None = None
        self._parser: StreamParser | None = None

    def add(self, text: str, ids: Sequence[int]) -> list[Event]:
        if not text and not ids:
            return []
        if self._parser is None:
            self._parser = self._first(text, ids)
        return self._feed((text,) if self._alignment is None else self._alignment.add(text, ids))

    def end(self) -> list[Event]:
        if self._parser is None:
            self._parser = self._make(None)
        events = self._feed(self._alignment.end() if self._alignment is not None else ())
        return events + self._parser.finish()

    def _first(self, text: str, ids: Sequence[int]) -> StreamParser:
        if self._vocab is not None and ids:
            alignment = Alignment(self._vocab, self._markers)
            if alignment.fits(text, ids):
                self._alignment = alignment
                return self._make(self._vocab)
        return self._make(None)

    def _feed(self, pieces: Sequence[str | int]) -> list[Event]:
        assert self._parser is not None
        feed_text = self._parser.feed if self._alignment is None else self._parser.feed_spelled
        events: list[Event] = []
        for piece in pieces:
            events += feed_text(piece) if isinstance(piece, str) else self._parser.feed_tokens((piece,))
        return events


def must_call(request: Any) -> bool:
    """Whether the answer must consist of calls only: `tool_choice` is required or a named tool."""
    return bool(getattr(request, "tools", None)) and request.tool_choice not in (None, "none", "auto")


def function_tools(tools: Any) -> Any:
    """The tools that are functions, without duplicates. vLLM's lists may have other tools (web search), which calls of
    a format cannot name."""
    if tools is None:
        return None
    functions: dict[str, Any] = {}
    for tool in tools:
        field = tool.get if isinstance(tool, dict) else lambda key, tool=tool: getattr(tool, key, None)
        function = field("function")
        name = field("name") if function is None else _name(function)
        if field("type") in ("function", None) and isinstance(name, str) and name:
            functions.setdefault(name, tool)
    return list(functions.values())


def _name(function: Any) -> Any:
    return function.get("name") if isinstance(function, dict) else getattr(function, "name", None)
