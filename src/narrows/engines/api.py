"""The interface of every engine. The server, the command line and the benchmarks know engines only by this module.

A `Request` is n sequences over one prompt. `Engine.generate` raises at once for what can be refused (a full queue, a
prompt beyond the context, an id outside the vocabulary). Otherwise it returns an `OutputStream`. Iterate over it
(`async for` or `for`). To abort what still runs, leave it (`async with`), call `aclose()` or `close()`, or drop it.

Promises of every engine:
- Each sequence gives its `Output`s in order. Exactly one of them, the last, has a `finish_reason`. The stream ends
  after the last output of all n sequences.
- No text of the model is lost at the end, and no output comes after the last.
- A failure of one sequence (its processor, its constraint, a limit) is that sequence's `finish_reason="error"`.
- The same seed gives the same tokens, whatever else runs, if the model's arithmetic does not depend on the batch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from narrows.arguments import FLAG, FUNCTION, INTEGER, LIST, TEXT, of, optional, wants
from narrows.decoding.params import MAX_LOGPROBS, SamplingParams
from narrows.decoding.processors import LogitsProcessor, LogitsProcessorFactory, LogitsProcessorSpec
from narrows.decoding.repetition import RepetitionDetection
from narrows.decoding.sampling import TokenLogprob
from narrows.decoding.strategies import Strategies
from narrows.decoding.thinking import ThinkingBudget
from narrows.decoding.values import AnswerNews, AnswerValue, UnreadText, ValueOptions
from narrows.errors import InputError, NarrowsError
from narrows.events import Event

if TYPE_CHECKING:
    from concurrent.futures import Future

    import numpy as np
    from numpy.typing import NDArray

    from narrows.constraint import Constraint
    from narrows.vocabulary.vocabulary import Vocabulary

__all__ = [
    "MAX_LOGPROBS",
    "AnswerValue",
    "Embeddings",
    "Embeds",
    "Engine",
    "EngineStats",
    "FinishReason",
    "LogitsProcessor",
    "LogitsProcessorFactory",
    "LogitsProcessorSpec",
    "Output",
    "OutputStream",
    "Parser",
    "RepetitionDetection",
    "Request",
    "SamplingParams",
    "Strategies",
    "TakesGrammars",
    "ThinkingBudget",
    "TokenLogprob",
    "UnreadText",
    "ValueOptions",
]

FinishReason = Literal["stop", "length", "repetition", "abort", "error"]
"""stop: an end token, a stop text or token, a value that ends it, the constraint's end, or a repeated call. length:
`max_tokens` or the context is used up. repetition: the output ran without end (decoding/repetition.py). The server
turns stop into tool_calls if the events held a complete call."""


class Parser(Protocol):
    """The methods of a stream parser (`fmt.parser(...)`) that an engine calls. The parser gets token ids, so it is made
    with `vocab=engine.vocabulary`."""

    def feed_tokens(self, ids: Sequence[int]) -> list[Event]:
        """The events that more token ids add, in order."""

    def finish(self) -> list[Event]:
        """The events that were held back. The answer has ended."""

    @property
    def place(self) -> str:
        """Where the text stands: "reasoning" or something else. Read if a request has a thinking budget."""

    @property
    def position(self) -> int:
        """Where the text of the ids so far ends, in the unit of the events' spans. Read with every
        token."""


@dataclass(slots=True, kw_only=True)
class Request:
    """n sequences over one prompt. The engine does not change it."""

    request_id: str
    """The caller's name for it, for `Engine.abort` and logs."""
    prompt_token_ids: Sequence[int]
    """Token ids of the whole prompt, at least one."""
    sampling: SamplingParams = field(default_factory=SamplingParams)
    """How tokens are chosen, and when the text ends."""
    output_token_ids: Sequence[int] = ()
    """Tokens with which every output begins, whatever the model and the sampling say. The constraint and the parser
    read them. They count as output, and come first in it. So a sequence goes on where another stopped. Raises at once
    if there are more than max_tokens. They have no log-probabilities, unless `score_output`."""
    token_healing: bool = False
    """Let the model choose anew how the end of the prompt is cut into tokens (decoding/healing.py). The text of the
    output begins after the prompt as ever; `token_ids` begin with the tokens that replace those of the prompt's end. A
    parser is given the prompt without that end. Not with `output_token_ids`, nor with a budget."""
    score_output: bool = False
    """Report the log-probabilities of `output_token_ids` too: of all tokens, not of those that the constraint allows.
    `sampling.logprobs` must be set."""
    n: int = 1
    """Number of sequences."""
    constraint: Constraint | None = None
    """Shared by all n sequences. The engine makes one matcher for each."""
    parser_factory: Callable[[int], Parser] | None = None
    """Called once per sequence with its index, so that call ids may be seeded from the index. Without a factory,
    `Output.events` is empty."""
    logits_processors: Sequence[LogitsProcessorSpec] = ()
    """Functions or factories that change the logits, in order (decoding/processors.py)."""
    strategies: Strategies = field(default_factory=Strategies)
    """How the constraint is used while decoding. Without a constraint they have no effect."""
    stop_at_repeated_call: bool = False
    """End the sequence when the parser reads the same call twice in a row, or the same series of calls twice. The
    repetition is left out (decoding/repeats.py). Has no effect with `min_tokens`."""
    repetition_detection: RepetitionDetection | None = None
    """End the sequence when its output runs without end, with finish_reason repetition. What is held to a constraint
    goes the shortest way to its end first, so that it is whole."""
    thinking_budget: ThinkingBudget | None = None
    """Bounds the reasoning that the parser reads. Without a parser it has no effect."""
    values: ValueOptions | None = None
    """Report the JSON values of the text as they become whole, and end the sequence at some of them. Without a parser
    all text is content."""
    priority: int = 0
    """The lowest number runs first, as in vLLM."""
    client: str = ""
    """Who sent the request. At equal priority, the client with the fewest running sequences goes first, then the
    request that arrived first."""

    def __post_init__(self) -> None:
        wants(TEXT, request_id=self.request_id, client=self.client)
        wants(LIST, prompt_token_ids=self.prompt_token_ids, logits_processors=self.logits_processors)
        wants(LIST, output_token_ids=self.output_token_ids)
        wants(of("a SamplingParams", SamplingParams), sampling=self.sampling)
        wants(of("a Strategies", Strategies), strategies=self.strategies)
        wants(INTEGER, n=self.n, priority=self.priority)
        wants(optional(FUNCTION), parser_factory=self.parser_factory)
        wants(FLAG, stop_at_repeated_call=self.stop_at_repeated_call, score_output=self.score_output)
        wants(FLAG, token_healing=self.token_healing)
        if self.token_healing and self.output_token_ids:
            raise InputError(
                "token_healing changes the end of the prompt, which output_token_ids would follow",
                code="sampling_params_invalid",
                pointer="/token_healing",
            )
        if self.token_healing and self.strategies.budget:
            raise InputError(
                "a budget does not count the tokens that heal a prompt: token_healing and budget exclude each other",
                code="sampling_params_invalid",
                pointer="/token_healing",
            )
        if self.score_output and self.sampling.logprobs is None:
            raise InputError(
                "score_output needs sampling.logprobs", code="sampling_params_invalid", pointer="/logprobs"
            )
        wants(optional(of("a ValueOptions", ValueOptions)), values=self.values)
        wants(
            optional(of("a RepetitionDetection", RepetitionDetection)), repetition_detection=self.repetition_detection
        )
        wants(optional(of("a ThinkingBudget", ThinkingBudget)), thinking_budget=self.thinking_budget)


