"""From a checked request to the engine: renders the prompt, gets the constraint and the parser, returns the outputs.

Worker threads render and tokenise. Other threads compile (compiler.py). The event loop only passes results on.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio
import anyio.to_thread

from narrows.arguments import quoted
from narrows.chat.model_format import find_format, find_reasoning
from narrows.chat.template import ChatTemplate, Prompt
from narrows.compile_cache import Lease
from narrows.compiling.text import definition_text
from narrows.engines.api import Engine, Output, OutputStream, Parser, Request, SamplingParams, TakesGrammars
from narrows.errors import LimitError, NarrowsError, UnsupportedError
from narrows.server import answers, constraints, decoding, unenforced
from narrows.server.answer_types import Usage
from narrows.server.compiler import Compiled
from narrows.server.drain import Drain
from narrows.server.errors import RequestError, at
from narrows.server.fields import AllowedTools, Message, NamedTool, as_dict
from narrows.server.grammars import GrammarCache
from narrows.server.http import Room
from narrows.server.logs import log
from narrows.server.metrics import Metrics
from narrows.server.places import Places
from narrows.server.protocol import ChatRequest, CompletionRequest, GenerationRequest
from narrows.server.remembered import Remembered
from narrows.server.settings import Settings
from narrows.server.values import value_options
from narrows.tools.request import INPUT
from narrows.tools.turn import TurnOptions

if TYPE_CHECKING:
    from narrows import Constraint

T = TypeVar("T")

_LARGE, _HUGE = 65_536, 1_048_576
"""Bytes. Requests above each bound have threads of their own, so that small requests do not wait for large ones, nor
large ones for huge ones."""
AT_ONCE = 1_000
"""Log-probabilities of one output that are written on the event loop. Each costs about 3 us."""
_LOGPROB_BYTES, _TOKEN_BYTES = 60, 5
"""Bytes of one log-probability, and of one token's text, as JSON: estimates."""
_LEAST_TOKENS = 4_096
"""Tokens that an answer with log-probabilities is sure to have room for, where its request names no number."""
_ANY_NUMBER = anyio.CapacityLimiter(math.inf)


