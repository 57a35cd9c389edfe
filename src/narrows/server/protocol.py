"""What a request may hold: OpenAI's fields, and those that vLLM's users add.

Read straight from the body's bytes: one pass, in Rust, with a bounded depth. Types are strict (a number in quotes is an error, as at
OpenAI). A field that is not known here is ignored with a warning, as vLLM does, but for those that would have constrained the
answer (foreign.py): nobody's output is left free by accident.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from narrows.engines.api import MAX_LOGPROBS, SamplingParams
from narrows.errors import InputError, LimitError, UnsupportedError
from narrows.limits import Limits
from narrows.server import foreign

Json = Any


class Model(BaseModel):
    """Strict, no NaN, unknown fields kept aside in `model_extra`."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False, protected_namespaces=())


class Closed(Model):
    """An object that holds a constraint: a field that is not known here would be one that is not kept, so it is refused."""

    harmless: ClassVar[frozenset[str]] = frozenset()
    """Fields that clients send, and that mean nothing to an answer's shape."""


class FunctionCall(Model):
    name: str
    arguments: str | dict[str, Json] | None = None


class ToolCall(Model):
    id: str | None = None
    type: Literal["function"] = "function"
    function: FunctionCall


class Message(Model):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, Json]] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None


class Function(Closed):
    # What a function gives back, and notes for people and caches. They reach the chat template.
    harmless: ClassVar[frozenset[str]] = frozenset(
        "return returns response output_schema outputSchema examples input_examples title annotations cache_control".split()
    )
    name: str
    description: str | None = None
    parameters: dict[str, Json] | bool | None = None
    strict: bool | None = None


class Tool(Closed):
    harmless: ClassVar[frozenset[str]] = frozenset(("cache_control",))
    type: Literal["function"]
    function: Function


class FunctionName(Closed):
    name: str


class NamedTool(Closed):
    type: Literal["function"] = "function"
    function: FunctionName


class AllowedToolList(Closed):
    mode: Literal["auto", "required"]
    tools: list[NamedTool]


class AllowedTools(Closed):
    type: Literal["allowed_tools"]
    allowed_tools: AllowedToolList


class JsonSchemaFormat(Closed):
    name: str = "schema"
    description: str | None = None
    schema_: Annotated[dict[str, Json] | bool | None, Field(alias="schema")] = None
    strict: bool | None = None


class ResponseFormat(Closed):
    """OpenAI's, and with `schema` beside the type, as llama.cpp, Together and Fireworks have it."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaFormat | None = None
    schema_: Annotated[dict[str, Json] | bool | None, Field(alias="schema")] = None

    def check(self) -> None:
        """Raises for a shape that says two things, or nothing."""
        inner = self.json_schema.schema_ if self.json_schema is not None else None
        pointer = "/response_format"
        if self.type != "json_schema" and self.json_schema is not None:
            raise InputError(
                f"json_schema goes with type json_schema, not {self.type}",
                pointer=f"{pointer}/json_schema",
                code="conflicting_constraints",
            )
        if self.type == "text" and self.schema_ is not None:
            raise InputError(
                "a schema goes with type json_schema or json_object, not text",
                pointer=f"{pointer}/schema",
                code="conflicting_constraints",
            )
        if inner is not None and self.schema_ is not None:
            raise InputError("there are two schemas", pointer=f"{pointer}/schema", code="conflicting_constraints")
        if self.type == "json_schema" and inner is None and self.schema_ is None:
            raise InputError(
                "type json_schema needs json_schema.schema", pointer=f"{pointer}/json_schema", code="missing_field"
            )


class StructuredOutputs(Closed):
    """vLLM's: exactly one of json, regex, choice, grammar, json_object."""

    harmless: ClassVar[frozenset[str]] = frozenset(("disable_fallback",))  # nothing falls back here

    json_: Annotated[str | dict[str, Json] | bool | None, Field(alias="json")] = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool | None = None


class StreamOptions(Model):
    include_usage: bool = False


