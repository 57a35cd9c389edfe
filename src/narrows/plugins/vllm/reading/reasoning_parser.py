"""vLLM reasoning parsers, one class per reasoning style (`--reasoning-parser narrows_think`) and per wire format
(`narrows_hermes_json`, the format's own style).

Beside a narrows tool parser it reads nothing itself: both share one stream, which splits the reasoning off (turn.py).
Beside another tool parser it ends with the reasoning, and passes the rest on. Alone it reads the whole answer.

In the engine's process vLLM asks at every step whether the reasoning has ended, to know where masks begin. This looks
at the new tokens. If a marker consists of several tokens, it looks at as many before them. So the cost does not depend
on the length of the answer.
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

delegating.install()  # before the first parser is made, inside a method that it wraps
_CARRIER = "hermes_json"
"""The format for a style without a format. Without tools every format reads the style in the same way."""
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
        """Whether a tool parser that is not narrows' reads what comes after the reasoning."""
        self.streams = False
        """Whether this object reads an answer in deltas, and vLLM has to give it all of them."""
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
        """What this delta adds. None beside a narrows tool parser, which is called next and reads the delta."""
        if self.tool_parser is not None:
            self._ended = True
            self.tool_parser.first = (delta_text, delta_token_ids)
            return None
        message = self.turn.delta(delta_text, delta_token_ids, None)
        if self.hands_over and message is not None and message.content:
            self._ended = True
        return message

    def has_engine_confirmed_reasoning_end(self) -> bool:
        """Whether the tool parser reads from here on."""
        return self._ended

    def finish_streaming(self) -> Any:
        """What was held back, or None. Called at the end of the answer or of the reasoning."""
        return self.turn.end()

    # The answer, complete.

    def extract_reasoning(self, model_output: str, request: Any) -> tuple[str | None, str | None]:
        """(reasoning, the rest). Without a narrows tool parser the rest keeps its calls as the model wrote them. If the
        reasoning was already given in deltas, it is None."""
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
        """Read up to the first call. If no reasoning comes before it, the tool parser gets the whole text.

        Limit: calls that only the preceding markup tells apart (Muse's headers) are not read again after reasoning."""
        parser = self._any_call()
        events: list[Event] = [*parser.feed(text), *parser.finish()]
        number = next((i for i, event in enumerate(events) if isinstance(event, ToolCallStart)), len(events))
        before, rest = events[:number], ""
        if number < len(events):
            if not any(isinstance(event, Reasoning) for event in before):
                return None, text
            # The parser knows where a call's markup begins from its name until the next call begins.
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
        """Whether an answer to this prompt begins outside of reasoning. It does unless the prompt opens reasoning: then
        a constraint holds from the first token on. Linear in the last turn."""
        if self.streams:
            return False  # here vLLM asks whether it may skip this object
        own_ids, self.turn.prompt_ids = self.turn.prompt_ids, input_ids
        parser = self.turn.parser(None, None)
        self.turn.prompt_ids = own_ids
        parser.feed("")
        return parser.place != "reasoning"

    def is_reasoning_end_streaming(self, input_ids: Sequence[int], delta_ids: Iterable[int]) -> bool:
        """Whether a closing marker ends among the last ids, `delta_ids`."""
        return self._closed_at(input_ids, len(list(delta_ids))) is not None

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        """The ids after the last closing marker. Empty if the reasoning has not ended."""
        at = self._closed_at(input_ids, len(input_ids))
        if at is not None:
            return list(input_ids[at:])
        return list(input_ids) if self.hands_over or self.tool_parser is not None else []

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        """Number of an answer's tokens that are reasoning."""
        vocab = self.turn.vocab
        if vocab is None:
            return 0
        parser = self.turn.parser(None, vocab)
        parser.feed_tokens(())
        count, ids = 0, [token for token in token_ids if 0 <= token < vocab.size]
        for begin in range(0, len(ids), _BLOCK):
            block = ids[begin : begin + _BLOCK]
            # Most blocks are all reasoning or have none. Only in mixed blocks each token is examined.
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
        """Set the rendered prompt, which decides whether the answer begins inside reasoning."""
        self.turn.prompt_ids = prompt_token_ids

    def adjust_initial_state_from_prompt(self, prompt_token_ids: Sequence[int]) -> None:
        self.turn.prompt_ids = prompt_token_ids

    def adjust_request(self, request: Any) -> Any:
        """Keep special tokens in the text, so that the parser sees the markers."""
        request.skip_special_tokens = False
        return request

    @property
    def _style(self) -> ReasoningStyle:
        style = self.turn.fmt.style(self.style_name)
        assert style is not None  # the style has a name
        return style

    def _closed_at(self, ids: Sequence[int], last: int) -> int | None:
        """Index after the last closing marker, if the marker ends within the last `last` ids. Otherwise None."""
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
        # A marker of n bytes has at most n tokens.
        reach = max(map(len, spelled)) - 1
        window = [token for token in ids[max(begin - reach, 0) :] if 0 <= token < vocab.size]
        data = [vocab.token_bytes(token) for token in window]
        text = b"".join(data)
        marker_end = max((at + len(closer) for closer in spelled if (at := text.rfind(closer)) >= 0), default=-1)
        if marker_end < 0:
            return None
        at, size = 0, 0
        while size < marker_end:
            size += len(data[at])
            at += 1
        end = len(ids) - len(window) + at
        return end if end > begin else None


def _events_of(events: list[Event]) -> set[type]:
    return {type(event) for event in events}


@cache
def class_of(name: str) -> type[NarrowsReasoningParser]:
    """The reasoning parser of this wire format's own style, or of this style. Formats come first."""
    fmt, style = reasoning_of(name)
    if style is None:
        raise FormatError(
            f"models of the format {name} do not reason",
            code="reasoning_unknown",
            hint="Omit --reasoning-parser, or give a style, such as narrows_think",
        )
    body = {
        "style_name": style.name,
        "format_name": None if fmt is None else name if name in known() else fmt.name,  # your own formats: as requested
        "__module__": __name__,
        "__doc__": f"Reasoning of {name}.",
    }
    return type(f"{PREFIX}{name}", (NarrowsReasoningParser,), body)


def __getattr__(name: str) -> Any:
    if name.startswith(PREFIX) and name[len(PREFIX) :] in reasoning_names():
        return class_of(name[len(PREFIX) :])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