@dataclass(slots=True)
class Answer:
    """A request that the engine has taken. Iterate `batches`, and always `close` it."""

    service: Service
    id: str
    created: int
    model: str
    choices: list[Any]
    streams: list[tuple[OutputStream, int]]
    """Each with the index of its first choice."""
    prompt_tokens: int
    opening: list[answers.Chunk]
    constraint_pointer: str | None = None
    """Where in the request body the constraint stands. For limits that are met while the answer is generated."""
    completion_tokens: int = 0
    cached_tokens: int = 0
    loose: tuple[str, ...] = ()
    """Pointers into the request body, to keywords of its schemas that are not enforced."""
    errors: list[NarrowsError] = field(default_factory=list)
    lease: Lease[Compiled] | None = None
    """The compiled grammar's."""
    logprob_values: int = 0
    """The number of log-probabilities so far."""
    batch_bytes: int = 0
    """The size of the last batch's log-probabilities as JSON, about."""
    _cached_seen: set[int] = field(default_factory=set)

    async def batches(self, on_first: Callable[[], None] = lambda: None) -> AsyncIterator[list[answers.Chunk]]:
        """The chunks as they come. Each batch holds the chunks of one output."""
        if self.opening:
            yield self.opening
        async for base, output in _outputs_of(self.streams):
            on_first()
            self.completion_tokens += len(output.token_ids)
            self._count_cached(base, output)
            if output.error is not None:
                if isinstance(output.error, LimitError) and output.error.pointer is None and self.constraint_pointer:
                    output.error = at(output.error, self.constraint_pointer)
                self.errors.append(output.error)
            values = answers.logprob_values(output.logprobs)
            self.logprob_values += values
            self.batch_bytes = _LOGPROB_BYTES * values
            feed = self.choices[base + output.index].feed
            chunks = (
                feed(output)
                if values <= AT_ONCE
                else await self.service.in_thread(_LOGPROB_BYTES * values, feed, output)
            )
            if chunks:
                yield chunks

    def _count_cached(self, base: int, output: Output) -> None:
        # n sequences share one prompt: the tokens that the first found in the cache count for the request.
        if output.index == 0 and base not in self._cached_seen:
            self._cached_seen.add(base)
            self.cached_tokens += output.cached_tokens

    @property
    def json_bytes(self) -> int:
        """The answer's size as JSON so far, about."""
        return _TOKEN_BYTES * self.completion_tokens + _LOGPROB_BYTES * self.logprob_values

    def usage(self) -> Usage:
        """OpenAI's usage object, as of now."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }

    def close(self) -> None:
        """Abort the sequences that still run, and release the grammar. Idempotent."""
        for stream, _ in self.streams:
            stream.close()
        if self.lease is not None:
            self.lease.release()


class _InThread(Generic[T]):
    """Work in a thread. It holds its place in `limiter` until the thread ends: cancelling the asyncio task does not
    stop the thread."""

    def __init__(self, limiter: anyio.CapacityLimiter, work: Callable[..., T], args: tuple[Any, ...]) -> None:
        self.begun = False
        self.task: asyncio.Task[T | _Refusal] = asyncio.ensure_future(self._run(limiter, work, args))
        self.task.add_done_callback(_read_error)

    async def _run(self, limiter: anyio.CapacityLimiter, work: Callable[..., T], args: tuple[Any, ...]) -> T | _Refusal:
        try:
            async with limiter:
                self.begun = True
                return await anyio.to_thread.run_sync(_result_or_refusal, work, args, limiter=_ANY_NUMBER)
        finally:
            del work, args  # a cancellation would hold this frame, and it would hold these


class _Refusal:
    """A request's error without the frames it was raised in. Those frames hold megabytes of the request, and an error
    in a task holds its own frame. That is a reference cycle, which stays until the garbage collector looks at old
    objects."""

    def __init__(self, error: NarrowsError) -> None:
        self._error: NarrowsError | None = error
        link: BaseException | None = error
        while link is not None:
            link.__traceback__ = None
            link = link.__cause__ or link.__context__

    def taken(self) -> NarrowsError:
        """The error, once. This object forgets it, so that raising it makes no reference cycle."""
        error, self._error = self._error, None
        assert error is not None
        return error


def _result_or_refusal(work: Callable[..., T], args: tuple[Any, ...]) -> T | _Refusal:
    try:
        return work(*args)
    except NarrowsError as error:
        return _Refusal(error)


def _read_error(task: asyncio.Task[Any]) -> None:
    """Read the task's error, so that asyncio does not log it as never retrieved when nobody waits for the task."""
    if not task.cancelled():
        task.exception()


