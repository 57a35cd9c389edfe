"""What narrows checks of a request in vLLM's front end, before the engine sees it.

A constraint is compiled here, with the model's vocabulary, up to its first mask. Where that fails, the request is
refused with HTTP 400: our message with place and limit, our code at its end, and the place as the error's `param`. The
engine compiles it again, in its own process and threads.
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
    """The error for vLLM's HTTP 400."""
    refused: Exception = VLLMValidationError(f"{error} [narrows: {error.code}]", parameter=error.pointer or parameter)
    return refused


def check_structured_outputs(original: Any, sampling: Any, model_config: Any, config: Any, tokenizer: Any) -> None:
    """In place of `SamplingParams._validate_structured_outputs`, which is `original` and looks at what narrows does not
    take."""
    params = sampling.structured_outputs
    if config is None or params is None or tokenizer is None or model_config.is_diffusion:
        original(sampling, model_config, config, tokenizer)
        return
    stands_for = "xgrammar" if config.backend in ("auto", backend.BACKEND) else config.backend
    wanted = _definition(sampling, config)
    if wanted is None:
        if config.backend == backend.BACKEND:
            config = dataclasses.replace(config, backend=stands_for)
        original(sampling, model_config, config, tokenizer)
        return
    if stands_for not in ("xgrammar", "guidance"):
        assert grammar_request.is_for_tools(wanted.text)  # nothing else is ours beside another backend
        raise VLLMValidationError(
            f"a call of narrows' parsers cannot be constrained by the backend {config.backend}; start vLLM with "
            f"--structured-outputs-config.backend {backend.BACKEND}, auto, xgrammar or guidance [narrows: backend]"
        )
    if params._backend not in (None, stands_for) and not params._backend_was_auto:
        original(sampling, model_config, config, tokenizer)  # says that a request cannot choose its backend
        return
    _compile(wanted, constraints.of_model(tokenizer, model_config), STRUCTURED_OUTPUTS)
    if wanted.kind == "json" and constraints.ADDITIONAL_ARG in (sampling.extra_args or ()):
        params.json = grammar_request.for_schema(wanted.text, wanted.additional)  # all that the engine's side is told
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
    """Refuse a request for NarrowsLogitsProcessor that cannot be compiled, or that this engine would ignore.

    front_end: vLLM's InputProcessor.
    """
    wanted = extra_args(sampling)
    if wanted is None:
        return
    config = front_end.vllm_config
    if config.speculative_config is not None and not config.use_v2_model_runner:
        skipped = UnsupportedError(
            "this engine ignores logits processors: it decodes speculatively on vLLM's V1 model runner",
            code="processor_skipped",
            pointer=f"/{EXTRA_ARGS}",
            hint="Send the constraint as structured_outputs, which works with speculation",
        )
        raise refusal(skipped, EXTRA_ARGS)
    if sampling.structured_outputs is not None:
        two = InputError(
            "a request has one constraint: structured_outputs or a narrows_* argument",
            code="two_constraints",
            pointer=f"/{EXTRA_ARGS}",
        )
        raise refusal(two, EXTRA_ARGS)
    _compile(wanted, constraints.of_model(front_end.get_tokenizer(), config.model_config), EXTRA_ARGS)


async def compile_ahead(sampling: Any, front_end: Any) -> None:
    """Compile in a thread what the checks above will ask for, so that they find it: vLLM calls them on its event loop.

    Costs a request without a constraint of ours nothing, another a change of threads. Raises what the checks would.
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
    definition = wanted  # for the closure, which a type checker does not follow

    def compile_it() -> None:
        _compile(definition, constraints.of_model(tokenizer, front_end.vllm_config.model_config), parameter)

    await asyncio.get_running_loop().run_in_executor(_threads(), compile_it)


def _compile(wanted: Definition, known: Constraints, parameter: str) -> None:
    try:
        known.get(wanted)
    except NarrowsError as error:
        raise refusal(error, parameter) from error


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2, thread_name_prefix="narrows-request-checks")