@dataclass(slots=True, kw_only=True)
class Output:
    """The news of one sequence. Outputs that the reader has not taken are merged, so that a slow reader costs no
    memory."""

    index: int
    """Index of the sequence, 0..n-1."""
    token_ids: list[int] = field(default_factory=list)
    """New ids, including the end token. They come as they are generated. Their text and events may come later: they
    wait for the rest of a character, or until a possible stop text is decided."""
    text: str = ""
    """New text, in whole characters. Special tokens, such as end tokens, have no text. Without a parser the text ends
    before a stop text. With a parser it is everything that the model wrote, with all markup; use the events instead."""
    events: list[Event] = field(default_factory=list)
    """New events of the sequence's parser. A stop text ends Content where it stands, and no event follows."""
    values: list[AnswerNews] = field(default_factory=list)
    """JSON values that the new text or events made whole, in order: `AnswerValue`, or once for a text that is no JSON
    `UnreadText`. Their log-probabilities are there if the request asks for those of the tokens."""
    logprobs: list[TokenLogprob] = field(default_factory=list)
    """One for each of `token_ids` that was drawn, if the request asks for them, else empty."""
    logprob_spans: list[tuple[int, int]] = field(default_factory=list)
    """For each of `logprobs`, where the token's text stands in all that the model wrote, as the spans of events count
    it. A token that ends within a character, or has no text, has an empty span. Engines may leave the list empty."""
    finish_reason: FinishReason | None = None
    """Set in the last output of the sequence, and in no other."""
    stop_reason: int | str | None = None
    """The stop text, stop token id or pointer of the value that ended it; "repetition_detected" for a repetition; None
    for the model's own end token or the constraint's end."""
    stop_value: bool = False
    """Whether `stop_reason` is the pointer of a value. The call that it stands in is not complete."""
    error: NarrowsError | None = None
    """Set with `finish_reason="error"`."""
    reasoning_tokens: int = 0
    """How many more of the sequence's tokens are known to be reasoning: the parser's `Reasoning` events have characters
    of them."""
    cached_tokens: int = 0
    """In the first output of a sequence: prompt tokens that were in the cache and not computed. Otherwise 0."""

    def merge(self, later: Output) -> None:
        """Append a later output of the same sequence to this one."""
        self.token_ids += later.token_ids
        self.text += later.text
        self.events += later.events
        self.values += later.values
        self.logprobs += later.logprobs
        self.logprob_spans += later.logprob_spans
        self.finish_reason = later.finish_reason
        self.stop_reason = later.stop_reason
        self.stop_value = later.stop_value
        self.error = later.error
        self.reasoning_tokens += later.reasoning_tokens
        self.cached_tokens += later.cached_tokens