class Service:
    """All that the routes need from one engine."""

    def __init__(self, engine: Engine, settings: Settings, metrics: Metrics) -> None:
        self.engine = engine
        self.settings = settings
        self.limits = settings.limits
        self.metrics = metrics
        self.created = int(time.time())
        self.model_names = settings.served_model_names or (engine.model_name,)
        source = settings.chat_template or engine.chat_template
        self.format, is_known = find_format(settings.tool_call_parser, source, "Use --tool-call-parser NAME")
        self.reasoning = find_reasoning(settings.reasoning_parser, self.format, source or "")
        vocabulary = engine.vocabulary
        self.template = ChatTemplate(
            source,
            special=vocabulary.special,
            bos_token=engine.special_tokens.get("bos_token", ""),
            eos_token=engine.special_tokens.get("eos_token", ""),
            fmt=self.format,
            limits=settings.limits,
        )
        self.reads_calls = is_known or not self.template.renders_tools
        """False where the template offers tools, but no known format reads the calls that it asks for."""
        self.drain = Drain(settings.shutdown_timeout)
        self.room = Room(settings.limits.bodies_bytes)
        self.remembered = Remembered(settings.stored_responses, settings.stored_response_bytes)
        self._small = anyio.CapacityLimiter(max(2, min(4, os.cpu_count() or 2)))
        self._large = anyio.CapacityLimiter(1)
        self._huge = anyio.CapacityLimiter(1)
        self._aside = anyio.CapacityLimiter(1)
        self._death_logged = False
        self._describe = answers.token_texts(vocabulary)
        self.grammars = GrammarCache(
            vocabulary,
            self.format,
            settings.limits,
            taker=engine if isinstance(engine, TakesGrammars) else None,
            observe=metrics.compile_seconds.observe,
        )

    def check_model(self, request: GenerationRequest) -> None:
        """Raises `RequestError` code model_not_found, with the served names. No name stands for the only model, and
        Ollama's tag `:latest` for none."""
        name = request.model
        if name and name not in self.model_names and name.removesuffix(":latest") not in self.model_names:
            raise RequestError(
                f"the model {name[:128]!r} does not exist",
                code="model_not_found",
                pointer="/model",
                hint=f"This server has {', '.join(self.model_names)}",
            )

    def check_priority(self, request: GenerationRequest) -> None:
        """Raises `RequestError` code priority_disabled for a request with a priority, where the policy has none."""
        if request.priority and self.settings.scheduling_policy != "priority":
            raise RequestError(
                f"this server does not accept a priority, but the request has {quoted(request.priority)}",
                code="priority_disabled",
                pointer="/priority",
                hint="Start the server with --scheduling-policy priority",
            )

    async def in_thread(self, size: int, work: Callable[..., T], *args: Any) -> T:
        """`work(*args)` in a worker thread, for a request of `size` bytes. Few run at a time: each may hold the
        interpreter for a moment, and the event loop would wait for all of them."""
        return await self.result_of(self.begin_in_thread(size, work, *args))

    def begin_in_thread(self, size: int, work: Callable[..., T], *args: Any) -> _InThread[T]:
        """Begin what `in_thread` does. The work counts as running until its thread ends, also if nobody waits any
        more."""
        limiter = self._huge if size > _HUGE else self._large if size > _LARGE else self._small
        return _InThread(limiter, work, args)

    def begin_aside(self, work: Callable[..., T], *args: Any) -> _InThread[T]:
        """The same in the one thread for work that is long and can wait, such as the playground's."""
        return _InThread(self._aside, work, args)

    async def result_of(self, running: _InThread[T]) -> T:
        """What the work returned. If this call is cancelled, work that has not begun is cancelled too; other work runs
        to its end."""
        try:
            result = await asyncio.shield(running.task)
        except asyncio.CancelledError:
            if not running.begun:
                running.task.cancel()
            raise
        if isinstance(result, _Refusal):
            raise result.taken()
        return result

    def note(self, error: NarrowsError) -> None:
        """Log the engine's death once."""
        if error.code == "engine_dead" and not self._death_logged:
            self._death_logged = True
            log.critical("the engine is dead, and every request fails from now on: %s", error)

    async def start_chat(self, request: ChatRequest, response_id: str, size: int = 0, client: str = "") -> Answer:
        """Hand a chat to the engine. `size`: bytes of its body. `client`: see clients.py. Raises the request's errors,
        with pointers into the body."""
        with request.places.located():
            return await self._start_chat(request, response_id, size, client)

    async def _start_chat(self, request: ChatRequest, response_id: str, size: int, client: str) -> Answer:
        tools = [{**as_dict(tool), "function": as_dict(tool.function)} for tool in request.tools or ()]
        choice, positions = _tool_choice(request, tools)
        if tools and not self.reads_calls:
            raise UnsupportedError(
                "the format of this model's tool calls is not known",
                code="format_unknown",
                pointer="/tools",
                hint="Start the server with --tool-call-parser NAME",
            )
        logprobs = (request.top_logprobs or 0) if request.logprobs else None
        with _pointing_at("/messages"):
            sampling, prompt, ids = await self.in_thread(size, self.prepare, request, tools, logprobs)
        sampling = self._with_token_bound(sampling, request.n, [len(ids)], "/top_logprobs")
        strictness = self._strictness(request)
        task = constraints.Task(
            format=self.format,
            vocabulary=self.engine.vocabulary,
            limits=self.limits,
            turn=TurnOptions(
                tools=[_with_input(tools[i], request.inputs.get(i)) for i in positions],
                tool_choice=choice,
                parallel=request.parallel_tool_calls is not False,
                reasoning=self.reasoning,
                prompt=prompt.tail,
            ),
            positions=positions,
            max_calls=self._max_calls(request),
            additional=strictness.additional,
            on_unsupported=strictness.of_tools,
        )
        content = constraints.wanted(request, strictness)
        task = task.holding(content)
        wanted_values = value_options(request, content, bool(positions) and choice != "none", self.limits)
        plan = constraints.for_chat(task, content)
        parsed = decoding.healed(request, task, ids)
        names = [tool["function"]["name"] for tool in tools]
        engine_request = Request(
            request_id=response_id,
            prompt_token_ids=ids,
            sampling=sampling,
            strategies=request.strategies(sampling),
            token_healing=parsed is not None,
            n=request.n,
            parser_factory=self._parsers(parsed or task, response_id),
            stop_at_repeated_call=self.settings.stop_at_repeated_call
            if request.stop_at_repeated_call is None
            else request.stop_at_repeated_call,
            values=wanted_values,
            repetition_detection=request.detection(),
            thinking_budget=decoding.thinking_budget(request, self.format.style(self.reasoning), self.engine),
            priority=request.priority,
            client=client,
        )
        selected = await decoding.selected(self.engine, request, ids, sampling, response_id, client)
        plan = plan if selected is None else None
        grammar = await self._lease_grammar(plan, request.places, client, size, names)
        engine_request.constraint = grammar.constraint
        if selected is not None:
            engine_request = selected.ask(engine_request)
        with _pointing_at("/messages"), grammar:
            stream = await self._generate(request, engine_request)
        write = answers.chat_logprobs(self._describe) if request.logprobs else None
        choices = [
            answers.ChatChoice(
                i,
                named=isinstance(choice, dict),
                include_reasoning=request.include_reasoning,
                logprobs=write,
                values=request.reported_values() is not None,
                options=None if selected is None else selected.options,
            )
            for i in range(request.n)
        ]
        return Answer(
            service=self,
            id=response_id,
            created=int(time.time()),
            model=self.model_names[0],
            choices=choices,
            streams=[(stream, 0)],
            prompt_tokens=len(ids),
            opening=[c.first() for c in choices],
            constraint_pointer=request.places.outer(plan.place("")) if plan is not None else None,
            loose=grammar.loose,
            lease=grammar.lease,
        )

    def prepare(
        self, request: ChatRequest, tools: list[dict[str, Any]], logprobs: int | None
    ) -> tuple[SamplingParams, Prompt, list[int]]:
        """The sampling parameters, the rendered prompt and its tokens. In a thread."""
        sampling = request.sampling(
            max_tokens=request.max_tokens if request.max_completion_tokens is None else request.max_completion_tokens,
            logprobs=logprobs,
            limits=self.limits,
        )
        messages = [_message(message) for message in request.messages]
        variables = dict(request.chat_template_kwargs or {})
        if request.reasoning_effort is not None:
            variables.setdefault("reasoning_effort", request.reasoning_effort)
        prompt = self.template.render(
            messages,
            tools or None,
            parallel=request.parallel_tool_calls is not False,
            continue_final=request.continue_final_message,
            variables=variables,
        )
        ids = self.template.encode(prompt, lambda text, special: self.engine.encode(text, parse_special=special))
        return sampling, prompt, ids

    async def count_chat(self, request: ChatRequest, size: int = 0) -> int:
        """The tokens of the prompt that this chat would have."""
        return len((await self._prompt_of(request, size))[1])

    async def render_chat(self, request: ChatRequest, size: int = 0) -> str:
        """The text of the prompt that this chat would have."""
        return (await self._prompt_of(request, size))[0].text

    async def _prompt_of(self, request: ChatRequest, size: int) -> tuple[Prompt, list[int]]:
        tools = [{**as_dict(tool), "function": as_dict(tool.function)} for tool in request.tools or ()]
        with request.places.located(), _pointing_at("/messages"):
            _, prompt, ids = await self.in_thread(size, self.prepare, request, tools, None)
            return prompt, ids

    def _parsers(self, task: constraints.Task, response_id: str) -> Callable[[int], Parser]:
        def make(index: int) -> Parser:
            # Ids are seeded by the response: the stream, the complete answer and a replay after preemption have the
            # same ids.
            return task.parser(self.format.id_factory(f"{response_id}/{index}"))

        return make

    async def start_completion(
        self, request: CompletionRequest, response_id: str, size: int = 0, client: str = ""
    ) -> Answer:
        """Hand plain completions to the engine, one engine request per prompt."""
        with request.places.located():
            return await self._start_completion(request, response_id, size, client)

    async def _start_completion(self, request: CompletionRequest, response_id: str, size: int, client: str) -> Answer:
        with _pointing_at("/prompt"):
            sampling, prompts = await self.in_thread(size, self.prepare_plain, request)
        sampling = self._with_token_bound(sampling, request.n, list(map(len, prompts)), "/logprobs")
        shape = constraints.wanted(request, self._strictness(request))
        wanted_values = value_options(request, shape, False, self.limits)
        plan = constraints.plain(shape) if request.select is None else None
        grammar = await self._lease_grammar(plan, request.places, client, size)
        streams: list[tuple[OutputStream, int]] = []
        options: list[list[dict[str, Any]] | None] = []
        try:
            for i, ids in enumerate(prompts):
                engine_request = Request(
                    request_id=f"{response_id}-{i}",
                    prompt_token_ids=ids,
                    sampling=sampling,
                    n=request.n,
                    constraint=grammar.constraint,
                    strategies=request.strategies(sampling),
                    token_healing=request.token_healing,
                    repetition_detection=request.detection(),
                    values=wanted_values,
                    priority=request.priority,
                    client=client,
                )
                selected = await decoding.selected(self.engine, request, ids, sampling, f"{response_id}-{i}", client)
                options += [None if selected is None else selected.options] * request.n
                if selected is not None:
                    engine_request = selected.ask(engine_request)
                with _pointing_at("/prompt"), grammar:
                    streams.append((await self._generate(request, engine_request), i * request.n))
        except BaseException:
            for stream, _ in streams:
                stream.close()
            raise
        with_logprobs = request.logprobs is not None
        choices = [
            answers.TextChoice(
                i,
                logprobs=answers.text_logprobs(self._describe) if with_logprobs else None,
                values=request.reported_values() is not None,
                options=options[i],
            )
            for i in range(len(prompts) * request.n)
        ]
        return Answer(
            service=self,
            id=response_id,
            created=int(time.time()),
            model=self.model_names[0],
            choices=choices,
            streams=streams,
            prompt_tokens=sum(map(len, prompts)),
            opening=[],
            constraint_pointer=request.places.outer(plan.place("")) if plan is not None else None,
            loose=grammar.loose,
            lease=grammar.lease,
        )

    async def _generate(self, request: GenerationRequest, engine_request: Request) -> OutputStream:
        """Hand a request to the engine, after what `decoding.py` has to check."""
        most = engine_request.sampling.max_tokens
        room = self.engine.max_model_len - len(engine_request.prompt_token_ids)
        await decoding.check_budget(request, engine_request.constraint, room if most is None else most)
        return self.engine.generate(engine_request)

    def prepare_plain(self, request: CompletionRequest) -> tuple[SamplingParams, list[list[int]]]:
        """The same of plain prompts."""
        sampling = request.sampling(
            max_tokens=request.default_tokens if request.max_tokens is None else request.max_tokens,
            logprobs=request.logprobs,
            limits=self.limits,
        )
        # A plain prompt is the caller's own markup, as in vLLM: its control tokens are read as such.
        return sampling, [
            self.engine.encode(prompt, parse_special=True, add_bos=self.engine.add_bos and request.add_special_tokens)
            if isinstance(prompt, str)
            else prompt
            for prompt in request.prompts()
        ]

    def _strictness(self, request: GenerationRequest) -> constraints.Strictness:
        settings = self.settings
        return constraints.strictness(request, settings.disable_additional_properties, settings.strict_schemas)

    def _with_token_bound(self, sampling: SamplingParams, n: int, prompts: list[int], pointer: str) -> SamplingParams:
        """`sampling` with max_tokens bounded, so that the log-probabilities of all answers stay within the limit.

        `prompts`: the prompts' lengths in tokens. Raises `LimitError` where the bound is below the request's own
        max_tokens, or below `_LEAST_TOKENS` where the request names none.
        """
        if sampling.logprobs is None:
            return sampling
        left = [max(0, self.engine.max_model_len - prompt) for prompt in prompts]
        most = self.limits.logprob_values // (n * len(prompts) * (1 + sampling.logprobs))
        wanted = _LEAST_TOKENS if sampling.max_tokens is None else sampling.max_tokens
        if most < min(wanted, max(left)):
            raise LimitError(
                f"the answer could have more than {self.limits.logprob_values:,} log-probabilities",
                limit="logprob_values",
                pointer=pointer,
                hint="Ask for fewer of each token, a smaller max_tokens or a smaller n",
            )
        return replace(sampling, max_tokens=most) if sampling.max_tokens is None and most < max(left) else sampling

    def _max_calls(self, request: ChatRequest) -> int | None:
        most = self.settings.max_tool_calls if request.max_tool_calls is None else request.max_tool_calls
        # A call takes at least one token. So a larger number is no bound, and needs no grammar of that size.
        return most if most is not None and most < self.engine.max_model_len else None

    async def _lease_grammar(
        self, plan: constraints.Plan | None, places: Places, client: str, size: int, tools: Sequence[str] = ()
    ) -> _LeasedGrammar:
        """The compiled grammar, and pointers into the request's body to the keywords that it does not enforce."""
        if plan is None:
            return _LeasedGrammar()
        text = await self.in_thread(size, definition_text, plan.definition) if size > _LARGE else None
        misses = self.grammars.misses
        try:
            lease = await self.grammars.get(plan.definition, client, text)
        except NarrowsError as error:
            raise plan.locate(error) from error
        loose = tuple(places.outer(plan.place(pointer)) for pointer in lease.value.loose)
        if loose:
            unenforced.count(self.metrics, loose)
            if self.grammars.misses > misses:
                log.warning("schemas are not wholly enforced: %s", unenforced.line(loose, tools))
        return _LeasedGrammar(lease.value.constraint, loose, lease)

    def close(self) -> None:
        """End the workers. The engine is not closed: it belongs to the caller."""
        self.grammars.close()


