"""Turns an engine's outputs into the JSON that OpenAI's clients read. Pure functions of the events, no I/O.

One `ChatChoice` or `TextChoice` per sequence turns each `Output` into choice objects of stream chunks. The complete
answer is built from those same objects. Nothing is parsed, named or numbered twice, so stream and answer cannot
disagree. The cost is linear in the text.

What a client may rely on:
- The role comes once, in the first chunk. A call's id, type and name come once, before its arguments. Later chunks of
  the call do not have these fields (they are absent, not null).
- Arguments and content are sent as they come. Calls follow one another by index and never interleave.
- A chunk carries one kind of delta. Only the last chunk has an empty delta; it carries the finish_reason.
- finish_reason is `length` whenever the token budget cut the text, also within a call. It is `tool_calls` when the
  model made a whole call and the request had not named a function. Otherwise it is `stop`, also for a call that the
  request named (as OpenAI does).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from narrows.engines.api import Output, TokenLogprob
from narrows.errors import EngineError, NarrowsError
from narrows.events import Content, Event, Reasoning, ToolCallArguments, ToolCallEnd, ToolCallStart
from narrows.server.errors import body_of

if TYPE_CHECKING:
    from narrows import Vocabulary

Chunk = dict[str, Any]
"""One entry of a stream chunk's `choices`."""

LogprobWriter = Callable[[list[TokenLogprob]], Any]


