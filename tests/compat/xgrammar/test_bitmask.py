"""Bitmasks are applied to scores as xgrammar applies them, on each kind of memory."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import narrows.compat.xgrammar as ours


def test_shapes(xgr: Any) -> None:
    for size in (0, 1, 32, 33, 151_936):
        assert xgr.get_bitmask_shape(3, size) == (3, (size + 31) // 32)


def test_importing_needs_numpy_alone() -> None:
    code = """
import sys
for name in ("torch", "transformers", "pydantic"): sys.modules[name] = None
import narrows.compat.xgrammar as xgr, numpy
info = xgr.TokenizerInfo(["a", "</s>"])
row = numpy.full(xgr.get_bitmask_shape(1, 2), -1, numpy.int32)
xgr.GrammarMatcher(xgr.GrammarCompiler(info).compile_regex("a")).fill_next_token_bitmask(row)
xgr.reset_token_bitmask(row)
assert row.tolist() == [[-1]]
try:
    xgr.allocate_token_bitmask(1, 2)
except xgr.CompatError as error:
    assert error.code == "torch_missing"
for name in ("testing", "contrib"): getattr(xgr, name)
for name in ("StructuralTag", "hf"):
    try:
        getattr(xgr, name)
    except ImportError:
        continue
    raise AssertionError(name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_importing_narrows_leaves_out() -> None:
    code = "import narrows, sys; assert not [name for name in sys.modules if name.startswith('narrows.compat')]"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_any_array_that_shares_its_memory(sequence: Any) -> None:
    class Shared:
        def __init__(self) -> None:
            self.array = np.zeros((1, 1), np.int32)

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    shared = Shared()
    try:
        sequence("a(b|ab)*").matcher.fill_next_token_bitmask(shared)
    except RuntimeError as error:  # numpy before 2.1 gives arrays that cannot be written
        pytest.skip(f"this numpy does not share writable memory: {error}")
    assert shared.array.tolist() == [[20]]


def masked(xgr: Any, logits: Any, bitmask: Any, **options: Any) -> list[Any]:
    logits = logits.clone()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        xgr.apply_token_bitmask_inplace(logits, bitmask, **options)
    kept = logits.isinf().logical_not()
    assert (logits[kept] == 1).all()
    return kept.int().tolist()


ROWS = [[5], [2], [0]]
KEPT = [[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
FREE = [1, 1, 1, 1]


@pytest.mark.parametrize("backend", ["auto", "cpu", "torch_native"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_rows_of_scores(xgr: Any, dtype: str, backend: str) -> None:
    torch = pytest.importorskip("torch", reason="make test-transformers installs torch")
    bitmask = torch.tensor(ROWS, dtype=torch.int32)
    logits = torch.ones(3, 4, dtype=getattr(torch, dtype))
    assert masked(xgr, logits, bitmask, backend=backend) == KEPT
    assert masked(xgr, logits, bitmask, backend=backend, indices=[2, 0]) == [KEPT[0], FREE, KEPT[2]]
    assert masked(xgr, logits, bitmask[:2], backend=backend, indices=[1]) == [FREE, KEPT[1], FREE]
    assert masked(xgr, logits, bitmask, backend=backend, vocab_size=2) == [[1, 0, 1, 1], [0, 1, 1, 1], [0, 0, 1, 1]]
    if backend != "torch_native":
        assert masked(xgr, logits[0], bitmask[0], backend=backend) == KEPT[0]
        assert masked(xgr, logits, bitmask, backend=backend, indices=[]) == [FREE] * 3


def test_scores_without_bits(xgr: Any) -> None:
    torch = pytest.importorskip("torch", reason="make test-transformers installs torch")
    logits, bitmask = torch.ones(1, 40), torch.tensor([[5]], dtype=torch.int32)
    with pytest.warns(UserWarning, match="40"):
        xgr.apply_token_bitmask_inplace(logits, bitmask)
    assert logits.isinf().logical_not().flatten().nonzero().flatten().tolist() == [0, 2, *range(32, 40)]


def test_random_rows(xgr: Any) -> None:
    torch = pytest.importorskip("torch", reason="make test-transformers installs torch")
    torch.manual_seed(3)
    allowed = torch.rand(5, 1000) < 0.3
    bitmask = xgr.testing.bool_mask_to_bitmask(allowed)
    assert masked(xgr, torch.ones(5, 1000), bitmask) == allowed.int().tolist()
    assert xgr.testing.bitmask_to_bool_mask(bitmask, 1000).tolist() == allowed.tolist()
    refused = xgr.testing._get_masked_tokens_from_bitmask(bitmask, 1000, 3)
    assert refused == (~allowed[3]).nonzero().flatten().tolist()
    assert xgr.testing._is_single_token_bitmask(bitmask, 1000) == (False, -1)
    assert xgr.testing._is_single_token_bitmask(torch.tensor([[4]], dtype=torch.int32), 3) == (True, 2)


def test_what_cannot_be_applied(xgr: Any) -> None:
    torch = pytest.importorskip("torch", reason="make test-transformers installs torch")
    logits, bitmask = torch.ones(3, 4), torch.tensor(ROWS, dtype=torch.int32)
    for wrong in (
        lambda: xgr.apply_token_bitmask_inplace(logits[:2], bitmask),
        lambda: xgr.apply_token_bitmask_inplace(logits, bitmask, indices=[3]),
        lambda: xgr.apply_token_bitmask_inplace(logits, bitmask, vocab_size=5),
        lambda: xgr.apply_token_bitmask_inplace(logits, bitmask.long()),
        lambda: xgr.apply_token_bitmask_inplace(logits[None], bitmask),
        lambda: xgr.apply_token_bitmask_inplace(logits, bitmask, backend="x"),
        lambda: xgr.apply_token_bitmask_inplace(logits, bitmask.to("meta")),
    ):
        with pytest.raises((ValueError, RuntimeError)):
            wrong()
    assert (logits == 1).all()


def test_scores_that_lie_across() -> None:
    """xgrammar 0.2.8 masks the wrong scores here."""
    torch = pytest.importorskip("torch", reason="make test-transformers installs torch")
    logits = torch.ones(4, 3).T
    ours.apply_token_bitmask_inplace(logits, torch.tensor(ROWS, dtype=torch.int32))
    assert logits.isinf().logical_not().int().tolist() == KEPT


@pytest.mark.parametrize("indices", [None, [0, 2]])
def test_scores_on_another_device(indices: Any) -> None:
    torch = pytest.importorskip("torch", reason="make test-transformers installs torch")
    if not torch.cuda.is_available():
        pytest.skip("this needs a GPU")
    torch.manual_seed(4)
    bitmask = torch.randint(-(2**31), 2**31, (4, 40), dtype=torch.int64).to(torch.int32)
    logits = torch.randn(4, 1275)
    there = logits.cuda()
    ours.apply_token_bitmask_inplace(there, bitmask.cuda(), indices=indices)
    ours.apply_token_bitmask_inplace(logits, bitmask, indices=indices)
    assert torch.equal(there.cpu(), logits)


def test_the_bits_of_another_device_are_those_of_the_cpu() -> None:
    """The path of other devices, on the CPU."""
    torch = pytest.importorskip("torch", reason="make test-transformers installs torch")
    from narrows.compat.xgrammar.bitmask import refused_bits

    torch.manual_seed(5)
    words = torch.randint(-(2**31), 2**31, (4, 40), dtype=torch.int64).to(torch.int32)
    for width in (1, 31, 32, 33, 1280):
        assert torch.equal(refused_bits(words, width, by_numpy=True), refused_bits(words, width, by_numpy=False))


def test_a_tensor_as_bitmask(sequence: Any) -> None:
    torch = pytest.importorskip("torch", reason="make test-transformers installs torch")
    at = sequence("a(b|ab)*")
    rows = torch.full((3, 1), -1, dtype=torch.int32)
    at.matcher.fill_next_token_bitmask(rows, 1)
    assert rows.tolist() == [[-1], [20], [-1]]
    single = torch.zeros(1, dtype=torch.int32)
    at.matcher.fill_next_token_bitmask(single)
    assert single.tolist() == [20]
    with pytest.raises((RuntimeError, TypeError)):
        at.matcher.fill_next_token_bitmask(torch.zeros(1, 1, dtype=torch.int32, device="meta"))


def test_rows_of_a_wider_tensor() -> None:
    """xgrammar 0.2.8 writes to another place here."""
    torch = pytest.importorskip("torch", reason="make test-transformers installs torch")
    matcher = ours.testing._get_matcher_from_grammar_and_tokenizer_info(
        'root ::= "a"', ours.TokenizerInfo(["a", "</s>"])
    )
    rows = torch.full((3, 4), -1, dtype=torch.int32)
    matcher.fill_next_token_bitmask(rows[:, ::4], 1)
    assert rows.tolist() == [[-1] * 4, [1, -1, -1, -1], [-1] * 4]
