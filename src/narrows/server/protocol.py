"""The requests: OpenAI's fields, and those that vLLM's users add.

fields.py has the objects in them. Large values are taken by reference and checked in Python, item by item (`read`). A
validator in Rust would hold the interpreter until it is done, and would collect an error for each of a million wrong
items. An unknown field is ignored with a warning, as in vLLM. One that would have constrained the answer is refused
(foreign.py), so that no answer is left free by accident.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from pydantic import InstanceOf, PrivateAttr

from narrows.arguments import quoted
from narrows.decoding.drafts import DraftMode
from narrows.decoding.repetition import RepetitionDetection as RepetitionWatch
from narrows.decoding.sample_first import StrategyMode
from narrows.decoding.select import ScoredBy
from narrows.decoding.select import check as check_options
from narrows.engines.api import MAX_LOGPROBS, SamplingParams, Strategies
from narrows.errors import InputError, LimitError, UnsupportedError
from narrows.json_values.selection import Patterns
from narrows.limits import Limits
from narrows.server import chats, elsewhere, foreign
from narrows.server.fields import (
    AllowedTools,
    Closed,
    Json,
    Message,
    Model,
    NamedTool,
    Numbers,
    Object,
    RepetitionDetection,
    ResponseFormat,
    StreamOptions,
    Strings,
    StructuredOutputs,
    Tool,
    check_items,
    kind_of,
    pointer_to,
)
from narrows.server.places import UNMOVED, Places
from narrows.server.sizes import check_sizes

R = TypeVar("R", bound="GenerationRequest")

_MOST_BIAS = 1e30
"""Logits have 32 bits."""


class GenerationRequest(Model):
    """The fields of both chat and plain completions."""

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
    stop: str | Strings | None = None
    stop_token_ids: Numbers | None = None
    stop_at_pointer: str | Strings | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    logit_bias: InstanceOf[dict[str, float]] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    structured_outputs: StructuredOutputs | None = None
    response_format: ResponseFormat | None = None
    disable_additional_properties: bool | None = None
    budget: bool = False
    select: ScoredBy | None = None
    draft: DraftMode = "auto"
    sample_first: StrategyMode = "auto"
    jump_forward: StrategyMode = "auto"
    token_healing: bool = False
    repetition_detection: bool | RepetitionDetection | None = None
    priority: int = 0
    user: str | None = None
    metadata: Object | None = None
    _places: Places = PrivateAttr(default=UNMOVED)

    @property
    def inner(self: R) -> R:
        """The request that the service takes: this one."""
        return self

    @property
    def places(self) -> Places:
        """Where the request's fields stood in the body that the client sent."""
        return self._places

    def sampling(self, *, max_tokens: int | None, logprobs: int | None, limits: Limits) -> SamplingParams:
        """The engine's parameters, with OpenAI's defaults. Raises `InputError` or `LimitError` with the field's
        pointer."""
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        if len(stop) > limits.stop_strings:
            raise LimitError(
                f"{len(stop)} stop strings",
                limit="stop_strings",
                pointer="/stop",
                hint=f"at most {limits.stop_strings} are allowed",
            )
        for name, count in (
            ("stop_characters", sum(map(len, stop))),
            ("stop_token_ids", len(self.stop_token_ids or ())),
        ):
            most: int = getattr(limits, name)
            if count > most:
                raise LimitError(
                    f"{count} {name.replace('_', ' ')}",
                    limit=name,
                    pointer="/stop" if name == "stop_characters" else "/stop_token_ids",
                    hint=f"at most {most} are allowed",
                )
        bias: dict[int, float] = {}
        for token, value in (self.logit_bias or {}).items():
            if not token.isascii() or not token.isdigit() or len(token) > 9:
                raise InputError(
                    f"logit_bias maps token ids to numbers; {quoted(token)} is not a token id",
                    pointer="/logit_bias",
                    code="sampling_params_invalid",
                )
            if not isinstance(value, (int, float)) or isinstance(value, bool):
                raise InputError(
                    f"a bias is a number, not {kind_of(value)}",
                    pointer=pointer_to("/logit_bias", token),
                    code="invalid_type",
                )
            if not -_MOST_BIAS <= value <= _MOST_BIAS:
                raise InputError(
                    "the bias is too large",
                    pointer=pointer_to("/logit_bias", token),
                    code="sampling_params_invalid",
                    hint="-100 bans a token, 100 forces it",
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

    def strategies(self, sampling: SamplingParams) -> Strategies:
        """How the answer is decoded. Raises `InputError` with the field's pointer for what is not possible."""
        strategies = Strategies(
            budget=self.budget, draft=self.draft, sample_first=self.sample_first, jump_forward=self.jump_forward
        )
        strategies.samples_first(sampling, processors=False)
        strategies.jumps_forward(sampling, processors=False)
        return strategies

    def detection(self) -> RepetitionWatch | None:
        """What ends an answer that runs without end. Raises `InputError` with the field's pointer."""
        wanted = self.repetition_detection
        if not isinstance(wanted, RepetitionDetection):
            return RepetitionWatch() if wanted else None
        return RepetitionWatch(**wanted.model_dump())

    def options(self) -> list[str] | None:
        """The options of `select`, if it is asked for."""
        return None if self.select is None or self.structured_outputs is None else self.structured_outputs.choice

    def check(self, limits: Limits) -> None:
        """Check what types cannot express. Raises `InputError` or `LimitError` with the field's pointer."""
        extra = self.model_extra or {}
        if isinstance(self.stop, list):
            check_items(self.stop, str, "/stop")
        check_items(self.stop_token_ids or (), int, "/stop_token_ids")
        if extra.get("audio"):
            raise UnsupportedError("the only modality is text", pointer="/audio", code="field_unsupported")
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
        if self.stream_options is not None and isinstance(self.stream_options.include_values, list):
            _check_pointers(self.stream_options.include_values, "/stream_options/include_values", limits)
        _check_pointers(self.stop_pointers(), "/stop_at_pointer", limits)
        if self.stream_options is not None and not self.stream:
            raise InputError("stream_options is only for stream=true", pointer="/stream_options", code="invalid_value")
        if self.select is not None:
            _check_select(self, limits)
        response_format = self.response_format
        if response_format is not None:
            response_format.check()
        if self.structured_outputs is not None:
            self.structured_outputs.check()
            if response_format is not None and response_format.type != "text":
                named = self.places.outer("/response_format"), self.places.outer("/structured_outputs")
                raise InputError(
                    f"{named[0]} and {named[1]} exclude each other",
                    pointer="/structured_outputs",
                    code="conflicting_constraints",
                )

    def stop_pointers(self) -> list[str]:
        """The pointers of the values that end an answer."""
        pointers = self.stop_at_pointer
        return [pointers] if isinstance(pointers, str) else pointers or []

    def reported_values(self) -> list[str] | bool | None:
        """Pointers of the values to report, True for the usual ones, or None for none."""
        return (self.stream_options.include_values or None) if self.stream_options is not None else None

    def forget_ignored(self) -> None:
        """Let go of the values that nothing reads. They may be large, and an answer may take minutes. Until its end,
        each collection of garbage would go through them while everybody waits."""
        self.metadata = None
        extra = self.model_extra
        if extra:
            extra.update(dict.fromkeys(extra))

    def unknown_fields(self) -> list[str]:
        """The names of the ignored fields, for a warning."""
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
    chat_template_kwargs: Object | None = None
    reasoning_effort: str | None = None
    thinking_token_budget: int | None = None
    include_reasoning: bool = True
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    _inputs: dict[int, list[str]] = PrivateAttr(default_factory=dict)
    _logprobs_of_content: bool = PrivateAttr(default=False)

    @property
    def inputs(self) -> dict[int, list[str]]:
        """Index of a tool -> the language and the source of a grammar for its argument `input` (OpenAI's custom
        tools)."""
        return self._inputs

    @property
    def logprobs_of_content(self) -> bool:
        """Whether log-probabilities are only those of the content's tokens (OpenAI's Responses)."""
        return self._logprobs_of_content

    def leave_logprobs_to_content(self) -> None:
        self._logprobs_of_content = True

    def hold_inputs(self, inputs: dict[int, list[str]]) -> None:
        self._inputs = inputs

    def check(self, limits: Limits) -> None:
        GenerationRequest.check(self, limits)
        chats.check_messages(self.messages)
        if self.max_completion_tokens is not None and self.max_completion_tokens < 1:
            raise InputError(
                f"an answer has at least 1 token, not {self.max_completion_tokens}",
                pointer="/max_completion_tokens",
                code="sampling_params_invalid",
            )
        if self.max_tool_calls is not None and self.max_tool_calls < 1:
            raise InputError(
                f"max_tool_calls must be at least 1, not {self.max_tool_calls}",
                pointer="/max_tool_calls",
                code="invalid_value",
                hint='tool_choice "none" allows no call',
            )
        if self.top_logprobs and not self.logprobs:
            raise InputError("top_logprobs needs logprobs=true", pointer="/top_logprobs", code="invalid_value")
        if self.top_logprobs is not None and not 0 <= self.top_logprobs <= MAX_LOGPROBS:
            raise InputError(
                f"top_logprobs must be between 0 and {MAX_LOGPROBS}", pointer="/top_logprobs", code="invalid_value"
            )
        if self.add_generation_prompt is False and not self.continue_final_message:
            raise UnsupportedError(
                "add_generation_prompt=false is only for continue_final_message=true", pointer="/add_generation_prompt"
            )
        if self.select is not None and self.tools:
            raise InputError("select and tools exclude each other", pointer="/select", code="conflicting_constraints")
        chats.check_tools(self.tools or [], self.tool_choice)
        _check_template_variables(self.chat_template_kwargs or {})


class CompletionRequest(GenerationRequest):
    """POST /v1/completions."""

    prompt: str | Strings | Numbers | InstanceOf[list[list[int]]]
    logprobs: int | None = None
    echo: bool = False
    suffix: str | None = None
    best_of: int | None = None
    add_special_tokens: bool = True
    _default_tokens: int | None = PrivateAttr(default=16)

    @property
    def default_tokens(self) -> int | None:
        """Tokens of an answer, where the request has no `max_tokens`: as many as fit, or OpenAI's 16."""
        return self._default_tokens

    def run_to_the_end(self) -> None:
        """Make it as many as fit, as other APIs have it."""
        self._default_tokens = None

    def prompts(self) -> list[str | list[int]]:
        """One entry per prompt."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if self.prompt and all(isinstance(item, int) for item in self.prompt):
            return [list(self.prompt)]  # type: ignore[arg-type]  # checked on the line above
        return list(self.prompt)  # type: ignore[arg-type]

    def check(self, limits: Limits) -> None:
        GenerationRequest.check(self, limits)
        _check_prompt(self.prompt)
        count = len(self.prompts())
        if not count or self.prompt == []:
            raise InputError("prompt must not be empty", pointer="/prompt", code="invalid_value")
        if count * self.n > limits.sequences:
            raise LimitError(
                f"{count} prompts with n={self.n} are {count * self.n} sequences",
                limit="sequences",
                pointer="/prompt",
                hint=f"at most {limits.sequences} sequences are allowed per request",
            )
        for name in ("echo", "suffix"):
            if getattr(self, name):
                raise UnsupportedError(f"{name} is not supported", pointer=f"/{name}")
        if self.best_of is not None and self.best_of != self.n:
            raise UnsupportedError("best_of is only supported where it equals n", pointer="/best_of")


def _check_pointers(pointers: list[str], place: str, limits: Limits) -> None:
    """As many as there may be stop texts."""
    check_items(pointers, str, place)
    for name, count in (("stop_strings", len(pointers)), ("stop_characters", sum(map(len, pointers)))):
        most: int = getattr(limits, name)
        if count > most:
            what = "pointers" if name == "stop_strings" else "characters of pointers"
            raise LimitError(f"{count} {what}", limit=name, pointer=place, hint=f"at most {most} are allowed")
    try:
        Patterns(pointers)
    except InputError as error:
        error.pointer = place
        raise


# Known and ignored: OpenAI's bookkeeping, and vLLM's switches that have no effect here.
_IGNORED = frozenset(
    "store service_tier safety_identifier prompt_cache_key verbosity skip_special_tokens "
    "spaces_between_special_tokens request_id prediction detokenize truncate_prompt_tokens "
    "add_special_tokens cache_salt".split()
)
_TEMPLATE_OWN = frozenset(
    "messages tools documents chat_template tokenize add_generation_prompt continue_final_message bos_token "
    "eos_token".split()
)


def _check_select(request: GenerationRequest, limits: Limits) -> None:
    if request.options() is None:
        raise InputError("select needs structured_outputs.choice", pointer="/select", code="invalid_value")
    if request.n > 1:
        raise InputError("select gives one answer", pointer="/n", code="invalid_value", hint="Leave n out")
    check_options(request.options() or [], request.select or "")
    if len(request.options() or ()) > limits.select_options:
        raise LimitError(
            f"{len(request.options() or ())} options",
            limit="select_options",
            pointer="/structured_outputs/choice",
            hint=f"at most {limits.select_options} can be scored",
        )


def _check_closed(request: Model) -> None:
    """Refuse unknown fields in the objects that hold constraints."""
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
            foreign.check_inside(value.unknown(), names.values(), value.harmless, pointer)
        todo += [(f"{pointer}/{alias}", getattr(value, name)) for name, alias in names.items()]


def _check_template_variables(variables: dict[str, Json]) -> None:
    if len(variables) > 32:
        raise InputError(
            "at most 32 template variables", pointer="/chat_template_kwargs", code="template_variable_refused"
        )
    for name, value in variables.items():
        pointer = pointer_to("/chat_template_kwargs", name)
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


def _is_left_out(model: type[R], name: str) -> bool:
    field = model.model_fields.get(name)
    return field is not None and not field.is_required() and field.default is not None


def read(model: type[R], value: Json, limits: Limits, places: Places = UNMOVED) -> R:
    """A body's JSON value as a request, fully checked. Raises `InputError` or `LimitError` with the place.

    `places`: where the value's fields stood in the body that was sent, if it is a translation.
    Takes up to a second for the largest body, so run it in a thread. No step of it holds the interpreter for long.
    """
    if isinstance(value, dict):
        with places.located():
            check_sizes(value, len(_IGNORED) + len(ChatRequest.model_fields), limits)
        value, from_elsewhere = elsewhere.translated(value, places)
        places = places.after(from_elsewhere)
    with places.located():
        return _read(model, value, limits, places)


def _read(model: type[R], value: Json, limits: Limits, places: Places) -> R:
    if isinstance(value, dict):
        # SDKs write null for fields that are left out, also where the default has another type.
        value = {name: item for name, item in value.items() if item is not None or not _is_left_out(model, name)}
        for name, kind in (("messages", Message), ("tools", Tool)):
            items = value.get(name)
            if isinstance(items, list) and name in model.model_fields:
                value[name] = [chats.validated(kind, item, f"/{name}/{i}") for i, item in enumerate(items)]
        choice = value.get("tool_choice")
        if isinstance(choice, dict) and "tool_choice" in model.model_fields:
            value["tool_choice"] = chats.choice_of(choice)
    request = chats.validated(model, value, "")
    request._places = places
    request.check(limits)
    request.forget_ignored()
    return request


def _check_prompt(prompt: Json) -> None:
    """Texts, token ids, or lists of token ids."""
    if isinstance(prompt, str) or not prompt:
        return
    first = prompt[0]
    kind = str if isinstance(first, str) else list if isinstance(first, list) else int
    check_items(prompt, kind, "/prompt")
    if kind is list:
        for i, ids in enumerate(prompt):
            check_items(ids, int, f"/prompt/{i}")
