"""vLLM reasoning parsers, one class per reasoning style (`--reasoning-parser narrows_think`) and per wire format
(`narrows_hermes_json`, the format's own style).

Beside a narrows tool parser it reads nothing itself: both share one stream, which splits reasoning off (turn.py).
Beside another's tool parser it ends where the reasoning does, and hands on the rest. Alone it reads the whole answer.

In the engine's process vLLM asks at every step whether reasoning has ended, to know where masks begin. That looks at
the new tokens and, where a marker is spelled in several, at as many before them: it does not depend on the length of
the answer.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from narrows import formats
from narrows.errors import FormatError
from narrows.events import Content, Event, Reasoning, ToolCallStart
from narrows.formats.registry import known, reasoning_names, reasoning_of
from narrows.plugins.vllm.compat import ReasoningParser
from narrows.plugins.vllm.reading import delegating
from narrows.plugins.vllm.reading.tool_parser import has_read
from narrows.plugins.vllm.reading.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from narrows.formats import ReasoningStyle
    from narrows.stream import StreamParser

PREFIX = "narrows_"

delegating.install()  # before the first parser is made, which is in the midst of what it wraps
_CARRIER = "hermes_json"
"""A style alone is no format; with no tools any format reads it alike."""
_BLOCK = 64


class NarrowsReasoningParser(ReasoningParser):
    """Splits reasoning from the rest. One object per choice of a request, and one per request in the engine."""

    style_name: ClassVar[str] = ""
    format_name: ClassVar[str | None] = None
    engine_based_streaming = True

    def __init__(self, tokenizer: Any, *args: Any, **kwargs: Any) -> None:
        delegating.install()
        super().__init__(tokenizer, *args, **kwargs)
        self.turn = Turn(formats.get(self.format_name or _CARRIER), self.style_name, tokenizer, [])
        self.turn.model_config = kwargs.get("model_config")
        self.tool_parser: Any = None
        """The tool parser that shares the stream, set by delegating.py."""
        self.hands_over = False
        """Another's tool parser reads what comes after the reasoning."""
        self.streams = False
        """This object reads an answer in deltas, and vLLM is to give it all of them."""
        self._ended = False

    # The answer, in deltas.

    def extract_reasoning_streaming(
        self,
        previous_text: str = "",
        current_text: str = "",
        delta_text: str = "",
        previous_token_ids: Sequence[int] = (),
        current_token_ids: Sequence[int] = (),
        delta_token_ids: Sequence[int] = (),
    ) -> Any:
        """What this delta adds. Beside a narrows tool parser nothing: that one is called next, and takes the delta."""
        if self.tool_parser is not None:
            self._ended = True
            self.tool_parser.first = (delta_text, delta_token_ids)
            return None
        message = self.turn.delta(delta_text, delta_token_ids, None)
        if self.hands_over and message is not None and message.content:
            self._ended = True
        return message

    def has_engine_confirmed_reasoning_end(self) -> bool:
        """Whether the tool parser goes on from here."""
        return self._ended

    def finish_streaming(self) -> Any:
        """The answer is over, or the reasoning where another's tool parser goes on: what was held back, or None."""
        return self.turn.end()

    # The answer, complete.

    def extract_reasoning(self, model_output: str, request: Any) -> tuple[str | None, str | None]:
        """(reasoning, the rest). Without a narrows tool parser at hand the rest keeps its calls, as the model wrote
        them. Of an answer whose reasoning has left with the deltas there is none to give."""
        if self.tool_parser is not None:
            message = self.turn.complete(model_output, request)
            self.tool_parser.handed = message
            return message.reasoning, message.content
        if request is None and has_read(model_output):
            return None, model_output
        if self.format_name is None:
            message = self.turn.complete(model_output, None)
            return message.reasoning, message.content
        return self._up_to_calls(model_output)

    def _up_to_calls(self, text: str) -> tuple[str | None, str | None]:
        """The first call, wherever it stands, ends what is read here. Where no reasoning comes before it, all is the
        tool parser's.

        A format whose calls can be told only by what stands before them (Muse's headers) is not read again after
        reasoning."""
        parser = self._any_call()
        events: list[Event] = [*parser.feed(text), *parser.finish()]
        number = next((i for i, event in enumerate(events) if isinstance(event, ToolCallStart)), len(events))
        before, rest = events[:number], ""
        if number < len(events):
            if not any(isinstance(event, Reasoning) for event in before):
                return None, text
            # Where its markup begins is known at its name, until the next call's begins.
            parser = self._any_call()
            parser.feed(text[: events[number].span[1]])
            rest = text[max(parser.call_begins_at, 0) :]
        reasoning = "".join(event.text for event in before if isinstance(event, Reasoning))
        content = "".join(event.text for event in before if isinstance(event, Content)) + rest
        return reasoning or None, content or None

    def _any_call(self) -> StreamParser:
        return self.turn.fmt.parser(None, reasoning=self.style_name, prompt=self.turn.prompt())

    # Where reasoning ends, in ids.

    @property
    def reasoning_start_str(self) -> str:
        return self._style.pairs[0][0]

    @property
    def reasoning_end_str(self) -> str:
        return self._style.pairs[0][1]

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """Whether an answer to this prompt begins outside of reasoning. Where nothing has opened it, it does: what is
        to be constrained is constrained from the first token on, never not at all. Linear in the last turn."""
        if self.streams:
            return False  # here it asks whether this object may be left out
        told, self.turn.prompt_ids = self.turn.prompt_ids, input_ids
        parser = self.turn.parser(None, None)
        self.turn.prompt_ids = told
        parser.feed("")
        return parser.place != "reasoning"

    def is_reasoning_end_streaming(self, input_ids: Sequence[int], delta_ids: Iterable[int]) -> bool:
        """Whether a closing marker ends among the last ids, `delta_ids`."""
        return self._closed_at(input_ids, len(list(delta_ids))) is not None

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        """The ids after the last closing marker; none where reasoning is open."""
        at = self._closed_at(input_ids, len(input_ids))
        if at is not None:
            return list(input_ids[at:])
        return list(input_ids) if self.hands_over or self.tool_parser is not None else []

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        """How many of an answer's tokens are reasoning."""
        vocab = self.turn.vocab
        if vocab is None:
            return 0
        parser = self.turn.parser(None, vocab)
        parser.feed_tokens(())
        count, ids = 0, [token for token in token_ids if 0 <= token < vocab.size]
        for begin in range(0, len(ids), _BLOCK):
            block = ids[begin : begin + _BLOCK]
            # Most blocks lie on one side; only where the side changes are tokens told apart one by one.
            inside = parser.place == "reasoning"
            events = _events_of(parser.feed_tokens(block))
            if inside and parser.place == "reasoning" and events <= {Reasoning}:
                count += len(block)
            elif inside or parser.place == "reasoning" or Reasoning in events:
                count += self._count_block(ids[:begin], block)
        return count

    def _count_block(self, before: Sequence[int], block: Sequence[int]) -> int:
        parser = self.turn.parser(None, self.turn.vocab)
        parser.feed_tokens(before)
        count = 0
        for token in block:
            events = _events_of(parser.feed_tokens((token,)))
            count += Reasoning in events or (not events and parser.place == "reasoning")
        return count

    def set_prompt_token_ids(self, prompt_token_ids: Sequence[int]) -> None:
        """The rendered prompt, from which the answer's start state comes."""
        self.turn.prompt_ids = prompt_token_ids

    def adjust_initial_state_from_prompt(self, prompt_token_ids: Sequence[int]) -> None:
        self.turn.prompt_ids = prompt_token_ids

    def adjust_request(self, request: Any) -> Any:
        """Let the markers through to the parser."""
        request.skip_special_tokens = False
        return request

    @property
    def _style(self) -> ReasoningStyle:
        style = self.turn.fmt.style(self.style_name)
        assert style is not None  # it has a name
        return style

    def _closed_at(self, ids: Sequence[int], last: int) -> int | None:
        """Behind which id the last closing marker ends, if that is one of the `last` ids."""
        vocab = self.turn.vocab
        if vocab is None or last == 0:
            return None
        closers = [closer for _, closer in self._style.pairs]
        tokens = {vocab.special[closer] for closer in closers if closer in vocab.special}
        spelled = [closer.encode() for closer in closers if closer not in vocab.special]
        begin = max(len(ids) - last, 0)
        for at in range(len(ids) - 1, begin - 1, -1):
            if ids[at] in tokens:
                return at + 1
        if not spelled:
            return None
        # A marker of n bytes is spelled in at most n tokens.
        reach = max(map(len, spelled)) - 1
        window = [token for token in ids[max(begin - reach, 0) :] if 0 <= token < vocab.size]
        data = [vocab.token_bytes(token) for token in window]
        text = b"".join(data)
        found = max((at + len(closer) for closer in spelled if (at := text.rfind(closer)) >= 0), default=-1)
        if found < 0:
            return None
        at, size = 0, 0
        while size < found:
            size += len(data[at])
            at += 1
        end = len(ids) - len(window) + at
        return end if end > begin else None


def _events_of(events: list[Event]) -> set[type]:
    return {type(event) for event in events}


@cache
def class_of(name: str) -> type[NarrowsReasoningParser]:
    """The reasoning parser of this wire format's own style, or of this style. A format's name comes first."""
    fmt, style = reasoning_of(name)
    if style is None:
        raise FormatError(
            f"models of the format {name} do not reason",
            code="reasoning_unknown",
            hint="Leave --reasoning-parser out, or name a style, such as narrows_think",
        )
    body = {
        "style_name": style.name,
        "format_name": None if fmt is None else name if name in known() else fmt.name,  # one's own: as it was asked for
        "__module__": __name__,
        "__doc__": f"Reasoning of {name}.",
    }
    return type(f"{PREFIX}{name}", (NarrowsReasoningParser,), body)


def __getattr__(name: str) -> Any:
    if name.startswith(PREFIX) and name[len(PREFIX) :] in reasoning_names():
        return class_of(name[len(PREFIX) :])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