class GenerationRequest(Model):
    """The fields that chat and plain completions share."""

    model: str | None = None
    n: int = 1
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    min_tokens: int = 0
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    logit_bias: dict[str, float] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    structured_outputs: StructuredOutputs | None = None
    response_format: ResponseFormat | None = None
    disable_additional_properties: bool | None = None
    priority: int = 0
    user: str | None = None
    metadata: dict[str, Json] | None = None

    def sampling(self, *, max_tokens: int | None, logprobs: int | None, limits: Limits) -> SamplingParams:
        """The engine's form, defaults filled in as OpenAI has them. Raises `InputError` naming the field."""
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        if len(stop) > limits.stop_strings:
            raise LimitError(
                f"{len(stop)} stop strings",
                limit="stop_strings",
                pointer="/stop",
                hint=f"at most {limits.stop_strings} are read",
            )
        bias: dict[int, float] = {}
        for token, value in (self.logit_bias or {}).items():
            if not token.isascii() or not token.isdigit() or len(token) > 9:
                raise InputError(
                    f"logit_bias maps token ids to numbers; {token!r} is no token id",
                    pointer="/logit_bias",
                    code="sampling_params_invalid",
                )
            bias[int(token)] = value
        given = {
            name: value
            for name in (
                "temperature",
                "top_p",
                "top_k",
                "min_p",
                "presence_penalty",
                "frequency_penalty",
                "repetition_penalty",
                "seed",
            )
            if (value := getattr(self, name)) is not None
        }
        return SamplingParams(
            max_tokens=max_tokens,
            min_tokens=self.min_tokens,
            stop=tuple(stop),
            stop_token_ids=tuple(self.stop_token_ids or ()),
            include_stop_str_in_output=self.include_stop_str_in_output,
            ignore_eos=self.ignore_eos,
            logit_bias=bias,
            logprobs=logprobs,
            **given,
        )

    def check(self, limits: Limits) -> None:
        """What types cannot say. Raises `InputError` or `LimitError` with the field's pointer."""
        extra = self.model_extra or {}
        foreign.check_top(
            {name: value for name, value in extra.items() if name not in _IGNORED}, type(self).model_fields, limits
        )
        modalities = extra.get("modalities")
        if modalities is not None and modalities != ["text"]:
            raise UnsupportedError("the only modality is text", pointer="/modalities", code="field_unsupported")
        _check_closed(self)
        if self.n < 1:
            raise InputError(f"n must be at least 1, not {self.n}", pointer="/n", code="invalid_value")
        if self.n > limits.sequences:
            raise LimitError(
                f"n is {self.n}", limit="sequences", pointer="/n", hint=f"ask for at most {limits.sequences} at once"
            )
        if self.stream_options is not None and not self.stream:
            raise InputError("stream_options is only for stream=true", pointer="/stream_options", code="invalid_value")
        wanted = self.response_format
        if wanted is not None:
            wanted.check()
        if self.structured_outputs is not None:
            _check_structured(self.structured_outputs)
            if wanted is not None and wanted.type != "text":
                raise InputError(
                    "response_format and structured_outputs exclude each other",
                    pointer="/structured_outputs",
                    code="conflicting_constraints",
                )

    def unknown_fields(self) -> list[str]:
        """Names of the ignored fields, for a warning."""
        return sorted(set(self.model_extra or {}) - _IGNORED)


class ChatRequest(GenerationRequest):
    """POST /v1/chat/completions."""

    messages: list[Message]
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | AllowedTools | None = None
    parallel_tool_calls: bool | None = True
    max_tool_calls: int | None = None
    stop_at_repeated_call: bool | None = None
    max_completion_tokens: int | None = None
    logprobs: bool | None = False
    top_logprobs: int | None = None
    chat_template_kwargs: dict[str, Json] | None = None
    reasoning_effort: str | None = None
    include_reasoning: bool = True
    add_generation_prompt: bool = True
    continue_final_message: bool = False

    def check(self, limits: Limits) -> None:
        GenerationRequest.check(self, limits)
        if not self.messages:
            raise InputError("messages must not be empty", pointer="/messages", code="invalid_messages")
        for name, count, limit in (
            ("messages", len(self.messages), limits.messages),
            ("tools", len(self.tools or ()), limits.tools),
        ):
            if count > limit:
                raise LimitError(f"{count} {name}", limit=name, pointer=f"/{name}", hint=f"at most {limit} are read")
        if self.max_tool_calls is not None and self.max_tool_calls < 1:
            raise InputError(
                f"max_tool_calls must be at least 1, not {self.max_tool_calls}",
                pointer="/max_tool_calls",
                code="invalid_value",
                hint='tool_choice "none" allows no call',
            )
        if self.top_logprobs is not None and not self.logprobs:
            raise InputError("top_logprobs needs logprobs=true", pointer="/top_logprobs", code="invalid_value")
        if self.top_logprobs is not None and not 0 <= self.top_logprobs <= MAX_LOGPROBS:
            raise InputError(
                f"top_logprobs must be between 0 and {MAX_LOGPROBS}", pointer="/top_logprobs", code="invalid_value"
            )
        if self.add_generation_prompt is False and not self.continue_final_message:
            raise UnsupportedError(
                "add_generation_prompt=false is only for continue_final_message=true", pointer="/add_generation_prompt"
            )
        _check_tools(self)
        _check_template_variables(self.chat_template_kwargs or {})


