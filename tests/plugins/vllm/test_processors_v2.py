"""vLLM's V2 contract, without its runner, which needs a GPU: slots that are recycled, rows in any order, several per request with drafts.

The batch here keeps what vLLM keeps: committed tokens by slot, the drafts only among the step's inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from states import COUNT, EOS, REGEXES, SIZE, allowed, constrained, counting, expected
from vllm.v1.worker.gpu.sample.logits_processor import LogitsContext, LogitsProcessor

from narrows.plugins.vllm.masking.processors_v1 import OnV1
from narrows.plugins.vllm.masking.processors_v2 import OnV2
from narrows.plugins.vllm.processors import NarrowsLogitsProcessor, per_sequence

SLOTS, LENGTH = 4, 64


@dataclass
class Request:
    kind: int
    prompt: list[int]
    pick: int
    text: list[int] = field(default_factory=list)
    filled: int = 0
    """Tokens of prompt and earlier output that the model has been fed since the request entered its slot."""

    def choose(self, options: list[int]) -> int:
        self.pick = self.pick * 5 + 3
        return options[self.pick % len(options)]


def make(request: Request) -> Any:
    if request.kind == COUNT:
        return counting(request)
    return constrained(REGEXES[request.kind]) if request.kind < COUNT else None


class Runner:
    """The part of vLLM's V2 runner that a logits processor sees."""

    def __init__(self) -> None:
        self.tokens = torch.zeros(SLOTS, LENGTH, dtype=torch.int32)
        self.prompt_len = np.zeros(SLOTS, dtype=np.int32)
        self.prefill_len = np.zeros(SLOTS, dtype=np.int32)
        state = SimpleNamespace(
            all_token_ids=SimpleNamespace(gpu=self.tokens),
            prompt_len=SimpleNamespace(np=self.prompt_len),
            prefill_len=SimpleNamespace(np=self.prefill_len),
        )
        self.processor = OnV2(make, state)
        self.slots: dict[int, Request] = {}

    def add(self, request: Request) -> None:
        slot = max(set(range(SLOTS)) - set(self.slots))
        tokens = request.prompt + request.text
        self.tokens[slot] = 99
        self.tokens[slot, : len(tokens)] = torch.tensor(tokens)
        self.prompt_len[slot], self.prefill_len[slot] = len(request.prompt), len(tokens)
        request.filled = 0
        self.slots[slot] = request
        assert self.processor.add_request(slot, request) == (request.kind <= COUNT)

    def step(self, order: list[int], drafts: dict[int, list[int]], chunk: int) -> None:
        """One forward pass over these slots, with these drafts; `chunk` tokens at most of what is to be filled in first."""
        rows: list[tuple[int, int, int, int]] = []  # slot, place among its rows, position, input token
        batch: dict[int, tuple[int, list[int]]] = {}
        for slot in order:
            request = self.slots[slot]
            known = request.prompt + request.text
            start = (
                min(request.filled + chunk, len(known)) if request.filled < int(self.prefill_len[slot]) else len(known)
            )
            guessed = drafts.get(slot, []) if start == len(known) and request.filled else []
            batch[slot] = (start, guessed)
            rows.append((slot, 0, start - 1, known[start - 1]))
            rows += [(slot, place + 1, start + place, token) for place, token in enumerate(guessed)]
        columns = [torch.tensor([row[i] for row in rows], dtype=torch.int32) for i in range(4)]
        context = LogitsContext(
            expanded_idx_mapping=columns[0],
            idx_mapping=torch.tensor(order),
            idx_mapping_np=np.array(order),
            expanded_local_pos=columns[1],
            input_ids=columns[3],
            pos=columns[2].to(torch.int64),
            seq_lens_upper_bound_np=np.array([batch[slot][0] + len(batch[slot][1]) for slot in order]),
        )
        logits = self.processor.apply(torch.zeros(len(rows), SIZE), context)
        found: dict[int, list[list[int]]] = {}
        for (slot, *_), row in zip(rows, logits, strict=True):
            found.setdefault(slot, []).append(allowed(row))
        for slot, masks in found.items():
            self._sample(slot, masks, *batch[slot])

    def _sample(self, slot: int, masks: list[list[int]], start: int, guessed: list[int]) -> None:
        request = self.slots[slot]
        request.filled = start
        if start < len(request.prompt) + len(request.text):
            return  # still being filled in: the row is thrown away
        for place, mask in enumerate(masks):
            assert mask == expected(request.kind, request.text)
            token = request.choose(mask)
            if place < len(guessed) and request.pick % 3 and guessed[place] in mask:
                token = guessed[place]
            request.text.append(token)
            self.tokens[slot, len(request.prompt) + len(request.text) - 1] = token
            if place < len(guessed) and token != guessed[place]:
                break
        request.filled = len(request.prompt) + len(request.text) - 1


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["add", "add", "leave", "preempt", "step", "step"]), st.integers(0, 99), st.randoms()),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(ACTIONS)
def test_every_row_gets_the_mask_of_its_own_text(actions: list[tuple[str, int, Any]]) -> None:
    runner = Runner()
    waiting: list[Request] = []
    for action, number, random in actions:
        if action == "add" and len(runner.slots) < SLOTS:
            fresh = Request(
                number % (len(REGEXES) + 2), [random.randrange(SIZE) for _ in range(1 + number % 4)], number
            )
            runner.add(waiting.pop() if waiting and number % 2 else fresh)
        elif action in ("leave", "preempt") and runner.slots:
            gone = runner.slots.pop(random.choice(sorted(runner.slots)))
            if action == "preempt" and EOS not in gone.text and len(gone.text) < 30:
                waiting.append(gone)
        for slot in [slot for slot, request in runner.slots.items() if EOS in request.text or len(request.text) > 40]:
            del runner.slots[slot]
        order = random.sample(sorted(runner.slots), len(runner.slots))
        if order:
            runner.step(order, {slot: _drafts(runner.slots[slot], random) for slot in order}, 1 + number % 3)


