"""Prometheus metrics, in a registry of their own. An engine's metrics are read from `Engine.stats()` at each scrape.

What belongs to a model has a label `model_name`, as in vLLM: the first name that clients know it by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from narrows.engines.api import Engine, EngineStats
    from narrows.server.grammars import GrammarCache

_SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_COMPILE_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)
MODEL = "model_name"


@dataclass(frozen=True, slots=True)
class Watched:
    """One model, by the first of its names."""

    name: str
    engine: Engine
    grammars: GrammarCache


class Metrics:
    """The numbers that the HTTP layer counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        new: Any = {"registry": self.registry}
        self.requests = Counter("narrows_requests", "Requests by path and status", ["path", "status"], **new)
        self.rejected = Counter("narrows_rejected", "Requests refused, by error code", ["code"], **new)
        self.refused = Counter(
            "narrows_connections_refused", "Connections refused or cut off, by reason", ["reason"], **new
        )
        self.unenforced = Counter(
            "narrows_unenforced_keywords",
            "Keywords of requests' schemas that are not enforced",
            [MODEL, "keyword"],
            **new,
        )
        self.request_seconds = Histogram(
            "narrows_request_seconds", "From the request to the last byte", ["path"], buckets=_SECONDS, **new
        )
        self.first_token_seconds = Histogram(
            "narrows_time_to_first_token_seconds",
            "From the request to the first output",
            [MODEL],
            buckets=_SECONDS,
            **new,
        )
        self.compile_seconds = Histogram(
            "narrows_grammar_compile_seconds",
            "Building and compiling a grammar",
            [MODEL],
            buckets=_COMPILE_SECONDS,
            **new,
        )
        self.embeddings_done = Counter(
            "narrows_embedding_request_success", "Requests for embeddings that were computed", [MODEL], **new
        )
        self.embeddings_failed = Counter(
            "narrows_embedding_request_errors",
            "Requests for embeddings that were not computed, by error code",
            [MODEL, "code"],
            **new,
        )
        self.embedding_tokens = Counter(
            "narrows_embedding_prompt_tokens", "Tokens of the inputs of embeddings", [MODEL], **new
        )
        self.embedding_seconds = Histogram(
            "narrows_embedding_e2e_request_latency_seconds",
            "From a request for embeddings to its vectors, those in the queue before it included",
            [MODEL],
            buckets=_SECONDS,
            **new,
        )
        self.open_streams = Gauge("narrows_open_streams", "Streams being sent", [MODEL], **new)
        self.disconnected = Counter("narrows_client_disconnects", "Requests whose client left before the end", **new)

    def watch(self, models: Sequence[Watched]) -> None:
        """Add the metrics of the models' engines and grammar caches. What is counted of a model begins at 0."""
        for model in models:
            for counted in (
                self.first_token_seconds,
                self.compile_seconds,
                self.open_streams,
                self.embeddings_done,
                self.embedding_tokens,
                self.embedding_seconds,
            ):
                counted.labels(model.name)
        self.registry.register(_Snapshot(models))

    def text(self) -> bytes:
        """All metrics in Prometheus's exposition format."""
        return generate_latest(self.registry)


class _Snapshot(Collector):
    def __init__(self, models: Sequence[Watched]) -> None:
        self._models = models

    def collect(self) -> Iterable[Metric]:
        engines = {id(model.engine): model for model in reversed(self._models)}  # the first of those that share one
        stats = {model.name: model.engine.stats() for model in reversed(engines.values())}
        grammars = {model.name: model.grammars for model in self._models}
        shared = {model.name: model.engine.vocabulary.shared_bytes for model in engines.values()}
        for name, text, value in _GAUGES:
            yield _family(GaugeMetricFamily, name, text, {model: value(one) for model, one in stats.items()})
        for name, text, held in _GRAMMAR_GAUGES:
            yield _family(GaugeMetricFamily, name, text, {model: held(one) for model, one in grammars.items()})
        yield _family(GaugeMetricFamily, "narrows_grammar_shared_bytes", "Bytes that all grammars share", shared)
        for name, text, value in _COUNTERS:
            yield _family(CounterMetricFamily, name, text, {model: value(one) for model, one in stats.items()})
        for name, text, held in _GRAMMAR_COUNTERS:
            yield _family(CounterMetricFamily, name, text, {model: held(one) for model, one in grammars.items()})
        finished = CounterMetricFamily(
            "narrows_sequences_finished", "Sequences by finish reason", labels=[MODEL, "reason"]
        )
        for model, one in stats.items():
            for reason, count in one.finished_total.items():
                finished.add_metric([model, reason], count)
        yield finished


Family = TypeVar("Family", GaugeMetricFamily, CounterMetricFamily)


def _family(kind: type[Family], name: str, text: str, values: Mapping[str, int]) -> Family:
    """One metric, with its value for each model."""
    family = kind(name, text, labels=[MODEL])
    for model, value in values.items():
        family.add_metric([model], value)
    return family


Stat = tuple[str, str, Callable[["EngineStats"], int]]
Held = tuple[str, str, Callable[["GrammarCache"], int]]
_GAUGES: tuple[Stat, ...] = (
    ("narrows_sequences_running", "Sequences in the batch", lambda stats: stats.running),
    ("narrows_sequences_waiting", "Sequences in the queue", lambda stats: stats.waiting),
    ("narrows_kv_cells_used", "KV cache cells of running sequences", lambda stats: stats.kv_used),
    ("narrows_kv_cells_kept", "Tokens of prefixes kept for later requests", lambda stats: stats.kv_kept),
    ("narrows_prefix_cache_bytes", "Bytes of the prefixes kept for later requests", lambda stats: stats.kept_bytes),
    ("narrows_kv_cells", "KV cache cells in all", lambda stats: stats.kv_total),
)
_COUNTERS: tuple[Stat, ...] = (
    ("narrows_preemptions", "Sequences preempted, to be computed again", lambda stats: stats.preemptions_total),
    ("narrows_prompt_tokens", "Prompt tokens", lambda stats: stats.prompt_tokens_total),
    ("narrows_cached_tokens", "Prompt tokens found in the cache", lambda stats: stats.cached_tokens_total),
    ("narrows_generation_tokens", "Generated tokens", lambda stats: stats.generation_tokens_total),
    ("narrows_engine_steps", "Decode calls", lambda stats: stats.steps_total),
    ("narrows_upstream_retries", "Requests that were sent to the upstream again", lambda stats: stats.retries_total),
)
_GRAMMAR_GAUGES: tuple[Held, ...] = (
    ("narrows_grammar_cache_entries", "Compiled grammars kept", len),
    ("narrows_grammar_cache_bytes", "Bytes that compiled grammars hold", lambda grammars: grammars.bytes_held),
    ("narrows_grammar_cache_bytes_in_use", "Bytes of grammars that requests use", lambda kept: kept.bytes_in_use),
    ("narrows_grammars_compiling", "Grammars that are being compiled or wait", lambda kept: len(kept.compiler)),
)
_GRAMMAR_COUNTERS: tuple[Held, ...] = (
    ("narrows_grammar_cache_hits", "Grammars found in the cache", lambda grammars: grammars.hits),
    ("narrows_grammar_cache_misses", "Grammars compiled", lambda grammars: grammars.misses),
    (
        "narrows_grammar_reader_starts",
        "Processes started to read long schemas and grammars",
        lambda grammars: grammars.reader_starts,
    ),
)