class OutputStream(Protocol):
    """The outputs of one request, with its sequences interleaved. For one reader, asynchronous or not."""

    def __aiter__(self) -> AsyncIterator[Output]: ...

    async def __anext__(self) -> Output: ...

    def __iter__(self) -> Iterator[Output]: ...

    def __next__(self) -> Output: ...

    def close(self) -> None:
        """Abort what still runs and drop the outputs that were not taken. Thread-safe, idempotent, returns at once."""

    async def aclose(self) -> None:
        """`close`, for `async with` and for code that awaits."""

    async def __aenter__(self) -> OutputStream: ...

    async def __aexit__(self, *exc: object) -> None: ...

    def __enter__(self) -> OutputStream: ...

    def __exit__(self, *exc: object) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """A snapshot for metrics. Values whose name ends in _total only grow."""

    running: int = 0
    """Sequences in the batch."""
    waiting: int = 0
    """Sequences in the queue, including preempted ones."""
    kv_used: int = 0
    """Cells that running sequences hold."""
    kv_kept: int = 0
    """Tokens of ended sequences whose keys and values are kept for later requests."""
    kept_bytes: int = 0
    """Bytes of memory that these keys and values take, beside the cells."""
    kv_total: int = 0
    """Cells that there are."""
    preemptions_total: int = 0
    """Sequences that had to wait again, since others needed their cells."""
    prompt_tokens_total: int = 0
    """Tokens of prompts, computed or found in the cache."""
    cached_tokens_total: int = 0
    """Prompt tokens that were found in the cache."""
    generation_tokens_total: int = 0
    """Tokens that were generated."""
    steps_total: int = 0
    """Decode calls of the model."""
    retries_total: int = 0
    """Requests that were sent again, of an engine that asks another server."""
    finished_total: Mapping[str, int] = field(default_factory=dict)
    """Number of sequences for each finish reason."""


