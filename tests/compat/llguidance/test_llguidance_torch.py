"""Masks in torch tensors, against those in numpy arrays."""

from __future__ import annotations

import subprocess
import sys

import pytest
from llguidance_tokenizers import bits, ours

from narrows.compat.llguidance import LLExecutor, LLMatcher


def test_nothing_but_the_submodule_imports_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; from narrows.compat.llguidance import numpy, hf, tiktoken"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_narrows_imports_none_of_it() -> None:
    code = "import sys, narrows; assert not [name for name in sys.modules if name.startswith('narrows.compat')]"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_masks() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from narrows.compat.llguidance import torch as masks

    tokenizer, executor = ours(), LLExecutor()
    matchers = [LLMatcher(tokenizer, f"start: /[{kind}]+/") for kind in ("a-z", "0-9")]
    rows = masks.allocate_token_bitmask(4, tokenizer.vocab_size)
    assert tuple(rows.shape) == masks.get_bitmask_shape(4, tokenizer.vocab_size)
    masks.fill_next_token_bitmask_par(executor, [(matchers[0], 3), (matchers[1], 1)], rows)
    masks.fill_next_token_bitmask(matchers[1], rows, 0)
    masks.fill_next_token_bitmask_par_with_draft_tokens(executor, [(matchers[0], 2, [97])], rows)
    logits = torch.zeros(4, 300)
    masks.apply_token_bitmask_inplace(logits, rows)
    for row, matcher in ((0, matchers[1]), (1, matchers[1]), (2, matchers[0])):
        assert torch.isfinite(logits[row]).nonzero().flatten().tolist() == bits(matcher, 262)
    assert masks.consume_token_par(executor, [(matchers[0], 97), (matchers[1], 97)]) == [True, False]
    assert torch.isfinite(logits[3]).nonzero().flatten().tolist() == bits(matchers[0], 262)
    one = torch.zeros(262, dtype=torch.float64)
    masks.apply_token_bitmask_inplace(one, rows[1])
    assert int(torch.isfinite(one).sum()) == 10
