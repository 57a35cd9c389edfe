"""What a reader gets of one sequence: the text, the parser's events and the values of its tokens. No drawing here.

    token ─► text ─► stop texts ────────────┐
       └───► parser ─► repeated call ─► stop texts of the content ─► values ─► Output

The sequence (sequence.py) calls `open` once, `feed` with each token, `flush` at the end, and asks `stop_text`,
`stop_value` and `repeated_call` to see whether what was read ends the answer. Cost: that of the parser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from narrows.decoding.detokenize import ContentStops, Detokenizer, StopTexts
from narrows.decoding.reasoning_tokens import ReasoningTokens
from narrows.decoding.repeats import RepeatedCall
from narrows.decoding.sampling import TokenLogprob
from narrows.decoding.thinking import Thinking
from narrows.decoding.values import AnswerValues
from narrows.engines.api import Output, Parser, Request
from narrows.events import Content, Event, Reasoning, ToolCallArguments

if TYPE_CHECKING:
    from narrows.vocabulary.vocabulary import Vocabulary


class Reading:
    """Of sequence `index` of a request. `healed`: the end of the prompt that the sequence spells again, which is not
    shown."""

    def __init__(self, request: Request, index: int, vocabulary: Vocabulary, healed: bytes) -> None:
        sampling = request.sampling
        self._request = request
        self._index = index
        self._vocabulary = vocabulary
        self._ends = frozenset[int]() if sampling.ignore_eos else frozenset(vocabulary.eos_ids)
        self._stop_ids = frozenset(sampling.stop_token_ids)
        self._parser: Parser | None = None
        self._early: list[Event] = []
        """Events of the prompt, to be sent with those of the first token."""
        self._reasoning_tokens = ReasoningTokens()
        self.thinking: Thinking | None = None
        """The budget of its reasoning, if there is one."""
        self._prompt_text = self._prompt_events = len(healed.decode())
        """Characters of the text, and of the events, that are still to come and are the prompt's."""
        self._text = Detokenizer()
        self._stops = StopTexts(sampling.stop, sampling.include_stop_str_in_output)
        self._content_stops = ContentStops(sampling.stop, sampling.include_stop_str_in_output)
        watched = request.stop_at_repeated_call and not sampling.min_tokens
        self._repeated = RepeatedCall() if watched else None
        self._values = AnswerValues(request.values) if request.values is not None else None
        self._text_end = 0
        """Without a parser: the length of the text so far, held-back text included."""
        self._shown_end = 0
        """The length of the text that was sent."""

    def open(self) -> None:
        """Make the parser. Raises what its factory raises."""
        request = self._request
        if request.parser_factory is None:
            return
        self._parser = request.parser_factory(self._index)
        if request.thinking_budget is not None:
            self._early = self._parser.feed_tokens(())  # only now does it know where the prompt ends
            self.thinking = Thinking(request.thinking_budget, self._parser.place)

    def close(self) -> None:
        """Drop the parser."""
        self._parser = None

    @property
    def is_whole(self) -> bool:
        """Whether the text does not end inside a character."""
        return self._text.is_whole

    def stop_text(self) -> str | None:
        """The stop text that was found."""
        return self._stops.found or self._content_stops.found

    @property
    def stop_value(self) -> str | None:
        """The pointer of a value that ends the answer, once it is whole."""
        return self._values.stopped if self._values is not None else None

    @property
    def repeated_call(self) -> bool:
        """Whether the answer began to repeat a call."""
        return self._repeated is not None and self._repeated.found

    def feed(self, token: int, logprob: TokenLogprob | None, output: Output, *, stops: bool) -> None:
        """Add the text, events and values of one token to `output`. stops: whether stop texts count yet."""
        start = self._text_end if self._parser is None else self._parser.position
        text = self._text_of(token, stops)
        output.text += text  # also if the parser then fails
        events: list[Event] = []
        if self._parser is not None:
            parsed = self._events_of(self._parser, token)
            self._reasoning_tokens.token(start, self._parser.position)
            output.reasoning_tokens += self._reasoning_tokens.count(parsed)
            events = self._content(parsed, stops)
        output.events += events
        if logprob is not None:
            output.logprob_spans.append((start, self._end))
        if self._values is not None:
            if logprob is not None:
                self._values.token(self._end, logprob.logprob)
            output.values += self._values.feed(self._shown(text, events))

    def flush(self, output: Output, *, stops: bool) -> None:
        """Add what was held back: incomplete characters, then the parser's events, then possible stop texts."""
        text, events = self._text.finish(), []
        if self._parser is None:
            text = self._stops.feed(text)
            if self.stop_text() is None:
                text += self._stops.finish()
        else:
            parsed = self._early + self._parser.finish()
            output.reasoning_tokens += self._reasoning_tokens.count(parsed)
            events = self._content(parsed, stops)
            if self._repeated is not None:
                events += self._content_stops.feed(self._repeated.finish())
            if self.stop_text() is None:
                events += self._content_stops.finish()
        output.text += text
        output.events += events
        if self._values is not None:
            output.values += self._values.feed(self._shown(text, events))

    def finish_values(self, output: Output) -> None:
        """The answer is whole: add the values that end with it to `output`."""
        if self._values is not None:
            output.values += self._values.finish()

    @property
    def _end(self) -> int:
        """The length of all that was read, in the unit of the events' spans."""
        return self._text_end if self._parser is None else self._parser.position

    def _text_of(self, token: int, stops: bool) -> str:
        """The text of one token, as far as it is shown. End and stop tokens have none."""
        hidden = token in self._stop_ids or token in self._ends
        text = "" if hidden else self._text.feed(self._vocabulary.token_bytes(token))
        prompt = min(self._prompt_text, len(text))
        text = text[prompt:]
        self._prompt_text -= prompt
        self._text_end += len(text)
        return self._stops.feed(text) if self._parser is None and stops else text

    def _events_of(self, parser: Parser, token: int) -> list[Event]:
        """The parser's events of one token. It may use an end token as a marker."""
        early, self._early = self._early, []
        if token in self._stop_ids:
            return early
        events = parser.feed_tokens([token])
        if self.thinking is not None:
            self.thinking.saw(parser.place)
        return early + events if early else events

    def _content(self, events: Sequence[Event], stops: bool) -> list[Event]:
        if self._prompt_events:
            events = self._without_prompt(events)
        if self._repeated is not None:
            events = self._repeated.feed(events)
        return self._content_stops.feed(events) if stops else list(events)

    def _without_prompt(self, events: Sequence[Event]) -> list[Event]:
        """The events without the characters that are the prompt's."""
        shown: list[Event] = []
        for event in events:
            if self._prompt_events and isinstance(event, (Content, Reasoning, ToolCallArguments)):
                count = min(self._prompt_events, len(event.text))
                self._prompt_events -= count
                if count == len(event.text):
                    continue
                start, end = event.span
                event = replace(event, text=event.text[count:], span=(min(start + count, end), end))
            shown.append(event)
        return shown

    def _shown(self, text: str, events: Sequence[Event]) -> Sequence[Event]:
        """What was sent, as events: without a parser, the text is content."""
        if self._parser is not None or not text:
            return events
        start, self._shown_end = self._shown_end, self._shown_end + len(text)
        return [Content(text, (start, self._shown_end))]
