"""SGLang's own classes around a grammar backend, as its scheduler has them: the manager that compiles and copies, the mask of a batch, the traversal of
drafts, and what takes sampled tokens in. Only the scheduler itself, the model and the requests' other fields are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from sglang.srt.constrained.grammar_manager import GrammarManager
from sglang.srt.managers.scheduler_components.batch_result_processor import SchedulerBatchResultProcessor
from sglang.srt.runtime_context import get_context, get_parallel
from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo
from sglang.srt.speculative import spec_utils
from transformers import AutoTokenizer

from narrows.engines.default_model import default_gguf

MARKERS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
WIDTH = 49_216
"""The width of the logits: more than the tokenizer has."""


@lru_cache(maxsize=1)
def tokenizer() -> Any:
    """The small model's, with markers that reasoning models have."""
    path = default_gguf()
    made = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    made.add_special_tokens({"additional_special_tokens": MARKERS})
    return made


def end() -> int:
    return int(tokenizer().eos_token_id)


def ids(text: str) -> list[int]:
    return list(tokenizer().encode(text))


def marker(name: str) -> int:
    (token,) = ids(name)
    return token


def text_of(tokens: Sequence[int]) -> str:
    return str(tokenizer().decode([token for token in tokens if token != end()]))


def bits(row: Any) -> set[int]:
    """The tokens that a row of a mask allows."""
    return set(np.flatnonzero(np.unpackbits(row.numpy().view(np.uint8), bitorder="little")).tolist())


def allowed(grammar: Any) -> set[int]:
    """The tokens that a grammar object allows next."""
    mask = grammar.allocate_vocab_mask(WIDTH, 1, "cpu")
    grammar.fill_vocab_mask(mask, 0)
    return bits(mask[0])


def takes(grammar: Any, tokens: Sequence[int]) -> bool:
    """Whether the tokens are allowed, one after the other. The object stands behind those that are."""
    for token in tokens:
        if token not in allowed(grammar):
            return False
        grammar.accept_token(token)
    return True


def matches(grammar: Any, text: str) -> bool:
    """Whether this is a complete text of the grammar, in the tokenizer's own spelling."""
    return takes(grammar, ids(text)) and end() in allowed(grammar)


@contextmanager
def flags(**values: Any) -> Iterator[Any]:
    """A server's arguments."""
    with get_context().override_server_args(**values) as arguments:
        yield arguments


@dataclass(eq=False)
class Request:
    """What the manager and the loop read of SGLang's `Req`."""

    rid: str
    sampling_params: Any
    require_reasoning: bool = False
    origin_input_ids: list[int] = field(default_factory=list)
    output_ids: list[int] = field(default_factory=list)
    grammar: Any = None
    grammar_key: Any = None
    grammar_wait_ct: int = 0
    to_finish: Any = None
    error: str | None = None

    def finished(self) -> bool:
        return self.error is not None or self.to_finish is not None or end() in self.output_ids[-1:]

    def set_finish_with_abort(self, message: str) -> None:
        self.error = message


def request(rid: str, *, require_reasoning: bool = False, custom_params: Any = None, **wanted: str) -> Request:
    names = ("json_schema", "regex", "ebnf", "structural_tag")
    params = SimpleNamespace(
        **{name: wanted.get(name) for name in names}, ebnf_full_assistant=False, custom_params=custom_params
    )
    return Request(rid, params, require_reasoning)


def manager(think_end_ids: list[int] | None = None) -> Any:
    """SGLang's manager for the server whose flags are set."""
    alone = SimpleNamespace(world_size=1, first_rank=0, is_first_rank=True)
    model = SimpleNamespace(vocab_size=WIDTH, hf_eos_token_id={end()}, think_end_ids=think_end_ids)
    scheduler = SimpleNamespace(
        server_args=get_context().server_args,
        tokenizer=tokenizer(),
        model_config=model,
        dp_tp_cpu_group=None,
        dp_tp_group=alone,
        pp_group=None,
    )
    with get_parallel().override(pp_rank=0, pp_size=1):
        return GrammarManager(scheduler)


def submit(manager: Any, requests: Sequence[Request]) -> None:
    """Give the manager these requests, and wait until it has compiled what they ask for."""
    waiting = sum(manager.process_req_with_grammar(request) for request in requests)
    while waiting:
        waiting -= len(manager.get_ready_grammar_requests())


def mask_of(grammars: Sequence[Any]) -> Any:
    """SGLang's mask of a batch, on the device: `GrammarMask`. None for a free row."""
    batch = object.__new__(SamplingBatchInfo)
    batch.temperatures = torch.ones(len(grammars), 1)
    batch.vocab_size = WIDTH
    batch.device = "cpu"
    batch.grammars = list(grammars)
    batch.update_regex_vocab_mask()
    return batch.grammar_mask


def take_in(request: Request, tokens: int | list[int]) -> list[int]:
    """What SGLang does with sampled tokens; those that it keeps."""
    kept: list[int] = SchedulerBatchResultProcessor._accept_grammar_tokens(
        object.__new__(SchedulerBatchResultProcessor), request, tokens
    )
    request.output_ids += kept
    request.grammar.finished = request.finished()
    return kept


def draft_masks(requests: Sequence[Request], trees: Sequence[Sequence[tuple[int, int, int]]]) -> Any:
    """SGLang's masks over trees of drafts. A tree is a list of (token, index of the first child, of the next sibling), -1 for none; its root is the
    token that was sampled last."""
    columns = [torch.tensor([[node[at] for node in tree] for tree in trees]) for at in (1, 2, 0)]
    mask, _ = spec_utils.generate_token_bitmask(list(requests), *columns, WIDTH)
    return mask