def _with_input(tool: dict[str, Any], grammar: list[str] | None) -> dict[str, Any]:
    """The tool, with the grammar of its argument `input` (tools/request.py)."""
    return tool if grammar is None else {**tool, "function": {**tool["function"], INPUT: grammar}}


def _message(message: Message) -> dict[str, Any]:
    """A message as chat/template.py takes it. Values are not copied."""
    fields = {name: value for name, value in as_dict(message).items() if value is not None}
    if message.tool_calls:
        fields["tool_calls"] = [{**as_dict(call), "function": as_dict(call.function)} for call in message.tool_calls]
    return fields


@dataclass(frozen=True, slots=True)
class _LeasedGrammar:
    """The grammar that holds a request's answer. A `with` block releases it if the block raises."""

    constraint: Constraint | None = None
    loose: tuple[str, ...] = ()
    lease: Lease[Compiled] | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self.lease is not None:
            self.lease.release()


@contextmanager
def _pointing_at(pointer: str) -> Iterator[None]:
    """Adds the prompt's place in the body to errors about the prompt."""
    try:
        yield
    except NarrowsError as error:
        if error.pointer == "/prompt_token_ids" or (
            error.pointer is None and error.code in ("context_length_exceeded", "prompt_empty", "invalid_input")
        ):
            error.pointer = pointer
        raise


