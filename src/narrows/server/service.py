"""From a checked request to the engine: renders the prompt, gets the constraint and the parser, returns the outputs.

Worker threads render and tokenise. Other threads compile (compiler.py). The event loop only passes results on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from narrows.arguments import quoted
from narrows.chat.model_format import find_format, find_reasoning
from narrows.chat.template import ChatTemplate, Prompt
from narrows.engines.api import OutputStream, Parser, Request, TakesGrammars
from narrows.errors import UnsupportedError
from narrows.server import answers, constraints, decoding
from narrows.server.answering import Answer
from narrows.server.errors import RequestError
from narrows.server.fields import AllowedTools, NamedTool, as_dict
from narrows.server.grammars import GrammarCache
from narrows.server.leases import Leasing
from narrows.server.prompts import Prompts, pointing_at
from narrows.server.protocol import ChatRequest, CompletionRequest, GenerationRequest
from narrows.server.served_model import ServedModel
from narrows.server.shared import Shared
from narrows.server.values import value_options
from narrows.tools.request import INPUT
from narrows.tools.turn import TurnOptions

T = TypeVar("T")


class Service:
    """All that the routes need from one model."""

    def __init__(self, model: ServedModel, shared: Shared, names: Sequence[str] = (), *, is_alone: bool = True) -> None:
        """`names`: of the model, for clients; without them, the engine's own. `is_alone`: the server has no other."""
        self.shared = shared
        self.settings = shared.settings
        self.limits = shared.limits
        self.engine = engine = model.engine
        self.model_names = tuple(names) or (engine.model_name,)
        self.name = self.model_names[0]
        """In answers, in metrics and in the log."""
        source = model.chat_template or engine.chat_template
        self._parser_option = "--tool-call-parser " + ("NAME" if is_alone else f"{self.name}=NAME")
        self.format, is_known = find_format(model.tool_call_parser, source, f"Use {self._parser_option}")
        self.reasoning = find_reasoning(model.reasoning_parser, self.format, source or "")
        vocabulary = engine.vocabulary
        self.template = ChatTemplate(
            source,
            special=vocabulary.special,
            bos_token=engine.special_tokens.get("bos_token", ""),
            eos_token=engine.special_tokens.get("eos_token", ""),
            fmt=self.format,
            limits=self.limits,
        )
        self.reads_calls = is_known or not self.template.renders_tools
        """False where the template offers tools, but no known format reads the calls that it asks for."""
        self.prompts = Prompts(engine, self.template, self.limits)
        self.describe = answers.token_texts(vocabulary)
        """Text and bytes of a token, for people."""
        self.grammars = GrammarCache(
            vocabulary,
            self.format,
            self.limits,
            lanes=shared.lanes,
            taker=engine if isinstance(engine, TakesGrammars) else None,
            observe=shared.metrics.compile_seconds.labels(self.name).observe,
        )
        self._leasing = Leasing(self.grammars, shared.threads, shared.metrics, self.name)

    async def in_thread(self, size: int, work: Callable[..., T], *args: Any) -> T:
        """`work(*args)` in a worker thread, for a request of `size` bytes (threads.py)."""
        return await self.shared.threads.in_thread(size, work, *args)

    def check_priority(self, request: GenerationRequest) -> None:
        """Raises `RequestError` code priority_disabled for a request with a priority, where the policy has none."""
        if request.priority and self.settings.scheduling_policy != "priority":
            raise RequestError(
                f"this server does not accept a priority, but the request has {quoted(request.priority)}",
                code="priority_disabled",
                pointer="/priority",
                hint="Start the server with --scheduling-policy priority",
            )

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
                hint=f"Start the server with {self._parser_option}",
            )
        logprobs = (request.top_logprobs or 0) if request.logprobs else None
        with pointing_at("/messages"):
            sampling, prompt, ids = await self.in_thread(size, self.prompts.chat, request, tools, logprobs)
        sampling = self.prompts.with_token_bound(sampling, request.n, [len(ids)], "/top_logprobs")
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
        grammar = await self._leasing.lease(plan, request.places, client, size, names)
        engine_request.constraint = grammar.constraint
        if selected is not None:
            engine_request = selected.ask(engine_request)
        with pointing_at("/messages"), grammar:
            stream = await self._generate(request, engine_request)
        write = answers.chat_logprobs(self.describe) if request.logprobs else None
        choices = [
            answers.ChatChoice(
                i,
                named=isinstance(choice, dict),
                include_reasoning=request.include_reasoning,
                logprobs=write,
                of_content=request.logprobs_of_content,
                values=request.reported_values() is not None,
                options=None if selected is None else selected.options,
            )
            for i in range(request.n)
        ]
        return Answer(
            shared=self.shared,
            id=response_id,
            created=int(time.time()),
            model=self.name,
            choices=choices,
            streams=[(stream, 0)],
            prompt_tokens=len(ids),
            opening=[c.first() for c in choices],
            constraint_pointer=request.places.outer(plan.place("")) if plan is not None else None,
            loose=grammar.loose,
            lease=grammar.lease,
        )

    async def count_chat(self, request: ChatRequest, size: int = 0) -> int:
        """The tokens of the prompt that this chat would have."""
        return len((await self._prompt_of(request, size))[1])

    async def render_chat(self, request: ChatRequest, size: int = 0) -> str:
        """The text of the prompt that this chat would have."""
        return (await self._prompt_of(request, size))[0].text

    async def _prompt_of(self, request: ChatRequest, size: int) -> tuple[Prompt, list[int]]:
        tools = [{**as_dict(tool), "function": as_dict(tool.function)} for tool in request.tools or ()]
        with request.places.located(), pointing_at("/messages"):
            _, prompt, ids = await self.in_thread(size, self.prompts.chat, request, tools, None)
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
        with pointing_at("/prompt"):
            sampling, prompts = await self.in_thread(size, self.prompts.plain, request)
        sampling = self.prompts.with_token_bound(sampling, request.n, list(map(len, prompts)), "/logprobs")
        shape = constraints.wanted(request, self._strictness(request))
        wanted_values = value_options(request, shape, False, self.limits)
        plan = constraints.plain(shape) if request.select is None else None
        grammar = await self._leasing.lease(plan, request.places, client, size)
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
                with pointing_at("/prompt"), grammar:
                    streams.append((await self._generate(request, engine_request), i * request.n))
        except BaseException:
            for stream, _ in streams:
                stream.close()
            raise
        with_logprobs = request.logprobs is not None
        choices = [
            answers.TextChoice(
                i,
                logprobs=answers.text_logprobs(self.describe) if with_logprobs else None,
                values=request.reported_values() is not None,
                options=options[i],
            )
            for i in range(len(prompts) * request.n)
        ]
        return Answer(
            shared=self.shared,
            id=response_id,
            created=int(time.time()),
            model=self.name,
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

    def _strictness(self, request: GenerationRequest) -> constraints.Strictness:
        settings = self.settings
        return constraints.strictness(request, settings.disable_additional_properties, settings.strict_schemas)

    def _max_calls(self, request: ChatRequest) -> int | None:
        most = self.settings.max_tool_calls if request.max_tool_calls is None else request.max_tool_calls
        # A call takes at least one token. So a larger number is no bound, and needs no grammar of that size.
        return most if most is not None and most < self.engine.max_model_len else None

    def close(self) -> None:
        """End the workers. The engine is not closed: it belongs to the caller."""
        self.grammars.close()


def _with_input(tool: dict[str, Any], grammar: list[str] | None) -> dict[str, Any]:
    """The tool, with the grammar of its argument `input` (tools/request.py)."""
    return tool if grammar is None else {**tool, "function": {**tool["function"], INPUT: grammar}}


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