class CompletionRequest(GenerationRequest):
    """POST /v1/completions."""

    prompt: str | list[str] | list[int] | list[list[int]]
    logprobs: int | None = None
    echo: bool = False
    suffix: str | None = None
    best_of: int | None = None
    add_special_tokens: bool = True

    def prompts(self) -> list[str | list[int]]:
        """One entry per prompt."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if self.prompt and all(isinstance(item, int) for item in self.prompt):
            return [list(self.prompt)]  # type: ignore[arg-type]  # checked on the line above
        return list(self.prompt)  # type: ignore[arg-type]

    def check(self, limits: Limits) -> None:
        GenerationRequest.check(self, limits)
        count = len(self.prompts())
        if not count or self.prompt == []:
            raise InputError("prompt must not be empty", pointer="/prompt", code="invalid_value")
        if count * self.n > limits.sequences:
            raise LimitError(
                f"{count} prompts with n={self.n} are {count * self.n} sequences",
                limit="sequences",
                pointer="/prompt",
                hint=f"at most {limits.sequences} run for one request",
            )
        for name in ("echo", "suffix"):
            if getattr(self, name):
                raise UnsupportedError(f"{name} is not supported", pointer=f"/{name}")
        if self.best_of is not None and self.best_of != self.n:
            raise UnsupportedError("best_of is only supported where it equals n", pointer="/best_of")


# Known and harmless: OpenAI's bookkeeping and vLLM's switches whose only effect here is none.
_IGNORED = frozenset(
    "store service_tier safety_identifier prompt_cache_key verbosity skip_special_tokens spaces_between_special_tokens request_id prediction "
    "detokenize truncate_prompt_tokens add_special_tokens cache_salt".split()
)
_TEMPLATE_OWN = frozenset(
    "messages tools documents chat_template tokenize add_generation_prompt continue_final_message bos_token eos_token".split()
)


def _check_closed(request: Model) -> None:
    """Refuse what is not known in the objects that hold constraints."""
    todo: list[tuple[str, Any]] = [("", request)]
    while todo:
        pointer, value = todo.pop()
        if isinstance(value, list):
            if value and isinstance(value[0], (Tool, NamedTool)):
                todo += [(f"{pointer}/{i}", item) for i, item in reversed(list(enumerate(value)))]
            continue
        if not isinstance(value, (Closed, GenerationRequest)):
            continue
        names = {name: field.alias or name for name, field in type(value).model_fields.items()}
        if isinstance(value, Closed) and value.model_extra:
            foreign.check_inside(value.model_extra, names.values(), value.harmless, pointer)
        todo += [(f"{pointer}/{alias}", getattr(value, name)) for name, alias in names.items()]


def _check_structured(wanted: StructuredOutputs) -> None:
    pointer = "/structured_outputs"
    given = [
        name
        for name, value in (
            ("json", wanted.json_),
            ("regex", wanted.regex),
            ("choice", wanted.choice),
            ("grammar", wanted.grammar),
        )
        if value is not None
    ]
    if wanted.json_object:
        given.append("json_object")
    if len(given) != 1:
        raise InputError(
            f"structured_outputs takes exactly one of json, regex, choice, grammar, json_object; got {', '.join(given) or 'none'}",
            pointer=pointer,
            code="conflicting_constraints",
        )


def _check_tools(request: ChatRequest) -> None:
    names: set[str] = set()
    for i, tool in enumerate(request.tools or ()):
        name, pointer = tool.function.name, f"/tools/{i}/function/name"
        if not 0 < len(name) <= 256 or not all(ch.isalnum() or ch in "_-.:/@" for ch in name):
            raise InputError(
                f"a tool's name is 1 to 256 letters, digits and any of _-.:/@, not {name[:64]!r}",
                pointer=pointer,
                code="tool_name_invalid",
            )
        if name in names:
            raise InputError(f"two tools are named {name!r}", pointer=pointer, code="tool_name_duplicate")
        names.add(name)
    choice = request.tool_choice
    if choice is not None and choice not in ("none", "auto") and not names:
        raise InputError("tool_choice needs tools", pointer="/tool_choice", code="invalid_value")
    wanted: list[tuple[str, str]] = []
    if isinstance(choice, NamedTool):
        wanted = [("/tool_choice/function/name", choice.function.name)]
    elif isinstance(choice, AllowedTools):
        wanted = [
            (f"/tool_choice/allowed_tools/tools/{i}/function/name", t.function.name)
            for i, t in enumerate(choice.allowed_tools.tools)
        ]
    for pointer, name in wanted:
        if name not in names:
            raise InputError(f"no tool is named {name[:64]!r}", pointer=pointer, code="tool_unknown")


def _check_template_variables(variables: dict[str, Json]) -> None:
    for name, value in variables.items():
        pointer = f"/chat_template_kwargs/{name}"
        if name in _TEMPLATE_OWN:
            raise InputError(
                f"chat_template_kwargs may not set {name}", pointer=pointer, code="template_variable_refused"
            )
        if not isinstance(value, (str, int, float, bool, type(None))) or (isinstance(value, str) and len(value) > 1024):
            raise InputError(
                "a template variable is a short string, a number, a boolean or null",
                pointer=pointer,
                code="template_variable_refused",
            )
    if len(variables) > 32:
        raise InputError(
            "at most 32 template variables", pointer="/chat_template_kwargs", code="template_variable_refused"
        )
