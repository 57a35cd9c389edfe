"""Logits processors with one state per sequence, for both of vLLM's model runners.

`NarrowsLogitsProcessor` is available wherever narrows is installed (entry point group `vllm.logits_processors`). It
constrains the requests whose sampling parameters have one of its arguments, over HTTP in `vllm_xargs`:

    {"vllm_xargs": {"narrows_json": "{\\"type\\": \\"object\\"}"}}

The other arguments are narrows_regex, narrows_choice (a list), narrows_grammar (GBNF or Lark), and so on for every
language.

Other requests cost nothing. A constraint that cannot be compiled is refused with HTTP 400 and narrows' code before the
engine sees the request. Also refused is a constraint that vLLM would silently ignore: with speculative decoding, its
V1 runner leaves out the processors of entry points.

`per_sequence` makes the same kind of class from a factory of stateful processors, for `--logits-processors module:name`
or `LLM(logits_processors=[...])`:

    Counting = per_sequence(lambda params: Counter() if "count" in (params.extra_args or {}) else None)

vLLM's V2 runner needs another class than V1. vLLM takes both from one entry point, and knows which runner it uses only
when it makes the object. So one class serves both, and makes the right object by vLLM's arguments: (config, device,
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
"""From a request's `SamplingParams` to the state of one of its sequences. None if there is nothing to do for it."""


class PerSequenceLogitsProcessor(V1LogitsProcessor, V2LogitsProcessor):
    """The class that vLLM gets, for either runner. Calling it makes an object of another class."""

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
        """The function that makes the states in this engine. Called once per worker."""


class NarrowsLogitsProcessor(PerSequenceLogitsProcessor):
    """Constrains the requests whose sampling parameters have narrows_json, narrows_regex, narrows_choice,
    narrows_grammar or the name of another language."""

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Called in the front end. If narrows is installed in vLLM, request_checks.py has checked the request already,
        with the model's vocabulary."""
        if request_checks.extra_args(sampling_params) is not None and not structured_outputs.is_installed():
            raise request_checks.refusal(
                UnsupportedError(
                    "narrows cannot know whether this vLLM applies the constraint",
                    code="processor_skipped",
                    pointer="/vllm_xargs",
                    hint="narrows is no general plug-in here: VLLM_PLUGINS omits it, or this vLLM is unknown",
                ),
                request_checks.EXTRA_ARGS,
            )

    @classmethod
    def maker(cls, vllm_config: Any) -> MakeState:
        return _Maker(vllm_config)


class _Maker:
    """Makes the states of NarrowsLogitsProcessor. Constraints are compiled in a thread while the model computes."""

    def __init__(self, vllm_config: Any) -> None:
        self._model_config = vllm_config.model_config
        self._pool: ThreadPoolExecutor | None = None

    def __call__(self, params: Any) -> SequenceState | None:
        definition = constraints.of_extra_args(params.extra_args)
        if definition is None:
            return None
        if self._pool is None:
            self._pool = ThreadPoolExecutor(2, thread_name_prefix="narrows-compile")
        return Constrained(self._pool.submit(self._compile, definition), params.all_stop_token_ids)

    def _compile(self, definition: constraints.Definition) -> Any:
        from vllm.tokenizers import cached_tokenizer_from_config

        tokenizer = cached_tokenizer_from_config(model_config=self._model_config)
        return constraints.of_model(tokenizer, self._model_config).lease(definition)


def per_sequence(
    factory: LogitsProcessorFactory | Callable[[Any], Processor | None],
    *,
    validate: Callable[[Any], None] | None = None,
    name: str = "PerSequence",
) -> type[PerSequenceLogitsProcessor]:
    """A class for vLLM's `logits_processors` that makes one processor per sequence. Sequences never share one.

    factory: `factory(sampling_params)` returns a processor `(token_ids, logits) -> logits` on torch rows, float32[V],
      or None if the request does not need one. Or it is a `narrows.decoding.processors.LogitsProcessorFactory`, whose
      processors work on NumPy rows, for all requests. sequences.ProcessorState says when a processor is called, and
      what happens after a preemption.
    validate: checks a request's `SamplingParams` in the front end. A ValueError becomes HTTP 400.
    The class must be importable by name if vLLM uses several processes.
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
    """A factory that returns `first`, then what `make` makes. Only making a processor shows whether a request needs
    one."""
    unused = [first]

    def next_processor() -> Processor:
        if unused:
            return unused.pop()
        processor = make()
        if processor is None:
            raise InputError("the factory made a processor for this request before, but none now", code="invalid_input")
        return processor

    return next_processor