def _drafts(request: Request, random: Any) -> list[int]:
    """Up to three tokens that fit, as vLLM proposes them where a grammar has looked at them."""
    found: list[int] = []
    for _ in range(random.randrange(4)):
        options = [token for token in expected(request.kind, request.text + found) if token != EOS]
        if not options:
            break
        found.append(random.choice(options))
    return found


def test_drafts_that_do_not_fit_repeat_the_last_mask() -> None:
    """vLLM rejects such a draft at its own row; what comes after it is never sampled from."""
    runner = Runner()
    runner.add(Request(0, [5], 0))
    runner.slots[SLOTS - 1].filled = 1
    columns = [torch.tensor(values) for values in ([SLOTS - 1] * 3, [0, 1, 2], [0, 1, 2], [5, 13, 1])]
    context = LogitsContext(
        expanded_idx_mapping=columns[0], idx_mapping=columns[0][:1], idx_mapping_np=np.array([SLOTS - 1]),
        expanded_local_pos=columns[1], input_ids=columns[3], pos=columns[2], seq_lens_upper_bound_np=np.array([3]),
    )  # fmt: skip
    rows = runner.processor.apply(torch.zeros(3, SIZE), context)
    assert [allowed(row) for row in rows] == [expected(0, [])] * 3


@pytest.mark.parametrize("cls", [NarrowsLogitsProcessor, per_sequence(lambda params: None)])
def test_one_class_serves_both_runners(cls: Any) -> None:
    """vLLM looks at the class before it knows the runner, and calls it with three arguments or with two."""
    assert issubclass(cls, LogitsProcessor)
    config = SimpleNamespace(model_config=None)
    assert isinstance(cls(config, torch.device("cpu"), False), OnV1)
    assert isinstance(cls(config, SimpleNamespace()), OnV2)
