"""Turns an engine's outputs into the JSON that OpenAI's clients read. Pure functions of the events, no I/O.

One `ChatChoice` or `TextChoice` per sequence turns each `Output` into choice objects of stream chunks. The complete
answer is built from those same objects. Nothing is parsed, named or numbered twice, so stream and answer cannot
disagree. The cost is linear in the text.

What a client may rely on:
- The role comes once, in the first chunk. Then come the deltas of stream/deltas.py, one in a chunk. Only the last chunk
  has an empty delta; it carries the finish_reason.
- Values, if asked for, are in the last chunk of the output that made them whole: their text has come by then.
- finish_reason is `length` whenever the token budget cut the text, also within a call. It is `repetition` where
  `repetition_detection` ended it, and `stop_reason` is then `repetition_detected`, as in vLLM. It is `tool_calls` when
  the model made a whole call and the request had not named a function. Otherwise it is `stop`, also for a call that the
  request named (as OpenAI does).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from narrows.engines.api import Output, TokenLogprob
from narrows.errors import EngineError, NarrowsError
from narrows.events import Content
from narrows.server.answer_types import (
    AnsweredMessage,
    ChatCompletionChoice,
    ChatLogprobs,
    End,
    TextCompletionChoice,
    TextLogprobs,
    TokenLogprobEntry,
    TopLogprob,
)
from narrows.server.errors import body_of
from narrows.server.values import entry
from narrows.stream.deltas import Delta, Deltas, message_of

if TYPE_CHECKING:
    from narrows import Vocabulary

Chunk = dict[str, Any]
"""One entry of a stream chunk's `choices`."""
CUT = ("length", "repetition")
"""The finish reasons of answers that the model did not end itself."""

LogprobWriter = Callable[[list[TokenLogprob]], Any]


class ChatChoice:
    """One sequence of a chat completion."""

    def __init__(
        self,
        index: int,
        *,
        named: bool = False,
        include_reasoning: bool = True,
        logprobs: LogprobWriter | None = None,
        of_content: bool = False,
        values: bool = False,
        options: list[dict[str, Any]] | None = None,
    ) -> None:
        """`of_content`: log-probabilities are only those of the tokens that the content has characters of, each with
        its piece."""
        self.index = index
        self._options = options
        self._named = named
        self._of_content = _OfContent() if of_content and logprobs is not None else None
        self._deltas = Deltas(include_reasoning)
        self._logprobs = logprobs
        self._pending: list[TokenLogprob] = []
        self._values = _Values(values)
        self.finished = False

    @property
    def in_call(self) -> bool:
        """Whether the last call is not whole."""
        return self._deltas.in_call

    @property
    def has_call(self) -> bool:
        """Whether there is a whole call so far."""
        return self._deltas.has_call

    def first(self) -> Chunk:
        """The first chunk of the choice: the role."""
        return self._chunk({"role": "assistant", "content": ""})

    def feed(self, output: Output) -> list[Chunk]:
        """The chunks that the client gets for this output."""
        if self._of_content is not None:
            chunks = self._with_those_of_content(output, self._of_content)
        else:
            self._pending += output.logprobs
            chunks = [self._chunk(delta) for delta in self._deltas.of(output.events)]
            if self._logprobs is not None and chunks and self._pending:
                chunks[0]["logprobs"] = self._take_logprobs()
        if output.finish_reason is not None:
            chunks.append(self._last(output))
        return self._values.added(chunks, output)

    def _with_those_of_content(self, output: Output, tokens: _OfContent) -> list[Chunk]:
        assert self._logprobs is not None
        tokens.add(output)
        chunks: list[Chunk] = []
        for kind, run in groupby(output.events, type):
            events = list(run)
            for delta in self._deltas.of(events):
                chunk = self._chunk(delta)
                own = tokens.over(events[0].span[0], events[-1].span[1]) if kind is Content else []
                if own:
                    chunk["logprobs"] = self._logprobs(own)
                chunks.append(chunk)
        return chunks

    def _last(self, output: Output) -> Chunk:
        self.finished = True
        chunk = self._chunk({})
        if self._logprobs is not None and self._pending:
            chunk["logprobs"] = self._take_logprobs()
        reason: str | None = output.finish_reason
        if reason == "stop" and self._deltas.has_call and not self._named and not output.stop_value:
            reason = "tool_calls"
        if self._options is not None:
            chunk["options"] = self._options
        return _finish(chunk, reason, output)

    def _take_logprobs(self) -> Any:
        assert self._logprobs is not None
        taken, self._pending = self._pending, []
        return self._logprobs(taken)

    def _chunk(self, delta: dict[str, Any]) -> Chunk:
        return {"index": self.index, "delta": delta, "finish_reason": None}


