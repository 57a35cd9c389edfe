"""The contract for engines on a real vLLM engine, stepped by hand. engine.py runs it in a process of its own: `MODEL` names the model's folder, and
`CONTRACT` the way to the constraint: "structured" outputs, or the logits "processor", with "ngram" under speculative decoding.
"""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import engine as engines
import pytest

from narrows import Vocabulary
from narrows.plugins.vllm import vocabulary
from narrows.testing.adapter import Adapter, Result, Start
from narrows.testing.engine_contract import EngineContract

WAY = os.environ.get("CONTRACT", "structured").split()


class VllmAdapter(Adapter):
    can_be_repeated = "vLLM's arithmetic depends on the batch, and when a grammar is ready decides what is in it"
    can_fork = "vLLM copies no running sequence"
    can_read_events = "vLLM reads answers in its front end; test_parsers.py and the servers' tests are about that"
    can_keep_budgets = "vLLM has no budget"
    can_take_constraints = "vLLM's plug-in compiles definitions itself"
    can_draft = True if "ngram" in WAY else "this engine has no speculative decoding"
    can_draw = "vLLM's rejection sampler draws other numbers with drafts than without" if "ngram" in WAY else True

    def __init__(self, model: str) -> None:
        self.llm = engines._engine(
            model,
            max_model_len=192,
            structured_outputs_config={"backend": "auto"},
            speculative_config=engines.NGRAM if "ngram" in WAY else None,
        )
        self.engine = self.llm.llm_engine
        self.scheduler = self.engine.engine_core.engine_core.scheduler
        self._vocabulary = vocabulary.of_model(self.llm.get_tokenizer(), self.engine.model_config)
        self.results: dict[Hashable, Result] = {}
        self.preemptions = 0

    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    def start(self, start: Start) -> Hashable:
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        constraint: dict[str, Any] = {}
        if start.pattern is not None and "processor" in WAY:
            constraint = {"extra_args": {"narrows_regex": start.pattern}}
        elif start.pattern is not None:
            constraint = {"structured_outputs": StructuredOutputsParams(regex=start.pattern)}
        handle, given = f"{len(self.results)}", start.sampling
        params = SamplingParams(
            temperature=given.temperature,
            seed=1000 * (given.seed or 0) + start.number,
            max_tokens=given.max_tokens,
            **constraint,
        )
        self.engine.add_request(handle, start.prompt, params)
        self.results[handle] = Result()
        return handle

    def _request(self, handle: Hashable) -> Any:
        """vLLM puts something of its own after the id."""
        found = [each for each in self.scheduler.running if each.request_id.split("-")[0] == handle]
        return found[0] if found else None

    def step(self, drafts: Mapping[Hashable, Sequence[int]]) -> None:
        if drafts:
            from vllm.v1.outputs import DraftTokenIds

            most = engines.NGRAM["num_speculative_tokens"]
            known = {self._request(handle): list(draft)[:most] for handle, draft in drafts.items()}
            known.pop(None, None)
            ids = [request.request_id for request in known]
            self.scheduler.update_draft_token_ids(DraftTokenIds(ids, list(known.values())))
        deadline = time.monotonic() + 60
        while self.engine.has_unfinished_requests() and time.monotonic() < deadline:
            outputs = self.engine.step()
            for output in outputs:
                result, [made] = self.results[output.request_id], output.outputs
                result.tokens = list(made.token_ids)
                result.finish_reason = made.finish_reason
            if outputs:
                return
            time.sleep(0.002)  # a thread still compiles what all wait for

    def result(self, handle: Hashable) -> Result:
        return self.results[handle]

    def abort(self, handle: Hashable) -> None:
        self.engine.abort_request([str(handle)])
        self.results[handle].finish_reason = "abort"

    def preempt(self, handle: Hashable) -> None:
        """As the scheduler does it with all, to empty its cache."""
        request = self._request(handle)
        if request is not None:
            self.preemptions += 1
            self.scheduler.running.remove(request)
            self.scheduler._preempt_request(request, time.monotonic(), drop_stale_output=True)
            self.scheduler.prev_step_scheduled_req_ids.discard(request.request_id)


class TestVllm(EngineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def adapter(cls) -> VllmAdapter:
        return VllmAdapter(os.environ["MODEL"])
