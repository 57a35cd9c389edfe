"""Somebody else's server as an `engines.api.Engine`: the prompt goes there as token ids, the tokens come back.

The dispatcher runs the requests, in a thread of its own. Grammars are written for the upstream when they are compiled
(`take_grammar`), so that what cannot be handed over is refused before anything is asked.
"""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from narrows.arguments import FLAG, INTEGER, TEXT, TEXT_OR_PATH, optional, wants
from narrows.decoding.detokenize import Detokenizer
from narrows.engines.api import Embeddings, EngineStats, Request
from narrows.engines.checks import check_request
from narrows.engines.output_queue import OutputQueue, QueueStream, forked
from narrows.engines.sequence import Sequence as RunningSequence
from narrows.engines.upstream.client import Client
from narrows.engines.upstream.connect import Connected, connect
from narrows.engines.upstream.dispatcher import Dispatcher
from narrows.engines.upstream.embeddings import UpstreamEmbeddings
from narrows.engines.upstream.grammars import Grammars
from narrows.engines.upstream.requests import check_possible
from narrows.errors import InputError, LimitError
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.vocabulary.vocabulary import Vocabulary

if TYPE_CHECKING:
    from narrows.constraint import Constraint


class UpstreamEngine:
    """The model of another server.

    url: its address, with or without `/v1`.
    tokenizer: of the upstream's model: a folder with a tokenizer.json, a GGUF file, or the model's name on the hub
      (narrows.engines.hub). Default: the files that the upstream names, if they are on this machine.
    kind: vllm, sglang, llama.cpp or openai. Default: what the server says that it is.
    model: the upstream's name of the model. Default: the first that it lists.
    max_model_len: most tokens of a prompt and its output. Default: what the upstream says.
    max_num_seqs: sequences that are at the upstream at once; further ones wait, at most max_queue.
    checked: also take grammars that the upstream cannot be held to exactly. It gets a looser one, or none, and an
      answer that leaves the grammar ends with an error.
    wait: seconds to wait for an upstream that does not answer yet.
    read_timeout: seconds without a byte after which an answer counts as lost.
    progress: called with one line while it waits.

    Raises `EngineError` (`upstream_unreachable`, `tokenizer_missing`, `tokenizer_mismatch`) and `InputError`.
    """

    def __init__(
        self,
        url: str,
        *,
        tokenizer: str | os.PathLike[str] | None = None,
        kind: str | None = None,
        model: str | None = None,
        api_key: str | None = None,
        max_model_len: int | None = None,
        max_num_seqs: int = 256,
        max_queue: int = 256,
        checked: bool = False,
        wait: float = 300.0,
        read_timeout: float = 600.0,
        limits: Limits = DEFAULT_LIMITS,
        progress: Callable[[str], None] = lambda line: None,
    ) -> None:
        wants(TEXT, url=url)
        wants(optional(TEXT_OR_PATH), tokenizer=tokenizer)
        wants(optional(TEXT), kind=kind, model=model, api_key=api_key)
        wants(optional(INTEGER), max_model_len=max_model_len)
        wants(INTEGER, max_num_seqs=max_num_seqs, max_queue=max_queue)
        wants(FLAG, checked=checked)
        for name, value, least in (("max_num_seqs", max_num_seqs, 1), ("max_queue", max_queue, 0)):
            if value < least:
                raise InputError(f"{name} must be at least {least}, not {value}", code="engine_option_invalid")
        self._client = Client(url, api_key=api_key, read_timeout=read_timeout)
        self._upstream: Connected = connect(
            self._client,
            tokenizer=tokenizer,
            kind=kind,
            model=model,
            max_model_len=max_model_len,
            wait=wait,
            progress=progress,
        )
        self._grammars = Grammars(self._upstream.server, checked, limits)
        self._max_num_seqs = max_num_seqs
        self._max_queue = max_queue
        self._longest_token = max(map(len, map(self.vocabulary.token_bytes, range(self.vocabulary.size))))
        self._description: dict[str, Any] = {
            "engine": "upstream",
            "url": self._client.root,
            "kind": self._upstream.server.kind,
            "model": self._upstream.server.model,
            "tokenizer": self._upstream.tokenizer.path,
            "grammars": self._grammars.described,
            "max_model_len": self.max_model_len,
            "max_num_seqs": max_num_seqs,
            "max_queue": max_queue,
        }
        self._arrivals = itertools.count()
        self._queues: weakref.WeakValueDictionary[str, OutputQueue] = weakref.WeakValueDictionary()
        self._process = os.getpid()
        self._embeddings = UpstreamEmbeddings(self._client, self._upstream.server.model, max_queue)
        self._dispatcher = Dispatcher(
            self._client,
            self._upstream.server,
            max_num_seqs=max_num_seqs,
            max_queue=max_queue,
            limit=self.max_model_len,
        )

    # What the model is.

    @property
    def model_name(self) -> str:
        return self._upstream.name

    @property
    def vocabulary(self) -> Vocabulary:
        return self._upstream.tokenizer.vocabulary

    @property
    def max_model_len(self) -> int:
        return self._upstream.max_model_len

    @property
    def max_num_seqs(self) -> int:
        return self._max_num_seqs

    @property
    def chat_template(self) -> str | None:
        return self._upstream.chat_template

    @property
    def special_tokens(self) -> Mapping[str, str]:
        return self._upstream.tokenizer.special_tokens

    @property
    def eos_token_ids(self) -> frozenset[int]:
        return frozenset(self.vocabulary.eos_ids)

    @property
    def add_bos(self) -> bool:
        return self._upstream.tokenizer.add_bos

    def encode(self, text: str, *, parse_special: bool = False, add_bos: bool = False) -> list[int]:
        if len(text) > self.max_model_len * self._longest_token:
            raise LimitError(
                f"a text of {len(text)} characters cannot fit the context of {self.max_model_len} tokens",
                code="context_length_exceeded",
                limit="max_model_len",
                hint="Shorten the prompt",
            )
        tokenizer = self._upstream.tokenizer
        ids = tokenizer.encode(text, parse_special=parse_special)
        return [tokenizer.bos_token_id, *ids] if add_bos and tokenizer.bos_token_id is not None else ids

    def decode(self, token_ids: Sequence[int]) -> str:
        reader = Detokenizer()
        return "".join([reader.feed(self.vocabulary.token_bytes(t)) for t in token_ids]) + reader.finish()

    def describe(self) -> Mapping[str, Any]:
        return dict(self._description)

    # Requests.

    def take_grammar(self, constraint: Constraint, arrays: Mapping[str, Any]) -> int:
        return self._grammars.take(constraint, arrays)

    def generate(self, request: Request) -> QueueStream:
        self._check_process()
        running = self._queues.get(request.request_id)
        check_request(
            request,
            vocabulary=self.vocabulary,
            max_model_len=self.max_model_len,
            most_sequences=self._max_num_seqs + self._max_queue,
            is_running=running is not None and running.unfinished,
        )
        check_possible(request)
        self._upstream.server.check(request)
        grammar = self._grammars.of(request.constraint)
        queue = OutputQueue(request.n, self._dispatcher.abort)
        sequences = [
            RunningSequence(
                request,
                index,
                arrival=next(self._arrivals),
                vocabulary=self.vocabulary,
                limit=self.max_model_len,
                queue=queue,
            )
            for index in range(request.n)
        ]
        self._dispatcher.submit(sequences, grammar)
        self._queues[request.request_id] = queue
        return QueueStream(queue)

    def embed(self, inputs: Sequence[str | Sequence[int]], *, pooled: bool = True) -> Future[Embeddings]:
        """Ask the upstream's `/v1/embeddings`, as `Embeds.embed` says. What it refuses is an `EngineError`."""
        self._check_process()
        return self._embeddings.submit(inputs)

    def abort(self, request_id: str) -> None:
        queue = self._queues.get(request_id)
        if queue is not None:
            self._dispatcher.abort(queue)

    def stats(self) -> EngineStats:
        return self._dispatcher.stats()

    def check_health(self) -> None:
        self._check_process()
        self._dispatcher.check()

    def drain(self, timeout: float | None = None) -> bool:
        self._check_process()
        return self._dispatcher.drain(timeout)

    def close(self) -> None:
        if os.getpid() == self._process:
            self._embeddings.close()
            self._dispatcher.close()
            self._upstream.tokenizer.close()

    def __enter__(self) -> UpstreamEngine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise forked("engine")