@runtime_checkable
class TakesGrammars(Protocol):
    """An engine that hands grammars to somebody else, and so has to see what they are made of."""

    def take_grammar(self, constraint: Constraint, arrays: Mapping[str, Any]) -> int:
        """Called once for each constraint that `generate` will be given, with the arrays that it was assembled from
        (narrows.grammar.flatten). From any thread. Returns the bytes that are kept while the constraint lives. Raises
        `UnsupportedError` if the grammar cannot be handed over exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings:
    """The vectors of some inputs, in the order of the inputs."""

    vectors: Sequence[NDArray[np.float32]]
    """float32[size] for each input; float32[tokens, size] of an engine that does not pool."""
    prompt_tokens: int
    """Tokens of all inputs together."""


@runtime_checkable
class Embeds(Protocol):
    """An engine that computes embeddings, too."""

    def embed(self, inputs: Sequence[str | Sequence[int]], *, pooled: bool = True) -> Future[Embeddings]:
        """Queue inputs, each a text or token ids. A text gets what the model has at the ends of a text, and names of
        special tokens in it become those tokens. `pooled`: refuse what would not be one vector for each input.

        Raises at once: `InputError` (`embeddings_disabled`, `pooling_none`, `prompt_empty`), `TokenError`, `LimitError`
        (`context_length_exceeded`, `queue_full`) and `EngineError`. A place is a pointer to the input: `/0`. Later the
        future has the vectors, or an `EngineError`. Cancelling it takes what was not computed out of the queue. Must
        not hold up sequences that generate."""


class Engine(Protocol):
    """A model that generates. Methods may be called from any thread."""

    @property
    def model_name(self) -> str:
        """The name under which a server offers the model, unless it is told another."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens. Constraints are compiled for it, and parsers are made with it."""

    @property
    def max_model_len(self) -> int:
        """Most tokens of prompt and output together."""

    @property
    def max_num_seqs(self) -> int:
        """Most sequences that run at once. Further ones wait."""

    @property
    def chat_template(self) -> str | None:
        """The model's own Jinja template, if it has one."""

    @property
    def special_tokens(self) -> Mapping[str, str]:
        """Texts that templates use, by their names in transformers: bos_token, eos_token, unk_token, pad_token."""

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """The tokens with which the model ends an answer."""

    @property
    def add_bos(self) -> bool:
        """Whether a prompt of this model begins with its BOS token (chat templates write it themselves)."""

    def encode(self, text: str, *, parse_special: bool = False, add_bos: bool = False) -> list[int]:
        """Token ids of a text. With `parse_special`, names of special tokens in the text become those tokens: do not
        use it for untrusted text. Raises `InputError` for text that is not Unicode (lone surrogates), and `LimitError`
        for text that cannot fit the context."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids. Special tokens have no text. Broken UTF-8 becomes U+FFFD."""

    def generate(self, request: Request) -> OutputStream:
        """Queue a request. Raises at once: `LimitError` code `queue_full` or `context_length_exceeded`, `InputError`,
        `TokenError`, `EngineError` code `engine_dead` or `engine_closed`."""

    def abort(self, request_id: str) -> None:
        """End the sequences of a request with finish_reason abort. What they wrote is delivered first. An unknown id
        has no effect."""

    def stats(self) -> EngineStats:
        """What runs, waits and was done so far. For metrics: cheap, and blocks no step."""

    def describe(self) -> Mapping[str, Any]:
        """Model, library and options, for logs and /health."""

    def check_health(self) -> None:
        """Raises `EngineError` code `engine_dead` if the engine has failed, or code `engine_closed`."""

    def drain(self, timeout: float | None = None) -> bool:
        """Take no new requests (`generate` raises code `engine_closed`), and wait until the present ones have ended, at
        most `timeout` seconds. True if all have ended; `close` aborts the others. For a server that shuts down: it
        cannot be undone."""

    def close(self) -> None:
        """End all running sequences with finish_reason abort, and free the model. Idempotent."""
