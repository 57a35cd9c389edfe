"""Installs narrows as a structured outputs backend of vLLM, which has no plug-in point for backends.

The general plug-in (plugin.py) calls `install()` in every process of vLLM. It replaces, in memory:

1. `vllm.v1.structured_output.XgrammarBackend` and `.GuidanceBackend`, the names by which vLLM makes its backend.
   narrows' backend holds vLLM's own and passes on the requests that narrows does not take (backend.py);
2. `SamplingParams._validate_structured_outputs`, the check in the front end, for the requests that narrows takes
   (request_checks.py), and `AsyncLLM.add_request`, so that a thread compiles for this check: vLLM checks chat requests
   on its event loop;
3. the choices of `--structured-outputs-config.backend`, which get the value "narrows" (with `disable_any_whitespace`);
4. `InputProcessor._build_logits_processors_params_validator`, to refuse requests for a logits processor that vLLM would
   silently skip, and `InputBatch.__init__`, so that logits processors get the sampled tokens under asynchronous
   scheduling (processors_v1.py).

All this depends on vLLM's internals, so it is done only for the versions that compat.py knows. For other versions
`install` logs an error and does nothing. vLLM then refuses `--structured-outputs-config.backend narrows`, and narrows
refuses tool calls and logits processors.

Which requests narrows takes. Installing a package must not change what a server answers. So without a flag narrows
takes only the calls of its own parsers (grammar_request.py), which no other backend can constrain. It takes all
requests with `--structured-outputs-config.backend narrows`, or with NARROWS_VLLM_STRUCTURED_OUTPUTS=1. The variable is
for
engines made in Python, where vLLM reads its configuration before plug-ins. The flag is vLLM's own, with one more value:
users look there, vLLM's log shows it, and an unknown value fails at the start.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

_installed = False


def is_installed() -> bool:
    """Whether `install` has succeeded in this process."""
    return _installed


def install() -> bool:
    """Install narrows in vLLM, once per process. False, and an error in the log, if this version is unknown."""
    global _installed
    if _installed:
        return True
    from narrows.plugins.vllm import compat

    if not compat.is_known():
        compat.logger.error("narrows constrains nothing under this vLLM: the known versions are %s", compat.known())
        return False
    _offer_backend()
    _replace_backends()
    _replace_validation()
    _guard_logits_processors()
    _installed = True
    return True


def _offer_backend() -> None:
    """Make vLLM's configuration accept the backend's name."""
    from pydantic.dataclasses import rebuild_dataclass
    from vllm.config import VllmConfig
    from vllm.config import structured_outputs as module

    from narrows.plugins.vllm.masking.backend import BACKEND

    config: Any = module.StructuredOutputsConfig
    names = (*get_args(module.StructuredOutputsBackend), BACKEND)
    wider: Any = Literal[names]
    module.StructuredOutputsBackend = wider
    config.__annotations__["backend"] = wider
    config.__dataclass_fields__["backend"].type = wider
    config.__pydantic_fields__["backend"].annotation = wider
    check = config.__pydantic_decorators__.model_validators["_validate_structured_output_config"]
    original = check.func

    def validate(self: Any) -> Any:
        """vLLM allows `disable_any_whitespace` and `disable_additional_properties` only for the backends that it knows.
        narrows' backend has both."""
        return self if self.backend == BACKEND else original(self)

    check.func = validate
    rebuild_dataclass(config, force=True)
    rebuild_dataclass(VllmConfig, force=True)  # it holds the schemas of its parts


def _replace_backends() -> None:
    import vllm.v1.structured_output as module

    from narrows.plugins.vllm.masking.backend import standing_in_for

    module.XgrammarBackend = standing_in_for(module.XgrammarBackend)
    module.GuidanceBackend = standing_in_for(module.GuidanceBackend)


def _replace_validation() -> None:
    from vllm.sampling_params import SamplingParams
    from vllm.v1.engine.async_llm import AsyncLLM

    from narrows.plugins.vllm.masking import request_checks

    original = SamplingParams._validate_structured_outputs

    def validate(self: Any, model_config: Any, config: Any, tokenizer: Any) -> None:
        request_checks.check_structured_outputs(original, self, model_config, config, tokenizer)

    SamplingParams._validate_structured_outputs = validate

    add = AsyncLLM.add_request

    async def add_compiled(self: Any, *args: Any, **kwargs: Any) -> Any:
        params = kwargs["params"] if "params" in kwargs else args[2] if len(args) > 2 else None
        await request_checks.compile_ahead(params, self.input_processor)
        return await add(self, *args, **kwargs)

    AsyncLLM.add_request = add_compiled


def _guard_logits_processors() -> None:
    from vllm.v1.engine.input_processor import InputProcessor
    from vllm.v1.worker.gpu_input_batch import InputBatch

    from narrows.plugins.vllm.masking import processors_v1, request_checks

    build = InputProcessor._build_logits_processors_params_validator

    def build_guarded(self: Any) -> Any:
        validate = build(self)

        def both(params: Any) -> None:
            request_checks.check_extra_args(params, self)
            validate(params)

        return both

    InputProcessor._build_logits_processors_params_validator = build_guarded

    begin = InputBatch.__init__

    def begin_watched(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        processors_v1.watch(self)

    InputBatch.__init__ = begin_watched