class _OfContent:
    """The tokens of an answer, until it is known whether its content has characters of them. Which ones these are does
    not depend on how the answer comes."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[TokenLogprob, int, int]] = deque()
        self._begun: list[TokenLogprob] = []
        """Tokens that are the beginning of a character."""

    def add(self, output: Output) -> None:
        for token, (start, end) in zip(output.logprobs, output.logprob_spans, strict=False):
            self._waiting.append((token, start, end))

    def over(self, start: int, end: int) -> list[TokenLogprob]:
        """The tokens of the characters from `start` to `end`, later ones than those that were asked for before."""
        found: list[TokenLogprob] = []
        while self._waiting and self._waiting[0][1] < end:
            token, first, last = self._waiting.popleft()
            self._begun.append(token)
            if first == last:
                continue
            if last > start:
                found += self._begun
            self._begun = []
        return found


class TextChoice:
    """One sequence of a plain completion."""

    def __init__(
        self,
        index: int,
        *,
        logprobs: LogprobWriter | None = None,
        values: bool = False,
        options: list[dict[str, Any]] | None = None,
    ) -> None:
        self.index = index
        self._options = options
        self._logprobs = logprobs
        self._values = _Values(values)
        self.finished = False

    def feed(self, output: Output) -> list[Chunk]:
        """The chunks that the client gets for this output: at most one."""
        if not output.text and output.finish_reason is None and not (self._logprobs and output.logprobs):
            return self._values.added([], output)
        chunk: Chunk = {"index": self.index, "text": output.text, "logprobs": None, "finish_reason": None}
        if self._logprobs is not None and output.logprobs:
            chunk["logprobs"] = self._logprobs(output.logprobs)
        if output.finish_reason is not None:
            self.finished = True
            if self._options is not None:
                chunk["options"] = self._options
            _finish(chunk, output.finish_reason, output)
        return self._values.added([chunk], output)


class _Values:
    """Puts values into chunks, if they are `wanted`."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._pending: list[dict[str, Any]] = []
        """Those of outputs without a chunk."""

    def added(self, chunks: list[Chunk], output: Output) -> list[Chunk]:
        if self._wanted:
            self._pending += map(entry, output.values)
            if chunks and self._pending:
                chunks[-1]["values"], self._pending = self._pending, []
        return chunks


def _finish(chunk: Chunk, reason: str | None, output: Output) -> Chunk:
    chunk["finish_reason"] = reason
    if output.stop_reason is not None:
        chunk["stop_reason"] = output.stop_reason
    if output.error is not None:
        chunk["error"] = body_of(output.error)["error"]
    return chunk


def collect_chat(chunks: Iterable[Chunk]) -> list[ChatCompletionChoice]:
    """The `choices` of the complete answer, from all chunks of the stream. Linear in their text."""
    deltas: dict[int, list[Delta]] = {}
    ends: dict[int, Chunk] = {}
    logprobs: dict[int, list[Any]] = {}
    for chunk in chunks:
        index = chunk["index"]
        deltas.setdefault(index, []).append(chunk["delta"])
        if chunk.get("logprobs") is not None:
            logprobs.setdefault(index, []).extend(chunk["logprobs"]["content"])
        if chunk["finish_reason"] is not None:
            ends[index] = chunk
    return [
        {
            "index": index,
            "message": cast(AnsweredMessage, message_of(deltas[index])),
            "logprobs": {"content": logprobs[index], "refusal": None} if index in logprobs else None,
            "finish_reason": ends[index]["finish_reason"],
            **_end(ends[index]),
        }
        for index in sorted(deltas)
    ]


