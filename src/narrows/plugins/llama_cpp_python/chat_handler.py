"""Tool calls and structured answers for llama-cpp-python's `create_chat_completion`: a chat handler.

    llm = llama_cpp.Llama("model.gguf", chat_handler=ChatHandler())
    llm.create_chat_completion(messages, tools=tools, tool_choice="required", stream=True)

- The prompt is the model's own template's. No message can write a control token. A template without tools gets them
  described in its system message.
- Where a call is required or a tool is named, the grammar of the wire format holds the answer: valid calls of the given
  tools. With "auto" it is free text, and what opens a call is completed as one.
- A `response_format` holds the content.
- Streamed and complete answers are made by one parser from the same tokens.

Cost: at the first chat 0.3 s for the vocabulary and the template. A grammar is compiled once, and kept while there is
room (`Limits.grammar_cache_bytes`).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from narrows.chat.model_format import find_format, find_reasoning
from narrows.chat.template import ChatTemplate
from narrows.compile_cache import CompileCache, Lease
from narrows.compiling.text import definition_text
from narrows.constraint import Constraint
from narrows.decoding.detokenize import ContentStops
from narrows.errors import InputError, UnsupportedError
from narrows.events import Event
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.plugins.llama_cpp_python.answer import Answer, Chunk
from narrows.plugins.llama_cpp_python.generation import Generation, biased, stop_texts
from narrows.plugins.llama_cpp_python.logits_processor import LogitsProcessor
from narrows.plugins.llama_cpp_python.model import compiled, end_tokens, vocabulary_of
from narrows.plugins.llama_cpp_python.turn import (
    Reading,
    Turn,
    check_messages,
    read_response_format,
    read_tool_choice,
    read_turn,
)
from narrows.stream.deltas import Deltas
from narrows.stream.parser import StreamParser

_TEMPLATE = "tokenizer.chat_template"


class ChatHandler:
    """For any number of `Llama` objects, each used by one thread at a time, as llama-cpp-python wants it."""

    def __init__(
        self,
        format: str | None = None,
        *,
        reasoning: str | None = "auto",
        chat_template: str | None = None,
        parallel_tool_calls: bool = True,
        max_tool_calls: int | None = None,
        additional: str = "declared",
        strict: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """format: the name of a wire format, or a TOML file. None: the one that the chat template shows.
        reasoning: a style, "auto", or None to leave its markers in the content.
        chat_template: Jinja text. None: that of the GGUF file, else ChatML.
        parallel_tool_calls: whether an answer may have several calls. max_tool_calls: how many at most.
        additional: "declared" keeps objects to the keys that a schema names, where it does not say
            `additionalProperties`. "standard" allows others, as JSON Schema does.
        strict: refuse every schema with a keyword that cannot be enforced. False: only those that say `strict`.
        """
        self._format = format
        self._reasoning = reasoning
        self._template = chat_template
        self._parallel = parallel_tool_calls
        self._reading = Reading(additional, strict, max_tool_calls)
        self._limits = limits
        self._lock = threading.Lock()
        self._models: weakref.WeakKeyDictionary[Any, _Model] = weakref.WeakKeyDictionary()

    def __call__(
        self,
        *,
        llama: Any,
        messages: list[Any],
        functions: Any = None,
        function_call: Any = None,
        tools: list[Any] | None = None,
        tool_choice: Any = None,
        temperature: float = 0.2,
        top_p: float = 0.95,
        top_k: int = 40,
        min_p: float = 0.05,
        typical_p: float = 1.0,
        stream: bool = False,
        stop: str | Sequence[str] | None = None,
        seed: int | None = None,
        response_format: Any = None,
        max_tokens: int | None = None,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        repeat_penalty: float = 1.0,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        model: str | None = None,
        logits_processor: Any = None,
        grammar: Any = None,
        logit_bias: Any = None,
        logprobs: bool | None = None,
        top_logprobs: int | None = None,
        **variables: Any,
    ) -> dict[str, Any] | Iterator[Chunk]:
        """Called by `create_chat_completion`, which explains the arguments. `variables` are those of the template, such
        as `enable_thinking`. What cannot be done is refused at once, also for a stream: InputError, UnsupportedError,
        GrammarError or LimitError, with a pointer into the arguments."""
        _refuse(functions, function_call, logprobs)
        check_messages(messages)
        known = self._model(llama)
        allowed, choice = read_tool_choice(tools, tool_choice, self._limits)
        if allowed and not known.reads_calls:
            raise UnsupportedError(
                "the format of this model's tool calls is not known",
                code="format_unknown",
                pointer="/tools",
                hint="Name it: ChatHandler(format=...)",
            )
        prompt = known.template.render(messages, allowed or None, parallel=self._parallel, variables=variables)
        ids = known.template.encode(
            prompt, lambda text, special: llama.tokenize(text.encode(), add_bos=False, special=special)
        )
        content = read_response_format(response_format, self._reading)
        turn = read_turn(
            known.format, known.reasoning, prompt.tail, allowed, choice, content, self._parallel, self._reading
        )
        lease = known.constraint(turn)
        if lease is not None and grammar is not None:
            raise InputError(
                "grammar excludes tools and response_format", code="constraints_exclusive", pointer="/grammar"
            )
        processors = list(logits_processor or ())
        if logit_bias:
            processors.insert(0, biased(logit_bias, llama.n_vocab()))
        holder = None
        if lease is not None:
            holder = LogitsProcessor(llama, lease.value, readable=False)
            processors.append(holder.apply)
        sampling = {
            "temp": temperature,
            "top_p": top_p,
            "top_k": top_k,
            "min_p": min_p,
            "typical_p": typical_p,
            "presence_penalty": presence_penalty,
            "frequency_penalty": frequency_penalty,
            "repeat_penalty": repeat_penalty,
            "tfs_z": tfs_z,
            "mirostat_mode": mirostat_mode,
            "mirostat_tau": mirostat_tau,
            "mirostat_eta": mirostat_eta,
            "grammar": grammar,
        }
        generation = Generation(llama, ids, max_tokens, seed, processors, sampling)
        answer = Answer(llama.model_path if model is None else model)
        chunks = known.chunks(generation, turn, stop_texts(stop), answer, holder, lease)
        return chunks if stream else answer.complete(chunks)

    def _model(self, llm: Any) -> _Model:
        with self._lock:
            known = self._models.get(llm)
            if known is None:
                known = _Model(llm, self._format, self._reasoning, self._template, self._limits)
                self._models[llm] = known
            return known


class _Model:
    """What the chats of one `Llama` share."""

    def __init__(
        self, llm: Any, format: str | None, reasoning: str | None, template: str | None, limits: Limits
    ) -> None:
        source = template or llm.metadata.get(_TEMPLATE)
        self.vocabulary = vocabulary_of(llm)
        self.format, is_known = find_format(format, source, "Name it: ChatHandler(format=...)")
        self.reasoning = find_reasoning(reasoning, self.format, source or "")
        names = {token: name for name, token in self.vocabulary.special.items()}
        self.template = ChatTemplate(
            source,
            special=self.vocabulary.special,
            bos_token=names.get(llm.token_bos(), ""),
            eos_token=names.get(llm.token_eos(), ""),
            fmt=self.format,
            limits=limits,
        )
        self.reads_calls = is_known or not self.template.renders_tools
        """False where the template offers tools, but no known format reads the calls that it asks for."""
        self._ends = frozenset(end_tokens(llm))
        self._limits = limits
        self._constraints: CompileCache[bytes, Constraint] = CompileCache(lambda c: c.bytes, limits)

    def constraint(self, turn: Turn) -> Lease[Constraint] | None:
        """The constraint of the turn, in use while the lease lives."""
        if turn.definition is None:
            return None
        try:
            key = definition_text(turn.definition)
        except TypeError as error:
            raise InputError(f"tools and schemas are JSON values: {error}", code="tools_invalid") from error
        return self._constraints.get(
            key, lambda: compiled(self.vocabulary, turn.grammar(self._limits), self._limits), len(key)
        )

    def chunks(
        self,
        generation: Generation,
        turn: Turn,
        stop: Sequence[str],
        answer: Answer,
        holder: LogitsProcessor | None,
        lease: Lease[Constraint] | None,
    ) -> Iterator[Chunk]:
        """The chunks of the answer as they come. Raises LimitError or EngineError where the constraint cannot be kept
        any more."""
        deltas = Deltas()
        parser = turn.parser(self.vocabulary, self._limits, self.format.id_factory(answer.id))
        stops = ContentStops(stop)
        reason, written = "length", 0
        yield answer.first()
        for token in generation.tokens():
            if holder is not None and holder.error is not None:
                raise holder.error
            ends = token in self._ends
            written += not ends
            yield from map(answer.chunk, deltas.of(stops.feed(parser.feed_tokens([token]))))
            if ends or stops.found is not None:
                reason = "stop"
                break
        yield from map(answer.chunk, deltas.of(_rest(parser, stops)))
        if stops.found is not None:  # also where the last characters that were held back made it complete
            reason = "stop"
        if reason == "stop" and deltas.has_call:
            reason = "tool_calls"
        generation.save_state(written)
        if lease is not None:
            lease.release()
        yield answer.last(reason, len(generation.prompt), written)


def _rest(parser: StreamParser, stops: ContentStops) -> list[Event]:
    """The events that were held back when the answer ended."""
    if stops.found is not None:
        return []
    return [*stops.feed(parser.finish()), *stops.finish()]


def _refuse(functions: Any, function_call: Any, logprobs: Any) -> None:
    """Raises UnsupportedError for arguments that this handler does not read."""
    for pointer, value, hint in (
        ("/functions", functions, "Use tools"),
        ("/function_call", function_call, "Use tool_choice"),
        ("/logprobs", logprobs, "Use create_completion, or a server that has them"),
    ):
        if value:
            raise UnsupportedError(
                f"{pointer[1:]} is not supported here", code="argument_unsupported", pointer=pointer, hint=hint
            )
