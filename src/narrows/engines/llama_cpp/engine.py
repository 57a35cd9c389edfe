"""The embedded engine: one GGUF model on llama.cpp, as an `engines.api.Engine`. This module checks requests and makes a
model, a cache and a scheduler from the options. They do the work."""

from __future__ import annotations

import itertools
import os
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from narrows.arguments import INTEGER, TEXT, TEXT_OR_PATH, of, optional, wants
from narrows.decoding.detokenize import Detokenizer
from narrows.decoding.healing import split
from narrows.decoding.strategies import StrategyMemory
from narrows.engines.api import Embeddings, EngineStats, Request
from narrows.engines.checks import check_request
from narrows.engines.llama_cpp.batch import SAME_BITS
from narrows.engines.llama_cpp.cache import RESERVED_SEQUENCES, CellCache, slack
from narrows.engines.llama_cpp.embedder import Embedder
from narrows.engines.llama_cpp.embedding_context import EmbeddingContext, embedding_options
from narrows.engines.llama_cpp.library import load_library
from narrows.engines.llama_cpp.model import LlamaModel
from narrows.engines.llama_cpp.options import Lora, model_options, refused
from narrows.engines.llama_cpp.scheduler import Scheduler
from narrows.engines.output_queue import OutputQueue, QueueStream, forked
from narrows.engines.sequence import Sequence as RunningSequence
from narrows.errors import InputError, LimitError
from narrows.vocabulary.vocabulary import Vocabulary

_MAX_SEQUENCES = 256 - RESERVED_SEQUENCES
"""llama.cpp has at most 256 sequence numbers."""
_LONGEST = 8_192
"""Default limit for the tokens of a sequence, and half of the default cells: a long sequence leaves room for others."""


