"""The contract for engines on the embedded engine, with the small model: the real engine, whose loop is turned by hand."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from narrows import Vocabulary
from narrows.engines.api import Output, Request, Strategies
from narrows.engines.llama_cpp import LlamaCppEngine
from narrows.engines.llama_cpp import engine as engine_module
from narrows.engines.llama_cpp.cache import CellCache
from narrows.engines.llama_cpp.scheduler import Scheduler
from narrows.testing.adapter import Adapter, Result, Start
from narrows.testing.engine_contract import EngineContract

pytestmark = pytest.mark.model

_MOST_TURNS = 500
"""Most turns in which no sequence gets further: some compute a prompt, some wait for a mask."""


class TurnedByHand(Scheduler):
    """Its thread ends at once. `_turn` is called from outside."""

    def _run(self) -> None:
        return


class PlannedDrafts:
    """A drafter whose next guess is given."""

    def __init__(self, drafter: Any) -> None:
        self.drafter = drafter
        self.draft: list[int] = []

    def guess(self, matcher: Any, most: int, *, cost: float) -> list[int]:
        return self.draft[:most]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.drafter, name)


class EmbeddedAdapter(Adapter):
    def __init__(self, engine: LlamaCppEngine) -> None:
        self.engine = engine
        self.scheduler: Scheduler = engine._scheduler
        self.streams: dict[Hashable, Any] = {}
        self.results: dict[Hashable, Result] = {}
        self.forked: dict[Hashable, Result] = {}
        """What a fork begins with, until the engine has given it."""
        self.starts: dict[Hashable, Start] = {}
        self.preemptions = 0
        self.draft_tokens = 0

    @property
    def vocabulary(self) -> Vocabulary:
        return self.engine.vocabulary

    def start(self, start: Start, output: Sequence[int] = ()) -> Hashable:
        handle = f"{len(self.streams)}"
        seed, factory = start.sampling.seed, start.parser_factory
        assert seed is not None
        request = Request(
            request_id=handle,
            prompt_token_ids=self.engine.encode(start.prompt),
            sampling=replace(start.sampling, seed=1000 * seed + start.number),
            output_token_ids=output,
            constraint=start.constraint,
            parser_factory=None if factory is None else lambda index: factory(start.number),
            strategies=Strategies(budget=start.budget),
        )
        self.streams[handle] = self.engine.generate(request)
        self.results[handle], self.starts[handle] = Result(text=""), start
        return handle

    def step(self, drafts: Mapping[Hashable, Sequence[int]]) -> None:
        for each in self.scheduler._line.running:
            self._plan(each.sequence, list(drafts.get(each.sequence.request.request_id, ())), bool(drafts))
        for _ in range(_MOST_TURNS):
            if not any(result.finish_reason is None for result in self.results.values()):
                return
            self.scheduler._turn()
            if self._collect():
                return

    def _plan(self, sequence: Any, draft: list[int], planned: bool) -> None:
        if not planned or sequence._drafter is None:
            return
        if not isinstance(sequence._drafter, PlannedDrafts):
            sequence._drafter = PlannedDrafts(sequence._drafter)
        sequence._drafter.draft = draft
        self.draft_tokens += len(draft)

    def _collect(self) -> bool:
        """Take what has come. Whether anything has."""
        found = False
        for handle, result in self.results.items():
            queue = self.streams[handle]._queue
            with queue._changed:
                output: Output | None = queue.take()[0]
            if output is None:
                continue
            found = True
            result.tokens += output.token_ids
            result.text = (result.text or "") + output.text
            result.events += output.events
            result.finish_reason = output.finish_reason
            if len(result.tokens) >= len(self.forked.get(handle, Result()).tokens):
                self.forked.pop(handle, None)
        return found

    def result(self, handle: Hashable) -> Result:
        result = self.forked.get(handle) or self.results[handle]
        return result if result.finish_reason is not None else replace(result, text=None)

    def abort(self, handle: Hashable) -> None:
        self.engine.abort(str(handle))

    def preempt(self, handle: Hashable) -> None:
        for each in self.scheduler._line.running:
            if each.sequence.request.request_id == handle:
                self.preemptions += 1
                with pytest.MonkeyPatch.context() as patch:
                    if self.preemptions % 3 == 0:  # nothing is kept, so all is computed anew
                        patch.setattr(CellCache, "close", _forget)
                    self.scheduler._preempt(each)
                return

    def fork(self, handle: Hashable, number: int) -> Hashable:
        """A request that begins with the output of this one."""
        said = self.results[handle]
        fork = self.start(replace(self.starts[handle], number=number), said.tokens)
        self.forked[fork] = replace(said, tokens=list(said.tokens), events=list(said.events))
        return fork


_CLOSE = CellCache.close


def _forget(cache: CellCache, slot: int, keep: bool) -> None:
    _CLOSE(cache, slot, keep=False)


class TestEmbeddedEngine(EngineContract):
    @pytest.fixture(scope="class", params=[8, pytest.param(16, marks=pytest.mark.soak)])
    @classmethod
    def adapter(cls, model_path: str, request: pytest.FixtureRequest) -> Iterator[EmbeddedAdapter]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine_module, "Scheduler", TurnedByHand)
            engine = LlamaCppEngine(model_path, n_ctx=4096)
        with engine:
            adapter = EmbeddedAdapter(engine)
            adapter.most_sequences = request.param
            yield adapter
            print(
                f"{adapter.preemptions} preemptions, {engine.strategy_totals()}, {adapter.draft_tokens} planned drafts"
            )
