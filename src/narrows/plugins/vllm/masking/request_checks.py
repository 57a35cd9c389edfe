"""The checks of a request in vLLM's front end, before the engine sees it.

A constraint is compiled here, with the model's vocabulary, up to its first mask. If that fails, the request is refused
with HTTP 400. The message has narrows' message with pointer and limit, and narrows' code at its end. The error's
`param` is the pointer. The engine compiles the constraint again, in its own process and threads.
"""

from __future__ import annotations

import asyncio
import dataclasses
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from vllm.exceptions import VLLMValidationError
from vllm.sampling_params import SamplingParams

from narrows.errors import InputError, NarrowsError, UnsupportedError
from narrows.plugins.vllm import grammar_request
from narrows.plugins.vllm.masking import backend, constraints
from narrows.plugins.vllm.masking.constraints import Constraints, Definition

STRUCTURED_OUTPUTS = "structured_outputs"
EXTRA_ARGS = "vllm_xargs"


def refusal(error: NarrowsError, parameter: str) -> Exception:
    """The exception that vLLM answers with HTTP 400."""
    exception: Exception = VLLMValidationError(f"{error} [narrows: {error.code}]", parameter=error.pointer or parameter)
    return exception


def check_structured_outputs(original: Any, sampling: Any, model_config: Any, config: Any, tokenizer: Any) -> None:
    """Replaces `SamplingParams._validate_structured_outputs`. `original` is that method. It checks the requests that
    narrows does not take."""
    params = sampling.structured_outputs
    if config is None or params is None or tokenizer is None or model_config.is_diffusion:
        original(sampling, model_config, config, tokenizer)
        return
    stands_for = "xgrammar" if config.backend in ("auto", backend.BACKEND) else config.backend
    definition = _definition(sampling, config)
    if definition is None:
        if config.backend == backend.BACKEND:
            config = dataclasses.replace(config, backend=stands_for)
        original(sampling, model_config, config, tokenizer)
        return
    if stands_for not in ("xgrammar", "guidance"):
        assert grammar_request.is_for_tools(definition.text)  # with another backend narrows takes only these
        raise VLLMValidationError(
            f"the backend {config.backend} cannot constrain a call of narrows' parsers; start vLLM with "
            f"--structured-outputs-config.backend {backend.BACKEND}, auto, xgrammar or guidance [narrows: backend]"
        )
    if params._backend not in (None, stands_for) and not params._backend_was_auto:
        original(sampling, model_config, config, tokenizer)  # raises: a request cannot choose its backend
        return
    _compile(definition, constraints.of_model(tokenizer, model_config), STRUCTURED_OUTPUTS)
    if constraints.ADDITIONAL_ARG in (sampling.extra_args or ()):
        # The engine gets only this text.
        if definition.kind == "json":
            params.json = grammar_request.for_schema(definition.text, definition.additional)
        elif definition.kind == "structural_tag":
            params.structural_tag = grammar_request.for_schema(definition.text, definition.additional)
    params._backend = stands_for
    params._backend_was_auto = True
    params.__post_init__()


def _definition(sampling: Any, config: Any) -> Definition | None:
    try:
        return backend.definition(sampling.structured_outputs, config, sampling.extra_args)
    except NarrowsError as error:
        raise refusal(error, STRUCTURED_OUTPUTS) from error


def extra_args(sampling: Any) -> Definition | None:
    """The definition in a request's extra arguments."""
    try:
        return constraints.of_extra_args(sampling.extra_args)
    except NarrowsError as error:
        raise refusal(error, EXTRA_ARGS) from error


def check_extra_args(sampling: Any, front_end: Any) -> None:
    """Refuse a request for NarrowsLogitsProcessor whose constraint cannot be compiled or would be ignored.

    front_end: vLLM's InputProcessor.
    """
    definition = extra_args(sampling)
    if definition is None:
        return
    config = front_end.vllm_config
    if config.speculative_config is not None and not config.use_v2_model_runner:
        error: NarrowsError = UnsupportedError(
            "this engine ignores logits processors: it decodes speculatively on vLLM's V1 model runner",
            code="processor_skipped",
            pointer=f"/{EXTRA_ARGS}",
            hint="Send the constraint as structured_outputs, which works with speculation",
        )
        raise refusal(error, EXTRA_ARGS)
    if sampling.structured_outputs is not None:
        error = InputError(
            "a request can have only one constraint: structured_outputs or a narrows_* argument",
            code="two_constraints",
            pointer=f"/{EXTRA_ARGS}",
        )
        raise refusal(error, EXTRA_ARGS)
    _compile(definition, constraints.of_model(front_end.get_tokenizer(), config.model_config), EXTRA_ARGS)


async def compile_ahead(sampling: Any, front_end: Any) -> None:
    """Compile in a thread what the checks above will need, because vLLM calls them on its event loop.

    Cost: none for a request without a constraint of narrows, else a change of threads. Raises what the checks raise.
    """
    if not isinstance(sampling, SamplingParams):
        return
    wanted, parameter = extra_args(sampling), EXTRA_ARGS
    if wanted is None and sampling.structured_outputs is not None:
        wanted = _definition(sampling, front_end.vllm_config.structured_outputs_config)
        parameter = STRUCTURED_OUTPUTS
    tokenizer = front_end.tokenizer
    if wanted is None or tokenizer is None:
        return
    definition = wanted  # the type checker cannot narrow `wanted` inside the closure

    def compile_definition() -> None:
        _compile(definition, constraints.of_model(tokenizer, front_end.vllm_config.model_config), parameter)

    await asyncio.get_running_loop().run_in_executor(_threads(), compile_definition)


def _compile(definition: Definition, cached: Constraints, parameter: str) -> None:
    try:
        cached.get(definition)
    except NarrowsError as error:
        raise refusal(error, parameter) from error


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2, thread_name_prefix="narrows-request-checks")
