"""The prompts of one model: requests rendered with its chat template, and cut into its tokens. All of it in threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from narrows.chat.template import ChatTemplate, Prompt
from narrows.engines.api import Engine, SamplingParams
from narrows.errors import LimitError, NarrowsError
from narrows.limits import Limits
from narrows.server.fields import Message, as_dict
from narrows.server.protocol import ChatRequest, CompletionRequest

_LEAST_TOKENS = 4_096
"""Tokens that an answer with log-probabilities is sure to have room for, where its request names no number."""


class Prompts:
    """Thread-safe."""

    def __init__(self, engine: Engine, template: ChatTemplate, limits: Limits) -> None:
        self._engine = engine
        self._template = template
        self._limits = limits

    def chat(
        self, request: ChatRequest, tools: list[dict[str, Any]], logprobs: int | None
    ) -> tuple[SamplingParams, Prompt, list[int]]:
        """The sampling parameters, the rendered prompt and its tokens."""
        sampling = request.sampling(
            max_tokens=request.max_tokens if request.max_completion_tokens is None else request.max_completion_tokens,
            logprobs=logprobs,
            limits=self._limits,
        )
        messages = [_message(message) for message in request.messages]
        variables = dict(request.chat_template_kwargs or {})
        if request.reasoning_effort is not None:
            variables.setdefault("reasoning_effort", request.reasoning_effort)
        prompt = self._template.render(
            messages,
            tools or None,
            parallel=request.parallel_tool_calls is not False,
            continue_final=request.continue_final_message,
            variables=variables,
        )
        ids = self._template.encode(prompt, lambda text, special: self._engine.encode(text, parse_special=special))
        return sampling, prompt, ids

    def plain(self, request: CompletionRequest) -> tuple[SamplingParams, list[list[int]]]:
        """The same of plain prompts."""
        sampling = request.sampling(
            max_tokens=request.default_tokens if request.max_tokens is None else request.max_tokens,
            logprobs=request.logprobs,
            limits=self._limits,
        )
        # A plain prompt is the caller's own markup, as in vLLM: its control tokens are read as such.
        return sampling, [
            self._engine.encode(prompt, parse_special=True, add_bos=self._engine.add_bos and request.add_special_tokens)
            if isinstance(prompt, str)
            else prompt
            for prompt in request.prompts()
        ]

    def with_token_bound(self, sampling: SamplingParams, n: int, prompts: list[int], pointer: str) -> SamplingParams:
        """`sampling` with max_tokens bounded, so that the log-probabilities of all answers stay within the limit.

        `prompts`: the prompts' lengths in tokens. Raises `LimitError` where the bound is below the request's own
        max_tokens, or below `_LEAST_TOKENS` where the request names none.
        """
        if sampling.logprobs is None:
            return sampling
        left = [max(0, self._engine.max_model_len - prompt) for prompt in prompts]
        most = self._limits.logprob_values // (n * len(prompts) * (1 + sampling.logprobs))
        wanted = _LEAST_TOKENS if sampling.max_tokens is None else sampling.max_tokens
        if most < min(wanted, max(left)):
            raise LimitError(
                f"the answer could have more than {self._limits.logprob_values:,} log-probabilities",
                limit="logprob_values",
                pointer=pointer,
                hint="Ask for fewer of each token, a smaller max_tokens or a smaller n",
            )
        return replace(sampling, max_tokens=most) if sampling.max_tokens is None and most < max(left) else sampling


def _message(message: Message) -> dict[str, Any]:
    """A message as chat/template.py takes it. Values are not copied."""
    fields = {name: value for name, value in as_dict(message).items() if value is not None}
    if message.tool_calls:
        fields["tool_calls"] = [{**as_dict(call), "function": as_dict(call.function)} for call in message.tool_calls]
    return fields


@contextmanager
def pointing_at(pointer: str) -> Iterator[None]:
    """Adds the prompt's place in the body to errors about the prompt."""
    try:
        yield
    except NarrowsError as error:
        if error.pointer == "/prompt_token_ids" or (
            error.pointer is None and error.code in ("context_length_exceeded", "prompt_empty", "invalid_input")
        ):
            error.pointer = pointer
        raise
