"""The masks on a GPU are those on the CPU, and `generate` there writes what they allow. Needs no model: the weights are
random."""

from __future__ import annotations

from typing import Any

import device_constraints
import pytest

from narrows import Constraint
from narrows.plugins import transformers as plugin

torch = pytest.importorskip("torch", reason="make test-transformers installs torch and transformers")
transformers = pytest.importorskip("transformers")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

SIZE = 1_000
END = SIZE - 1
WAYS = [
    {},
    {"do_sample": True},
    {"do_sample": True, "top_p": 0.9, "num_return_sequences": 3},
    {"num_beams": 4, "num_return_sequences": 3},
    {"num_beams": 3, "do_sample": True},
    {"prompt_lookup_num_tokens": 4},
]


@pytest.fixture(scope="module")
def constraints() -> list[Constraint | None]:
    return device_constraints.constraints(SIZE)


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=SIZE + 24, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        bos_token_id=None, eos_token_id=END, pad_token_id=END,
    )  # fmt: skip
    return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).to("cuda").eval()


@pytest.mark.parametrize("width", [-40, -1, 0, 1, 24, 100])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_scores_are_those_of_the_cpu(constraints: list[Constraint | None], width: int, dtype: str) -> None:
    scores = torch.randn(len(constraints), SIZE + width).to(getattr(torch, dtype))
    ids = torch.randint(0, SIZE, (len(constraints), 7))
    there = plugin.LogitsProcessor(constraints)(ids.cuda(), scores.cuda())
    assert there.device.type == "cuda"
    assert there.dtype == scores.dtype
    assert torch.equal(there.cpu(), plugin.LogitsProcessor(constraints)(ids, scores))


@pytest.mark.parametrize("options", WAYS, ids=lambda options: ",".join(options) or "greedy")
def test_generate_writes_what_is_allowed(
    constraints: list[Constraint | None], model: Any, options: dict[str, Any]
) -> None:
    torch.manual_seed(1)
    given = constraints[:1] if "prompt_lookup_num_tokens" in options else constraints
    ids = torch.randint(0, 40, (len(given), 6), device="cuda")
    made = model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=40,
        logits_processor=[plugin.LogitsProcessor(given)], **{"do_sample": False, **options},
    )  # fmt: skip
    rows = made[:, ids.shape[1] :].tolist()
    each = len(rows) // len(given)
    for index, row in enumerate(rows):
        constraint = given[index // each]
        if constraint is None:
            continue
        text = row[: row.index(END) + 1] if END in row else row
        matcher = constraint.matcher()
        assert matcher.accepts(text) == len(text), text
