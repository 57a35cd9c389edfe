"""Most tests here run twice: with narrows' classes, and with xgrammar itself where it is installed (make test-transformers). So it is
xgrammar that says what is right, not we."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import narrows.compat.xgrammar as ours

TOKENS = ["<pad>", "</s>", "a", "b", "ab", "{", "}", "<tool>", '"', ":", " ", ",", "1", "", "é"]
STOP = 1


BOTH = ["narrows", "xgrammar"] if find_spec("xgrammar") else ["narrows"]


@pytest.fixture(params=BOTH)
def xgr(request: pytest.FixtureRequest) -> ModuleType:
    return ours if request.param == "narrows" else import_module("xgrammar")


@pytest.fixture
def info(xgr: Any) -> Any:
    return xgr.TokenizerInfo(TOKENS, stop_token_ids=STOP)


@pytest.fixture
def compiler(xgr: Any, info: Any) -> Any:
    return xgr.GrammarCompiler(info)


class Sequence:
    """A matcher with a bitmask of its own."""

    def __init__(self, xgr: Any, compiled: Any, **options: Any) -> None:
        self.size = compiled.tokenizer_info.vocab_size
        self.matcher = xgr.GrammarMatcher(compiled, **options)
        self.row = np.zeros((1, (self.size + 31) // 32), np.int32)

    def allowed(self) -> list[int]:
        self.matcher.fill_next_token_bitmask(self.row)
        bits = np.unpackbits(self.row.view(np.uint8), bitorder="little")[: self.size]
        return np.flatnonzero(bits).tolist()

    def accept(self, *tokens: int) -> list[bool]:
        return [self.matcher.accept_token(token) for token in tokens]


@pytest.fixture
def sequence(xgr: Any, compiler: Any) -> Any:
    """Makes a sequence from a regular expression, or from something compiled."""

    def make(source: Any, **options: Any) -> Sequence:
        return Sequence(xgr, compiler.compile_regex(source) if isinstance(source, str) else source, **options)

    return make