def collect_text(chunks: Iterable[Chunk]) -> list[TextCompletionChoice]:
    """The same for plain completions."""
    texts: dict[int, list[str]] = {}
    ends: dict[int, Chunk] = {}
    logprobs: dict[int, dict[str, list[Any]]] = {}
    for chunk in chunks:
        index = chunk["index"]
        texts.setdefault(index, []).append(chunk["text"])
        if chunk["logprobs"] is not None:
            collected = logprobs.setdefault(index, {})
            for key, values in chunk["logprobs"].items():
                collected.setdefault(key, []).extend(values)
        if chunk["finish_reason"] is not None:
            ends[index] = chunk
    return [
        {
            "index": index,
            "text": "".join(texts[index]),
            "logprobs": cast("TextLogprobs | None", logprobs.get(index)),
            "finish_reason": ends[index]["finish_reason"],
            **_end(ends[index]),
        }
        for index in sorted(texts)
    ]


def _end(last: Chunk) -> End:
    return cast(End, {key: last[key] for key in ("stop_reason", "error", "options") if key in last})


def token_texts(vocabulary: Vocabulary) -> Callable[[int], tuple[str, bytes]]:
    """A function from a token id to the token's text and bytes, for log-probabilities. A special token has its name as
    text, and no bytes."""
    names = {token: name for name, token in vocabulary.special.items()}

    @lru_cache(maxsize=10_000)
    def describe(token: int) -> tuple[str, bytes]:
        data = vocabulary.token_bytes(token)
        return (data.decode("utf-8", "replace"), data) if data else (names.get(token, ""), b"")

    return describe


def logprob_values(tokens: Iterable[TokenLogprob]) -> int:
    """The number of log-probabilities in `tokens`: one per token and one per alternative."""
    return sum(1 + len(token.top) for token in tokens)


def chat_logprobs(describe: Callable[[int], tuple[str, bytes]]) -> LogprobWriter:
    """OpenAI's chat form: one entry per token. It has the token's bytes, since a token may be half a character."""

    @lru_cache(maxsize=10_000)
    def shared(token: int) -> tuple[str, list[int]]:
        text, data = describe(token)
        return text, list(data)

    def entry(token: int, logprob: float) -> TopLogprob:
        text, data = shared(token)
        return {"token": text, "logprob": logprob, "bytes": data}

    def write(tokens: list[TokenLogprob]) -> ChatLogprobs:
        content: list[TokenLogprobEntry] = [
            {**entry(t.token_id, t.logprob), "top_logprobs": [entry(i, p) for i, p in t.top]} for t in tokens
        ]
        return {"content": content, "refusal": None}

    return write


def text_logprobs(describe: Callable[[int], tuple[str, bytes]]) -> LogprobWriter:
    """OpenAI's older form: parallel lists. The writer remembers the text offset, so make one writer per choice."""
    offset = 0

    def by_text(token: TokenLogprob) -> dict[str, float]:
        """The likeliest tokens and the one that was written, as OpenAI has it. Of tokens with one text, the likelier
        one."""
        row: dict[str, float] = {}
        for other, logprob in (*token.top, (token.token_id, token.logprob)):
            row.setdefault(describe(other)[0], logprob)
        return row

    def write(tokens: list[TokenLogprob]) -> TextLogprobs:
        nonlocal offset
        texts, offsets = [], []
        for t in tokens:
            text, data = describe(t.token_id)
            texts.append(text)
            offsets.append(offset)
            offset += len(text) if data else 0
        top = [by_text(t) for t in tokens]
        return {
            "tokens": texts,
            "token_logprobs": [t.logprob for t in tokens],
            "top_logprobs": top,
            "text_offset": offsets,
        }

    return write


def first_error(chunks: Iterable[Chunk], errors: Iterable[NarrowsError]) -> NarrowsError | None:
    """The error to answer with when all sequences that have ended met an error or were aborted. None when none has
    ended, or at least one ended normally."""
    ends = [chunk["finish_reason"] for chunk in chunks if chunk["finish_reason"] is not None]
    if not ends or any(reason not in ("error", "abort") for reason in ends):
        return None
    return next(iter(errors), EngineError("the answer was aborted", code="server_stopping"))
