"""What a request asks of decoding beyond sampling: options that are scored as a whole, budgets, and a prompt whose end
is healed. The strategies themselves are in narrows/decoding."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from threading import Event
from typing import TYPE_CHECKING, Any

from narrows.decoding.healing import split
from narrows.engines.api import Engine, Request, SamplingParams, ThinkingBudget
from narrows.engines.select import end_token, select
from narrows.errors import InputError, LimitError
from narrows.server.constraints import Task
from narrows.server.protocol import ChatRequest, GenerationRequest

if TYPE_CHECKING:
    from narrows.constraint import Constraint
    from narrows.formats.reasoning import ReasoningStyle


@dataclass(frozen=True, slots=True)
class Selected:
    """The option that was chosen, and the scores of all."""

    token_ids: tuple[int, ...]
    """The answer, with its end token."""
    options: list[dict[str, Any]]
    """The scores, as the answer shows them."""

    def ask(self, request: Request) -> Request:
        """The request whose answer is the chosen option."""
        sampling = replace(request.sampling, max_tokens=len(self.token_ids), min_tokens=0, stop=(), stop_token_ids=())
        return replace(
            request,
            sampling=sampling,
            output_token_ids=self.token_ids,
            score_output=sampling.logprobs is not None,
            constraint=None,
        )


async def selected(
    engine: Engine, request: GenerationRequest, prompt: Sequence[int], sampling: SamplingParams, name: str, client: str
) -> Selected | None:
    """Score the options of a request with `select`, in a thread. None without it."""
    options = request.options()
    if options is None or request.select is None:
        return None
    stopped = Event()
    try:
        selection = await asyncio.to_thread(
            select,
            engine,
            prompt,
            options,
            by=request.select,
            temperature=0.0 if sampling.is_greedy else sampling.temperature,
            seed=sampling.seed,
            request_id=f"{name}-option",
            client=client,
            stopped=stopped,
        )
    finally:
        stopped.set()  # also where the client has left, or Ctrl-C was pressed
    tokens = (*engine.encode(selection.text), end_token(engine))
    return Selected(tokens, [asdict(score) for score in selection.scores])


async def check_budget(request: GenerationRequest, constraint: Constraint | None, most: int) -> None:
    """Raises `LimitError` code `max_tokens_too_small` for a request with a budget, if even the shortest text needs more
    than `most` tokens. `InputError` for a budget without a constraint, which would mean nothing."""
    if not request.budget:
        return
    if constraint is None:
        raise InputError(
            "budget needs an answer that is held to a grammar",
            code="invalid_value",
            pointer="/budget",
            hint="Ask for a response_format, structured_outputs, or a tool that must be called",
        )
    needed = await asyncio.to_thread(lambda: constraint.matcher().tokens_to_end())
    if needed > most:
        raise LimitError(
            f"the shortest answer needs {needed} tokens, and {most} are allowed",
            code="max_tokens_too_small",
            limit="max_tokens",
            pointer="/max_tokens",
            hint=f"Allow at least {needed}",
        )


def thinking_budget(request: ChatRequest, style: ReasoningStyle | None, engine: Engine) -> ThinkingBudget | None:
    """The bound of a request with `thinking_token_budget`. As in vLLM, -1 sets none. Without a `style`, no reasoning is
    read that it could bound."""
    tokens = request.thinking_token_budget
    if tokens is None or tokens == -1 or style is None:
        return None
    return ThinkingBudget(tokens=tokens, end=engine.encode(style.closer, parse_special=True))


def healed(request: ChatRequest, task: Task, prompt: Sequence[int]) -> Task | None:
    """What the parser needs for a request with `token_healing`: the prompt without the text that comes again. None
    without it. Raises `InputError` for a chat whose last message is not continued."""
    if not request.token_healing:
        return None
    if not request.continue_final_message:
        raise InputError(
            "token_healing is for a prompt that ends inside a text",
            code="invalid_value",
            pointer="/token_healing",
            hint="Set continue_final_message",
        )
    _, end = split(prompt, task.vocabulary)
    return replace(task, turn=replace(task.turn, prompt=task.turn.prompt.removesuffix(end.decode())))