class ChatChoice:
    """One sequence of a chat completion."""

    def __init__(
        self, index: int, *, named: bool = False, include_reasoning: bool = True, logprobs: LogprobWriter | None = None
    ) -> None:
        self.index = index
        self._named = named
        self._include_reasoning = include_reasoning
        self._logprobs = logprobs
        self._pending: list[TokenLogprob] = []
        self._calls = False
        self.finished = False

    def first(self) -> Chunk:
        """The first chunk of the choice: the role."""
        return self._chunk({"role": "assistant", "content": ""})

    def feed(self, output: Output) -> list[Chunk]:
        """The chunks that the client gets for this output."""
        self._pending += output.logprobs
        chunks = [self._chunk(delta) for delta in self._deltas(output.events)]
        if self._logprobs is not None and chunks and self._pending:
            chunks[0]["logprobs"] = self._take_logprobs()
        if output.finish_reason is not None:
            chunks.append(self._last(output))
        return chunks

    def _deltas(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        deltas: list[dict[str, Any]] = []
        previous: tuple[type[Event], int] | None = None
        for event in events:
            if isinstance(event, ToolCallEnd):
                self._calls = self._calls or event.complete
                continue
            if isinstance(event, ToolCallStart):
                function = {"name": event.name, "arguments": ""}
                deltas.append(
                    {"tool_calls": [{"index": event.index, "id": event.id, "type": "function", "function": function}]}
                )
                previous = None
                continue
            if not event.text or (isinstance(event, Reasoning) and not self._include_reasoning):
                continue
            key = (type(event), event.index if isinstance(event, ToolCallArguments) else 0)
            if key == previous:
                _append(deltas[-1], event)
            else:
                deltas.append(_delta(event))
            previous = key
        return deltas

    def _last(self, output: Output) -> Chunk:
        self.finished = True
        chunk = self._chunk({})
        if self._logprobs is not None and self._pending:
            chunk["logprobs"] = self._take_logprobs()
        reason: str | None = output.finish_reason
        if reason == "stop" and self._calls and not self._named:
            reason = "tool_calls"
        return _finish(chunk, reason, output)

    def _take_logprobs(self) -> Any:
        assert self._logprobs is not None
        taken, self._pending = self._pending, []
        return self._logprobs(taken)

    def _chunk(self, delta: dict[str, Any]) -> Chunk:
        return {"index": self.index, "delta": delta, "finish_reason": None}


class TextChoice:
    """One sequence of a plain completion."""

    def __init__(self, index: int, *, logprobs: LogprobWriter | None = None) -> None:
        self.index = index
        self._logprobs = logprobs
        self.finished = False

    def feed(self, output: Output) -> list[Chunk]:
        """The chunks that the client gets for this output: at most one."""
        if not output.text and output.finish_reason is None and not (self._logprobs and output.logprobs):
            return []
        chunk: Chunk = {"index": self.index, "text": output.text, "logprobs": None, "finish_reason": None}
        if self._logprobs is not None and output.logprobs:
            chunk["logprobs"] = self._logprobs(output.logprobs)
        if output.finish_reason is not None:
            self.finished = True
            _finish(chunk, output.finish_reason, output)
        return [chunk]


def _finish(chunk: Chunk, reason: str | None, output: Output) -> Chunk:
    chunk["finish_reason"] = reason
    if output.stop_reason is not None:
        chunk["stop_reason"] = output.stop_reason
    if output.error is not None:
        chunk["error"] = body_of(output.error)["error"]
    return chunk


def _delta(event: Event) -> dict[str, Any]:
    if isinstance(event, Content):
        return {"content": event.text}
    if isinstance(event, Reasoning):
        # Both spellings are in use: vLLM and OpenRouter write the first, DeepSeek and SGLang the second.
        return {"reasoning": event.text, "reasoning_content": event.text}
    assert isinstance(event, ToolCallArguments)
    return {"tool_calls": [{"index": event.index, "function": {"arguments": event.text}}]}


def _append(delta: dict[str, Any], event: Event) -> None:
    if isinstance(event, ToolCallArguments):
        delta["tool_calls"][0]["function"]["arguments"] += event.text
    elif isinstance(event, (Content, Reasoning)):
        for key in delta:
            delta[key] += event.text


def collect_chat(chunks: Iterable[Chunk]) -> list[dict[str, Any]]:
    """The `choices` of the complete answer, from all chunks of the stream. Linear in their text."""
    parts: dict[int, dict[str, list[str]]] = {}
    calls: dict[int, list[dict[str, Any]]] = {}
    arguments: dict[int, list[list[str]]] = {}
    ends: dict[int, Chunk] = {}
    logprobs: dict[int, list[Any]] = {}
    for chunk in chunks:
        index, delta = chunk["index"], chunk["delta"]
        texts = parts.setdefault(index, {})
        for key in ("content", "reasoning", "reasoning_content"):
            if delta.get(key):
                texts.setdefault(key, []).append(delta[key])
        for call in delta.get("tool_calls", ()):
            if "id" in call:
                calls.setdefault(index, []).append(
                    {"id": call["id"], "type": "function", "function": {"name": call["function"]["name"]}}
                )
                arguments.setdefault(index, []).append([])
            arguments[index][call["index"]].append(call["function"]["arguments"])
        if chunk.get("logprobs") is not None:
            logprobs.setdefault(index, []).extend(chunk["logprobs"]["content"])
        if chunk["finish_reason"] is not None:
            ends[index] = chunk
    choices = []
    for index in sorted(parts):
        texts = parts[index]
        own_calls = calls.get(index, [])
        for call, pieces in zip(own_calls, arguments.get(index, []), strict=True):
            call["function"]["arguments"] = "".join(pieces)
        content = "".join(texts.get("content", ()))
        message: dict[str, Any] = {
            "role": "assistant",
            "content": content if content or not own_calls else None,
            "refusal": None,
        }
        for key in ("reasoning", "reasoning_content"):
            if key in texts:
                message[key] = "".join(texts[key])
        if own_calls:
            message["tool_calls"] = own_calls
        end = _end(ends[index])
        choices.append(
            {
                "index": index,
                "message": message,
                "logprobs": {"content": logprobs[index], "refusal": None} if index in logprobs else None,
                **end,
            }
        )
    return choices


def collect_text(chunks: Iterable[Chunk]) -> list[dict[str, Any]]:
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
    choices = []
    for index in sorted(texts):
        end = _end(ends[index])
        choices.append({"index": index, "text": "".join(texts[index]), "logprobs": logprobs.get(index), **end})
    return choices


def _end(last: Chunk) -> dict[str, Any]:
    return {key: last[key] for key in ("finish_reason", "stop_reason", "error") if key in last}


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

    def entry(token: int, logprob: float) -> dict[str, Any]:
        text, data = shared(token)
        return {"token": text, "logprob": logprob, "bytes": data}

    def write(tokens: list[TokenLogprob]) -> dict[str, Any]:
        content = [{**entry(t.token_id, t.logprob), "top_logprobs": [entry(i, p) for i, p in t.top]} for t in tokens]
        return {"content": content, "refusal": None}

    return write


def text_logprobs(describe: Callable[[int], tuple[str, bytes]]) -> LogprobWriter:
    """OpenAI's older form: parallel lists. The writer remembers the text offset, so make one writer per choice."""
    offset = 0

    def write(tokens: list[TokenLogprob]) -> dict[str, Any]:
        nonlocal offset
        texts, offsets = [], []
        for t in tokens:
            text, data = describe(t.token_id)
            texts.append(text)
            offsets.append(offset)
            offset += len(text) if data else 0
        top = [{describe(i)[0]: p for i, p in t.top} for t in tokens]
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
