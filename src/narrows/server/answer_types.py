"""The shape of OpenAI's answers, for type checkers and for the API page. Values are plain dicts: a shape costs nothing.

What writes a part of an answer names its shape here (answers.py, service.py, values.py, errors.py, routes.py). A test
compares whole answers and chunks of a model with the page.
"""

from __future__ import annotations

from typing import Any, Literal, Union

from pydantic import ConfigDict
from typing_extensions import NotRequired, TypedDict  # pydantic reads it on every Python, and brings it

from narrows.engines import api

OPEN = ConfigDict(extra="allow")
"""For a shape with further fields, which depend on the case."""

FinishReason = Union[api.FinishReason, Literal["tool_calls"]]
"""The engine's, and what the server makes of `stop` where there is a complete call."""


class CachedTokens(TypedDict):
    """Of the prompt."""

    cached_tokens: int


class ReasoningTokens(TypedDict):
    """Of the completion."""

    reasoning_tokens: int
    """Those that the reasoning has characters of, also where the answer leaves the reasoning out."""


class Usage(TypedDict):
    """Tokens of the request, all its sequences together."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens
    completion_tokens_details: ReasoningTokens


class ErrorFields(TypedDict):
    """`code` is stable, `message` is not. The other fields are there where they apply."""

    message: str
    type: str
    param: str | None
    code: str
    pointer: NotRequired[str]
    line: NotRequired[int]
    column: NotRequired[int]
    offset: NotRequired[int]
    limit: NotRequired[str]
    hint: NotRequired[str]


class ErrorBody(TypedDict):
    """An error, in place of an answer or of the rest of a stream."""

    error: ErrorFields


class ScoredOption(TypedDict):
    """One option of `select`."""

    text: str
    tokens: int
    logprob: float
    score: float
    probability: float


class ReportedValue(TypedDict):
    """A value that has become whole, or the `error` that ends the values of a text."""

    tool_call_index: NotRequired[int]
    pointer: NotRequired[str]
    value: NotRequired[Any]
    span: NotRequired[list[int]]
    logprob: NotRequired[float]
    tokens: NotRequired[int]
    error: NotRequired[ErrorFields]


class End(TypedDict):
    """What the last chunk of a choice has, and the choice of a complete answer."""

    stop_reason: NotRequired[str | int]
    error: NotRequired[ErrorFields]
    options: NotRequired[list[ScoredOption]]


class FunctionDelta(TypedDict):
    """The name once, then pieces of the arguments."""

    name: NotRequired[str]
    arguments: str


class ToolCallDelta(TypedDict):
    """The id and the type come once, with the name."""

    index: int
    id: NotRequired[str]
    type: NotRequired[Literal["function"]]
    function: FunctionDelta


class DeltaMessage(TypedDict):
    """A piece of the message, of one kind. Empty in the last chunk of a choice."""

    role: NotRequired[Literal["assistant"]]
    content: NotRequired[str]
    reasoning: NotRequired[str]
    reasoning_content: NotRequired[str]
    tool_calls: NotRequired[list[ToolCallDelta]]


class TopLogprob(TypedDict):
    """A token that was likely there. `bytes`: a token may be half a character."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprobEntry(TopLogprob):
    """A token that was written."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(TypedDict):
    """One entry for each token."""

    content: list[TokenLogprobEntry]
    refusal: None


class ChatChunkChoice(End):
    """The news of one sequence."""

    index: int
    delta: DeltaMessage
    finish_reason: FinishReason | None
    logprobs: NotRequired[ChatLogprobs]
    values: NotRequired[list[ReportedValue]]


class ChatChunk(TypedDict):
    """An event of a streamed chat completion."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: NotRequired[Usage | None]


class CalledFunction(TypedDict):
    """`arguments` is JSON text, as the model wrote it."""

    name: str
    arguments: str


class CalledTool(TypedDict):
    """A call."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class AnsweredMessage(TypedDict):
    """The message of a complete answer."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning: NotRequired[str]
    reasoning_content: NotRequired[str]
    tool_calls: NotRequired[list[CalledTool]]


class ChatCompletionChoice(End):
    """What one sequence has written."""

    index: int
    message: AnsweredMessage
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason


class ChatCompletion(TypedDict):
    """A complete answer to a conversation."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatCompletionChoice]
    usage: Usage


class TextLogprobs(TypedDict):
    """Parallel lists, an item for each token."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class TextCompletionChoice(End):
    """What one sequence has written."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: FinishReason


class TextChunkChoice(End):
    """The news of one sequence."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: FinishReason | None
    values: NotRequired[list[ReportedValue]]


class TextCompletion(TypedDict):
    """A complete answer to one or several prompts."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[TextCompletionChoice]
    usage: Usage


class TextChunk(TypedDict):
    """An event of a streamed completion."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[TextChunkChoice]
    usage: NotRequired[Usage | None]


class ModelCard(TypedDict):
    """A model, under one of its names. `root` is the engine's own name."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    root: str
    max_model_len: int


class ModelList(TypedDict):
    """The models, under each of their names."""

    object: Literal["list"]
    data: list[ModelCard]


class ModelHealth(TypedDict):
    """The state of one model."""

    status: Literal["ok", "dead"]
    model: str
    format: str
    error: NotRequired[ErrorFields]


class Health(TypedDict):
    """The state of the server. With 503, `error` says why, and `model` which one is dead. Otherwise `model` is the
    first. `models`: all of them, where there are several."""

    status: Literal["ok", "dead", "stopping"]
    model: NotRequired[str]
    format: NotRequired[str]
    error: NotRequired[ErrorFields]
    models: NotRequired[list[ModelHealth]]