def _tool_choice(request: ChatRequest, tools: list[dict[str, Any]]) -> tuple[str | dict[str, Any], tuple[int, ...]]:
    """The tool choice as formats take it, and the indices of the tools that may be called."""
    choice = request.tool_choice
    everyone = tuple(range(len(tools)))
    if not tools:
        return "none", ()
    if choice is None:
        return "auto", everyone
    if isinstance(choice, str):
        return choice, everyone
    if isinstance(choice, NamedTool):
        return {"type": "function", "function": {"name": choice.function.name}}, everyone
    assert isinstance(choice, AllowedTools)
    allowed = {tool.function.name for tool in choice.allowed_tools.tools}
    return choice.allowed_tools.mode, tuple(i for i in everyone if tools[i]["function"]["name"] in allowed)


async def _outputs_of(streams: list[tuple[OutputStream, int]]) -> AsyncIterator[tuple[int, Output]]:
    """The outputs of all streams as they come, each with the index of its stream's first choice."""
    if len(streams) == 1:
        stream, base = streams[0]
        async for output in stream:
            yield base, output
        return
    waiting: dict[asyncio.Future[Output], tuple[OutputStream, int]] = {}

    def ask(stream: OutputStream, base: int) -> None:
        waiting[asyncio.ensure_future(stream.__anext__())] = (stream, base)

    try:
        for stream, base in streams:
            ask(stream, base)
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for future in done:
                stream, base = waiting.pop(future)
                try:
                    output = future.result()
                except StopAsyncIteration:
                    continue
                ask(stream, base)
                yield base, output
    finally:
        for future in waiting:
            future.cancel()
