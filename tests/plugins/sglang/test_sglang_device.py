"""The masks that SGLang's own kernels apply on a GPU are those that torch applies on the CPU. Needs no model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import device_constraints
import pytest

from narrows import Constraint
from narrows.plugins.sglang.masking import rows

torch = pytest.importorskip("torch", reason="make test-sglang installs torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

SIZE = 5_000
END = SIZE - 1
WORDS = (SIZE + 31) // 32


@pytest.fixture(scope="module")
def constraints() -> list[Constraint | None]:
    return device_constraints.constraints(SIZE)


def filled(constraints: Sequence[Constraint | None], width: int) -> Any:
    """The mask of a batch as it is before the first token; a row without a constraint allows all."""
    mask = rows.allocate(width, len(constraints))
    for row, constraint in zip(rows.words(mask), constraints, strict=True):
        if constraint is not None:
            row[WORDS:] = 0
            constraint.matcher().fill_mask(row[:WORDS])
    return mask


@pytest.mark.parametrize("width", [SIZE, SIZE + 8, SIZE + 100])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_logits_are_those_of_the_cpu(constraints: list[Constraint | None], width: int, dtype: str) -> None:
    mask = filled(constraints, width)
    logits = torch.randn(len(constraints), width).to(getattr(torch, dtype))
    there = logits.cuda()
    rows.apply(there, rows.move(mask, there.device))
    rows.apply(logits, mask)
    assert torch.equal(there.cpu(), logits)
    assert [bool(torch.isinf(row).any()) for row in logits] == [True] * 4 + [False]


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("anew", [True, False])
def test_tokens_are_filtered_as_on_the_cpu(constraints: list[Constraint | None], allowed: bool, anew: bool) -> None:
    mask = filled(constraints, SIZE)
    there = mask.cuda()
    for one in (mask, there):
        rows.filter_tokens(one, [0, 31, 32, END], 1, is_allowed=allowed, reset_vocab_mask=anew)
    assert torch.equal(there.cpu(), mask)


def test_the_mask_is_in_pinned_memory() -> None:
    assert rows.allocate(SIZE, 2).is_pinned()
