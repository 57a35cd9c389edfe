"""Logits processors with one state per sequence, for both of vLLM's model runners.

`NarrowsLogitsProcessor` is there wherever narrows is installed (entry point group `vllm.logits_processors`) and holds
the requests that ask for it in their sampling parameters, over HTTP in `vllm_xargs`:

    {"vllm_xargs": {"narrows_json": "{\\"type\\": \\"object\\"}"}}

or narrows_regex, narrows_choice (a list), narrows_grammar (GBNF), or any other language by its name.

Other requests pay nothing. What cannot be compiled is refused with HTTP 400 and our code before the engine sees it, and
so is what vLLM would ignore in silence: its V1 runner leaves processors from entry points out under speculative
decoding.

`per_sequence` makes the same kind of class from anybody's factory of stateful processors, for `--logits-processors
module:name` or `LLM(logits_processors=[...])`:

    Counting = per_sequence(lambda params: Counter() if "count" in (params.extra_args or {}) else None)

vLLM asks for another class under its V2 runner than under V1, takes both from one entry point, and knows which one it
runs only when it makes the object. So one class is both, and makes the right one by vLLM's arguments: (config, device,
pin_memory) or (config, requests).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from vllm.v1.sample.logits_processor.interface import LogitsProcessor as V1LogitsProcessor
from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsProcessor as V2LogitsProcessor

from narrows.decoding.processors import LogitsProcessorFactory
from narrows.errors import InputError, UnsupportedError
from narrows.plugins.vllm.masking import constraints, request_checks, structured_outputs
from narrows.plugins.vllm.masking.sequences import Constrained, Processor, ProcessorState, SequenceState, on_tensors

MakeState = Callable[[Any], "SequenceState | None"]
"""From a request's `SamplingParams` to the state of one of its sequences; None where nothing is to be done."""


class PerSequenceLogitsProcessor(V1LogitsProcessor, V2LogitsProcessor):
    """What vLLM is given: a class for either runner. It is never an object itself."""

    def __new__(cls, vllm_config: Any, *rest: Any) -> Any:
        make = cls.maker(vllm_config)
        if len(rest) == 1:
            from narrows.plugins.vllm.masking.processors_v2 import OnV2

            return OnV2(make, rest[0])
        from narrows.plugins.vllm.masking.processors_v1 import OnV1

        return OnV1(make)

    @classmethod
    @abstractmethod
    def maker(cls, vllm_config: Any) -> MakeState:
        """How states are made in this engine. Called once per worker."""


class NarrowsLogitsProcessor(PerSequenceLogitsProcessor):
    """Holds the requests whose sampling parameters carry a narrows_json, narrows_regex, narrows_choice or
    narrows_grammar."""

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """In the front end. Where narrows is installed in vLLM, that has looked already, with the model's vocabulary at
        hand (request_checks.py)."""
        if request_checks.extra_args(sampling_params) is not None and not structured_outputs.is_installed():
            raise request_checks.refusal(
                UnsupportedError(
                    "it cannot be told whether this vLLM would apply the constraint",
                    code="processor_skipped",
                    pointer="/vllm_xargs",
                    hint="narrows is no general plug-in here: VLLM_PLUGINS leaves it out, or this version is unknown",
                ),
                request_checks.EXTRA_ARGS,
            )

    @classmethod
    def maker(cls, vllm_config: Any) -> MakeState:
        return _Maker(vllm_config)


class _Maker:
    """Makes the states of NarrowsLogitsProcessor. Constraints compile in a thread while the model computes its step."""

    def __init__(self, vllm_config: Any) -> None:
        self._model_config = vllm_config.model_config
        self._pool: ThreadPoolExecutor | None = None

    def __call__(self, params: Any) -> SequenceState | None:
        wanted = constraints.of_extra_args(params.extra_args)
        if wanted is None:
            return None
        if self._pool is None:
            self._pool = ThreadPoolExecutor(2, thread_name_prefix="narrows-compile")
        return Constrained(self._pool.submit(self._compile, wanted), params.all_stop_token_ids)

    def _compile(self, wanted: constraints.Definition) -> Any:
        from vllm.tokenizers import cached_tokenizer_from_config

        tokenizer = cached_tokenizer_from_config(model_config=self._model_config)
        return constraints.of_model(tokenizer, self._model_config).lease(wanted)


def per_sequence(
    factory: LogitsProcessorFactory | Callable[[Any], Processor | None],
    *,
    validate: Callable[[Any], None] | None = None,
    name: str = "PerSequence",
) -> type[PerSequenceLogitsProcessor]:
    """A class for vLLM's `logits_processors` that makes one processor per sequence, and none that two would share.

    factory: `factory(sampling_params)` gives a processor `(token_ids, logits) -> logits` on torch rows, float32[V], or
    None where the request does not want one; or a `narrows.decoding.processors.LogitsProcessorFactory`, whose
    processors work on NumPy rows, for all requests. sequences.ProcessorState says when it is called and how it returns
    after a preemption. validate: checks a request's `SamplingParams` in the front end; a ValueError becomes HTTP 400.
    It must be importable by name where vLLM uses several processes.
    """

    def make(params: Any) -> SequenceState | None:
        if isinstance(factory, LogitsProcessorFactory):
            return ProcessorState(on_tensors(factory), params.all_stop_token_ids)
        first = factory(params)
        if first is None:
            return None
        return ProcessorState(_first_then(first, partial(factory, params)), params.all_stop_token_ids)

    class PerSequence(PerSequenceLogitsProcessor):
        @classmethod
        def validate_params(cls, sampling_params: Any) -> None:
            if validate is not None:
                validate(sampling_params)

        @classmethod
        def maker(cls, vllm_config: Any) -> MakeState:
            return make

    PerSequence.__name__ = PerSequence.__qualname__ = name
    return PerSequence


def _first_then(first: Processor, make: Callable[[], Processor | None]) -> Callable[[], Processor]:
    """A factory whose first product is there already: whether a request wants a processor is known only by making
    it."""
    ready = [first]

    def next_one() -> Processor:
        if ready:
            return ready.pop()
        processor = make()
        if processor is None:
            raise InputError("the factory made a processor for this request before, and none now", code="invalid_input")
        return processor

    return next_one
