"""Prometheus metrics, in a registry of their own. The engine's metrics are read from `Engine.stats()` at each
scrape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from narrows.engines.api import Engine
    from narrows.server.grammars import GrammarCache

_SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_COMPILE_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)


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
            "narrows_unenforced_keywords", "Keywords of requests' schemas that are not enforced", ["keyword"], **new
        )
        self.request_seconds = Histogram(
            "narrows_request_seconds", "From the request to the last byte", ["path"], buckets=_SECONDS, **new
        )
        self.first_token_seconds = Histogram(
            "narrows_time_to_first_token_seconds", "From the request to the first output", buckets=_SECONDS, **new
        )
        self.compile_seconds = Histogram(
            "narrows_grammar_compile_seconds", "Building and compiling a grammar", buckets=_COMPILE_SECONDS, **new
        )
        self.open_streams = Gauge("narrows_open_streams", "Streams being sent", **new)
        self.disconnected = Counter("narrows_client_disconnects", "Requests whose client left before the end", **new)

    def watch(self, engine: Engine, grammars: GrammarCache) -> None:
        """Add the metrics of the engine and of the grammar cache."""
        self.registry.register(_Snapshot(engine, grammars))

    def text(self) -> bytes:
        """All metrics in Prometheus's exposition format."""
        return generate_latest(self.registry)


class _Snapshot(Collector):
    def __init__(self, engine: Engine, grammars: GrammarCache) -> None:
        self._engine = engine
        self._grammars = grammars

    def collect(self) -> Iterable[Metric]:
        stats, grammars = self._engine.stats(), self._grammars
        gauges = {
            "narrows_sequences_running": ("Sequences in the batch", stats.running),
            "narrows_sequences_waiting": ("Sequences in the queue", stats.waiting),
            "narrows_kv_cells_used": ("KV cache cells of running sequences", stats.kv_used),
            "narrows_kv_cells_kept": ("Tokens of prefixes kept for later requests", stats.kv_kept),
            "narrows_prefix_cache_bytes": ("Bytes of the prefixes kept for later requests", stats.kept_bytes),
            "narrows_kv_cells": ("KV cache cells in all", stats.kv_total),
            "narrows_grammar_cache_entries": ("Compiled grammars kept", len(grammars)),
            "narrows_grammar_cache_bytes": ("Bytes that compiled grammars hold", grammars.bytes_held),
            "narrows_grammar_cache_bytes_in_use": ("Bytes of grammars that requests use", grammars.bytes_in_use),
            "narrows_grammar_shared_bytes": ("Bytes that all grammars share", self._engine.vocabulary.shared_bytes),
            "narrows_grammars_compiling": ("Grammars that are being compiled or wait", len(grammars.compiler)),
        }
        counters = {
            "narrows_preemptions": ("Sequences preempted, to be computed again", stats.preemptions_total),
            "narrows_prompt_tokens": ("Prompt tokens", stats.prompt_tokens_total),
            "narrows_cached_tokens": ("Prompt tokens found in the cache", stats.cached_tokens_total),
            "narrows_generation_tokens": ("Generated tokens", stats.generation_tokens_total),
            "narrows_engine_steps": ("Decode calls", stats.steps_total),
            "narrows_upstream_retries": ("Requests that were sent to the upstream again", stats.retries_total),
            "narrows_grammar_cache_hits": ("Grammars found in the cache", grammars.hits),
            "narrows_grammar_cache_misses": ("Grammars compiled", grammars.misses),
            "narrows_grammar_reader_starts": (
                "Processes started to read long schemas and grammars",
                grammars.reader_starts,
            ),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(name, text, value=value)
        for name, (text, value) in counters.items():
            yield CounterMetricFamily(name, text, value=value)
        finished = CounterMetricFamily("narrows_sequences_finished", "Sequences by finish reason", labels=["reason"])
        for reason, count in stats.finished_total.items():
            finished.add_metric([reason], count)
        yield finished
