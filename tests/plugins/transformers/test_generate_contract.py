"""The contract for engines on the real transformers' `generate`, which runs in a thread and is stopped after each token."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Hashable, Mapping, Sequence
from threading import Semaphore, Thread, current_thread
from typing import Any

import pytest

from narrows import Vocabulary
from narrows.engines.default_model import default_gguf
from narrows.plugins import transformers as plugin
from narrows.testing.adapter import Adapter, Result, Start
from narrows.testing.engine_contract import EngineContract

torch = pytest.importorskip("torch", reason="make test-transformers installs torch and transformers")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate", reason="transformers needs it to read a GGUF file")


class Row:
    """One sequence: a row of a call."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.result = Result()
        self.is_aborted = False


class Call:
    """One call of `generate` in its thread, for rows that begin together. Also its stopping criterion, which waits."""

    def __init__(self, adapter: GenerateAdapter, rows: list[Row], *, drafted: bool) -> None:
        self.adapter, self.rows, self.drafted = adapter, rows, drafted
        self.ends = set(adapter.vocabulary.eos_ids)
        self.go, self.reached = Semaphore(0), Semaphore(0)
        self.draft: list[int] = []
        self.prompt = 0
        factory = rows[0].start.parser_factory
        parser: Any = factory(rows[0].start.number) if factory is not None else None
        self.streamer = plugin.EventStreamer(parser) if parser is not None else None
        self.thread = Thread(target=self.run)

    def step(self) -> None:
        if self.thread.ident is None:
            self.thread.start()
        else:
            self.go.release()
        self.reached.acquire()
        if self.is_over:
            self.thread.join()
        self.take_events()

    @property
    def is_over(self) -> bool:
        return all(row.result.finish_reason is not None for row in self.rows)

    def run(self) -> None:
        model, tokenizer = self.adapter.model, self.adapter.tokenizer
        inputs = tokenizer([row.start.prompt for row in self.rows], return_tensors="pt", padding=True)
        self.prompt = inputs.input_ids.shape[1]
        most = [row.start.sampling.max_tokens or 0 for row in self.rows]
        with contextlib.suppress(Exception):  # the rows that have not ended show it
            model.generate(
                **inputs,
                logits_processor=[plugin.LogitsProcessor([row.start.constraint for row in self.rows])],
                stopping_criteria=[self],
                do_sample=False,
                max_new_tokens=max(most),
                eos_token_id=sorted(self.ends),
                pad_token_id=tokenizer.pad_token_id,
                **({"streamer": self.streamer} if self.streamer is not None else {}),
                **({"prompt_lookup_num_tokens": 4} if self.drafted else {}),
            )
        for row in self.rows:
            row.result.finish_reason = row.result.finish_reason or "error"
        self.reached.release()

    def __call__(self, input_ids: Any, scores: Any, **options: Any) -> Any:
        """Where `generate` asks which rows are done: note what they have, and wait for the next step."""
        for row, ids in zip(self.rows, input_ids[:, self.prompt :].tolist(), strict=True):
            self.note(row, ids)
        if not self.is_over:
            self.reached.release()
            self.go.acquire()
        for row in self.rows:
            if row.is_aborted and row.result.finish_reason is None:
                row.result.finish_reason = "abort"
        return torch.tensor([row.result.finish_reason is not None for row in self.rows])

    def note(self, row: Row, ids: list[int]) -> None:
        result, most = row.result, row.start.sampling.max_tokens or 0
        if result.finish_reason is not None:
            return
        end = next((place for place, token in enumerate(ids) if token in self.ends), None)
        result.tokens = ids[:most] if end is None else ids[: min(end + 1, most)]
        if end is not None and end < most:
            result.finish_reason = "stop"
        elif len(ids) >= most:
            result.finish_reason = "length"

    def take_events(self) -> None:
        while self.streamer is not None:
            try:
                event = self.streamer._events.get_nowait()
            except queue.Empty:
                return
            if event is not None:
                self.rows[0].result.events.append(event)

    # The interface of a generator of candidates.

    requires_model_outputs = False

    def get_candidates(self, input_ids: Any, *args: Any, **options: Any) -> Any:
        room = self.prompt + (self.rows[0].start.sampling.max_tokens or 0) - input_ids.shape[1] - 1
        draft, self.draft = self.draft[: max(0, room)], []
        return torch.cat([input_ids, torch.tensor([draft], dtype=torch.long)], dim=1), None

    def update_candidate_strategy(self, *args: Any, **options: Any) -> None:
        return


class GenerateAdapter(Adapter):
    most_drafted = 1
    can_draw = "generate draws the tokens of a batch from one source of random numbers"
    can_preempt = "generate has no preemption: a row keeps its memory until the call ends"
    can_fork = "generate copies rows in a beam search alone, by their scores; test_rows.py does that at random"
    can_keep_budgets = "generate has no budget"
    can_fail_alone = "generate is one call for a batch: what is raised in it ends the batch"

    def __init__(self) -> None:
        path = default_gguf()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        self.tokenizer.padding_side = "left"
        model = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
        self.model = model.eval()
        self.model._get_candidate_generator = lambda *args, **options: self.calls_by_thread[current_thread()]
        ends = model.generation_config.eos_token_id
        self._vocabulary = Vocabulary.from_transformers(self.tokenizer, size=model.config.vocab_size, eos=ends)
        self.waiting: list[Row] = []
        self.calls: list[Call] = []

    @property
    def calls_by_thread(self) -> dict[Thread, Call]:
        return {call.thread: call for call in self.calls}

    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    def start(self, start: Start) -> Hashable:
        row = Row(start)
        self.waiting.append(row)
        return row

    def step(self, drafts: Mapping[Hashable, Sequence[int]]) -> None:
        """Rows that have waited begin: together, or each in a call of its own where `generate` takes one row."""
        alone = [row for row in self.waiting if row.start.parser_factory is not None or drafts]
        together = [row for row in self.waiting if row not in alone]
        self.calls += [Call(self, [row], drafted=bool(drafts)) for row in alone]
        if together:
            self.calls.append(Call(self, together, drafted=False))
        self.waiting = []
        for call in self.calls:
            call.draft = list(drafts.get(call.rows[0], ()))
            call.step()
        self.calls = [call for call in self.calls if not call.is_over]

    def result(self, row: Any) -> Result:
        return row.result

    def abort(self, row: Any) -> None:
        row.is_aborted = True
        if row in self.waiting:
            self.waiting.remove(row)
            row.result.finish_reason = "abort"


class TestGenerate(EngineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def adapter(cls) -> GenerateAdapter:
        return GenerateAdapter()
