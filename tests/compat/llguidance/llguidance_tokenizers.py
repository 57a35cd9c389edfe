"""Tokenizers for these tests: a token for each byte, and real ones, in narrows' classes and in llguidance's own."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import real_tokenizers

from narrows.compat import llguidance


@functools.cache
def tokenizer_json(name: str) -> str:
    """The path of a real tokenizer.json; skips where it cannot be had."""
    pytest.importorskip("tokenizers", reason="a tokenizer.json needs tokenizers for its text")
    try:
        return str(real_tokenizers.folder(name) / "tokenizer.json")
    except real_tokenizers.UnreachableError as error:
        pytest.skip(str(error))


@functools.cache
def ours(name: str = "byte") -> llguidance.LLTokenizer:
    return llguidance.LLTokenizer(name if name == "byte" else tokenizer_json(name))


@functools.cache
def theirs(name: str = "byte") -> Any:
    """llguidance's own LLTokenizer; skips where it is not installed."""
    peer = pytest.importorskip("llguidance", reason="the peer llguidance is not installed")
    return peer.LLTokenizer(name if name == "byte" else tokenizer_json(name))


def bits(matcher: Any, size: int) -> list[int]:
    """The tokens that the mask allows."""
    mask = np.frombuffer(matcher.compute_bitmask(), np.uint8)
    return np.flatnonzero(np.unpackbits(mask, bitorder="little")[:size]).tolist()


def state(matcher: Any) -> tuple[Any, ...]:
    return matcher.is_stopped(), matcher.stop_reason(), matcher.is_accepting(), bool(matcher.get_error())


def verdict(tokenizer: Any, matcher: Any, text: str) -> str:
    """ "sentence", "beginning", "neither" or "refused"."""
    if matcher.is_error():
        return "refused"
    ids = tokenizer.tokenize_str(text)
    if matcher.try_consume_tokens(ids) < len(ids):
        return "neither"
    return "sentence" if matcher.is_accepting() else "beginning"