class LlamaCppEngine:
    """A model on this machine, shared by up to `max_num_seqs` sequences at once.

    model: path of a GGUF file. Options, with vLLM's or llama.cpp's names:
    n_ctx: cells of the key-value cache, for all sequences together (SmolLM2-135M: 23 KB each). Default 16,384, or
    max_model_len if that is more.
    max_model_len: most tokens of one prompt and its output. Default: what the model was trained for, at most n_ctx.
      Without n_ctx it is at most 8,192, so that a long sequence leaves room for others.
    max_queue: most waiting sequences. More are refused with `LimitError` code `queue_full`.
    cache_ram: most memory, in MiB, in which prefixes of ended sequences are kept for prompts with the same beginning.
      0 keeps none, -1 sets no limit. A thousand tokens of SmolLM2 take 23 MB, and save six seconds on one core.
    prefix_cache_tokens: the same limit in tokens, in addition. Default: none.
    n_batch: most tokens of one step. Default 63: up to there the same text has the same bits, whatever else runs. The
      default is larger if max_num_seqs is 63 or more.
    prefill_chunk: most prompt tokens per step while other sequences generate. A step takes fewer if it would otherwise
      take more than twice its time.
    n_threads: threads for steps of one token. Default 1 on one or two cores, else all cores but one, at most 8.
    n_threads_batch: threads for steps of several tokens. Default: n_threads if it is given. Else all cores, at most 8,
      for a sequence that runs alone, and as n_threads for several: their masks, and the server, need a core, too.
    n_ubatch, n_gpu_layers, cache_type_k, cache_type_v, flash_attn, use_mmap, use_mlock, lora: see
      `options.ModelOptions`. An element of `lora` is a path or (path, scale).
    embeddings: compute embeddings, too, in a context of its own.
    pooling: none, mean, cls or last. Default: the model's.
    embd_normalize, embd_batch: see `embedding_context.EmbeddingOptions` (`normalize`, `tokens`). Default: 2 and 512.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        model_name: str | None = None,
        n_ctx: int | None = None,
        max_model_len: int | None = None,
        max_num_seqs: int = 16,
        max_queue: int = 256,
        cache_ram: int = 1024,
        prefix_cache_tokens: int | None = None,
        n_batch: int | None = None,
        prefill_chunk: int = 32,
        n_threads: int | None = None,
        n_threads_batch: int | None = None,
        n_ubatch: int | None = None,
        n_gpu_layers: int = 0,
        cache_type_k: str = "f16",
        cache_type_v: str = "f16",
        flash_attn: str = "auto",
        use_mmap: bool = True,
        use_mlock: bool = False,
        lora: Sequence[Lora] = (),
        embeddings: bool = False,
        pooling: str | None = None,
        embd_normalize: int | None = None,
        embd_batch: int | None = None,
        library: str | os.PathLike[str] | None = None,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        wants(TEXT_OR_PATH, model=model)
        wants(optional(TEXT_OR_PATH), library=library)
        wants(optional(TEXT), model_name=model_name)
        wants(optional(of("a Vocabulary", Vocabulary)), vocabulary=vocabulary)
        wants(INTEGER, max_num_seqs=max_num_seqs, max_queue=max_queue, cache_ram=cache_ram, prefill_chunk=prefill_chunk)
        wants(optional(INTEGER), n_ctx=n_ctx, max_model_len=max_model_len, n_batch=n_batch, n_threads=n_threads)
        wants(optional(INTEGER), prefix_cache_tokens=prefix_cache_tokens)
        if max_num_seqs > _MAX_SEQUENCES:
            raise refused("max_num_seqs", f"must be at most {_MAX_SEQUENCES}")
        if n_batch is None:
            n_batch = SAME_BITS if max_num_seqs < SAME_BITS else max_num_seqs + prefill_chunk
        for name, value, least in (
            ("n_ctx", 2 if n_ctx is None else n_ctx, 2),
            ("max_model_len", 2 if max_model_len is None else max_model_len, 2),
            ("max_num_seqs", max_num_seqs, 1),
            ("max_queue", max_queue, 0),
            ("cache_ram", cache_ram, -1),
            ("prefix_cache_tokens", prefix_cache_tokens or 0, 0),
            ("n_batch", n_batch, max_num_seqs),
            ("prefill_chunk", prefill_chunk, 1),
        ):
            if value < least:
                raise refused(name, f"must be at least {least}, not {value}")
        most = max_model_len or n_ctx or _LONGEST
        n_ctx = n_ctx or max(2 * _LONGEST, most)
        self._library = load_library(library)
        wanted = embedding_options(self._library, embeddings, pooling, embd_normalize, embd_batch)
        cores = _cores()
        default_threads = min(max(cores - 1, 1), 8)
        is_default = n_threads is None and n_threads_batch is None
        checked = model_options(
            self._library,
            n_batch=n_batch,
            n_threads=default_threads if n_threads is None else n_threads,
            n_threads_batch=min(cores, 8) if is_default else n_threads_batch,
            n_threads_shared=default_threads if is_default else None,
            n_ubatch=n_ubatch,
            n_gpu_layers=n_gpu_layers,
            cache_type_k=cache_type_k,
            cache_type_v=cache_type_v,
            flash_attn=flash_attn,
            use_mmap=use_mmap,
            use_mlock=use_mlock,
            lora=lora,
        )
        self._model = LlamaModel(
            model,
            n_ctx=n_ctx + slack(n_ctx, n_batch),
            n_batch=n_batch,
            n_seq_max=max_num_seqs + RESERVED_SEQUENCES,
            n_outputs=n_batch,
            options=checked,
            library=self._library,
        )
        try:
            self._vocabulary = vocabulary or Vocabulary.from_gguf(self._model.path)
            if self._vocabulary.size != self._model.vocab_size:
                raise InputError(
                    f"the vocabulary has {self._vocabulary.size} ids, the model {self._model.vocab_size}",
                    code="vocabulary_mismatch",
                )
        except BaseException:
            self._model.close()
            raise
        self._max_model_len = min(max_model_len or self._model.n_ctx_train, most, n_ctx)
        self._max_num_seqs = max_num_seqs
        self._model_name = model_name or self._model.metadata("general.name") or os.path.basename(self._model.path)
        self._chat_template = self._model.chat_template
        self._special_tokens = self._model.special_tokens()
        self._add_bos = self._model.add_bos
        self._longest_token = max(len(self._vocabulary.token_bytes(i)) for i in range(self._vocabulary.size))
        self._description: dict[str, Any] = {
            "engine": "llama.cpp",
            "library": self._library.path,
            "library_source": self._library.source,
            "model": self._model.path,
            "model_kind": self._model.description,
            "n_ctx": n_ctx,
            "max_model_len": self._max_model_len,
            "max_num_seqs": max_num_seqs,
            "max_queue": max_queue,
            "cache_ram": cache_ram,
            "prefix_cache_tokens": prefix_cache_tokens,
            "n_batch": n_batch,
            "prefill_chunk": prefill_chunk,
            **checked.describe(),
        }
        cache = CellCache(
            self._model,
            cells=n_ctx,
            slots=max_num_seqs,
            batch_tokens=n_batch,
            kept_bytes=None if cache_ram < 0 else cache_ram << 20,
            kept_tokens=prefix_cache_tokens,
        )
        self._scheduler = Scheduler(
            self._model,
            cache,
            max_num_seqs=max_num_seqs,
            max_queue=max_queue,
            batch_tokens=n_batch,
            prefill_chunk=prefill_chunk,
        )
        self._embedder: Embedder | None = None
        if wanted is not None:
            try:
                embedding = EmbeddingContext(self._model, wanted, checked)
            except BaseException:
                _shut_down(os.getpid(), self._scheduler, self._model, None)
                raise
            self._description |= {"pooling": embedding.pooling, "embd_batch": embedding.tokens}
            self._embedder = Embedder(self._model, embedding, max_queue=max_queue, longest_token=self._longest_token)
        self._memory = StrategyMemory(self._model.encode)
        self._arrivals = itertools.count()
        self._queues: weakref.WeakValueDictionary[str, OutputQueue] = weakref.WeakValueDictionary()
        self._process = os.getpid()
        self._finalizer = weakref.finalize(
            self, _shut_down, self._process, self._scheduler, self._model, self._embedder
        )

    @property
    def model_name(self) -> str:
        """The name of the GGUF file without `.gguf`, unless another one was given."""
        return self._model_name

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's tokens, as the GGUF file has them."""
        return self._vocabulary

    @property
    def max_model_len(self) -> int:
        """Most tokens of prompt and output together."""
        return self._max_model_len

    @property
    def max_num_seqs(self) -> int:
        """Most sequences that run at once. Further ones wait."""
        return self._max_num_seqs

    @property
    def chat_template(self) -> str | None:
        """The Jinja template in the GGUF file, if it has one."""
        return self._chat_template

    @property
    def special_tokens(self) -> Mapping[str, str]:
        """Texts that templates use, such as bos_token, by their names in transformers."""
        return self._special_tokens

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """The tokens with which the model ends an answer."""
        return frozenset(self._vocabulary.eos_ids)

    @property
    def add_bos(self) -> bool:
        """Whether a prompt of this model begins with its BOS token."""
        return self._add_bos

    def encode(self, text: str, *, parse_special: bool = False, add_bos: bool = False) -> list[int]:
        """Token ids of a text, as `Engine.encode` says. Raises InputError for lone surrogates, and LimitError for a
        text that cannot fit the context."""
        self._check_process()
        if len(text) > self._max_model_len * self._longest_token:
            raise LimitError(
                f"a text of {len(text)} characters cannot fit the context of {self._max_model_len} tokens",
                code="context_length_exceeded",
                limit="max_model_len",
                hint="Shorten the prompt",
            )
        return self._model.encode(text, parse_special=parse_special, add_bos=add_bos)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids. Special tokens have no text. Broken UTF-8 becomes U+FFFD."""
        reader = Detokenizer()
        return "".join([reader.feed(self._vocabulary.token_bytes(t)) for t in token_ids]) + reader.finish()

    def generate(self, request: Request) -> QueueStream:
        """Queue a request, as `Engine.generate` says: what can be refused is refused at once. Returns without waiting
        for the model."""
        self._check_process()
        running = self._queues.get(request.request_id)
        check_request(
            request,
            vocabulary=self._vocabulary,
            max_model_len=self._max_model_len,
            most_sequences=self._description["max_queue"] + self._max_num_seqs,
            is_running=running is not None and running.unfinished,
        )
        healed = b""
        if request.token_healing:
            prompt, healed = split(request.prompt_token_ids, self._vocabulary)
            request = replace(request, prompt_token_ids=prompt)
        queue = OutputQueue(request.n, self._scheduler.abort)
        sequences = [
            RunningSequence(
                request,
                index,
                arrival=next(self._arrivals),
                vocabulary=self._vocabulary,
                limit=self._max_model_len,
                queue=queue,
                memory=self._memory,
                healed=healed,
            )
            for index in range(request.n)
        ]
        self._scheduler.submit(sequences)
        self._queues[request.request_id] = queue
        return QueueStream(queue)

    def embed(self, inputs: Sequence[str | Sequence[int]], *, pooled: bool = True) -> Future[Embeddings]:
        """Queue inputs, as `Embeds.embed` says. Raises InputError code `embeddings_disabled` without the option
        `embeddings`. Returns without waiting for the model."""
        self._check_process()
        if self._embedder is None:
            raise InputError(
                "this server computes no embeddings",
                code="embeddings_disabled",
                hint="Start it with --embeddings",
            )
        return self._embedder.submit(inputs, pooled=pooled)

    def abort(self, request_id: str) -> None:
        """End the sequences of a request with finish_reason abort. An unknown id has no effect."""
        queue = self._queues.get(request_id)
        if queue is not None:
            self._scheduler.abort(queue)

    def stats(self) -> EngineStats:
        """A snapshot for metrics. Does not wait for the model."""
        return self._scheduler.stats()

    def strategy_totals(self) -> Mapping[str, int]:
        """What the strategies of decoding did so far, for benchmarks: `jumped_tokens`, `masks` (those that were made),
        `draft_tokens` and `accepted_draft_tokens`. Sequences count when they end. Rows of logits count as they come:
        `guided_rows` are those of sequences with a constraint, `late_rows` those that had to wait for their mask, and
        `refused_rows` those whose candidates were refused, so that a mask had to be made."""
        return self._scheduler.strategy_totals()

    def describe(self) -> Mapping[str, Any]:
        """Model, library and options, for logs and /health."""
        return dict(self._description)

    def check_health(self) -> None:
        """Raises EngineError code `engine_dead` if the engine has failed, or code `engine_closed`."""
        self._check_process()
        self._scheduler.check()

    def _check_process(self) -> None:
        """Raise in a forked process: it has no worker threads, and their locks may be held for ever."""
        if os.getpid() != self._process:
            raise forked("engine")

    def drain(self, timeout: float | None = None) -> bool:
        """Take no new requests, and wait until the present ones have ended, at most `timeout` seconds. True if all have
        ended."""
        self._check_process()
        began = time.monotonic()
        if not self._scheduler.drain(timeout):
            return False
        left = None if timeout is None else max(0.0, timeout - (time.monotonic() - began))
        return self._embedder is None or self._embedder.drain(left)

    def close(self) -> None:
        """End all running sequences with finish_reason abort, and free the model. Idempotent."""
        self._finalizer()

    def __enter__(self) -> LlamaCppEngine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _shut_down(process: int, scheduler: Scheduler, model: LlamaModel, embedder: Embedder | None) -> None:
    if os.getpid() != process:  # a fork: the engine belongs to the parent process
        return
    here = threading.current_thread()
    if scheduler.owns(here) or (embedder is not None and embedder.owns(here)):
        # The last reference was dropped in one of the engine's threads, which cannot join itself.
        arguments = (process, scheduler, model, embedder)
        threading.Thread(target=_shut_down, args=arguments, name="narrows-close").start()
        return
    if embedder is not None:
        embedder.close()
    scheduler.close()
    model.close()


def _cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
