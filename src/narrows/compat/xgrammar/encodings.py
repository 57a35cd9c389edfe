"""How tokens are written in a vocabulary, and what is found out about a tokenizer.

xgrammar knows three ways to write tokens: as they are, with `<0x0A>` for bytes and `▁` for a space (SentencePiece), and
in the byte-level alphabet (GPT-2). Every token is the text that its bytes are, control tokens too. Only stop tokens and
tokens without bytes are no text.

Cost: about 0.3 us for each token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from narrows.vocabulary.loaders import byte_level, decoders

STOP_NAMES = frozenset(
    {
        "</s>",
        "<|end_of_text|>",
        "<|eot_id|>",
        "<|endoftext|>",
        "<eos>",
        "<|eos|>",
        "<end_of_turn>",
        "<｜end▁of▁sentence｜>",
    }
)
"""Tokens that end a text if nobody says which do. xgrammar 0.2.8 looks for the same ones."""


class VocabType(Enum):
    """How the tokens of a vocabulary are written."""

    RAW = 0
    """As they are: tiktoken's vocabularies."""
    BYTE_FALLBACK = 1
    """`<0x0A>` is a byte, `▁` a space: SentencePiece's vocabularies, such as Llama 2's."""
    BYTE_LEVEL = 2
    """Each byte is a letter of an alphabet, such as `Ġ` for a space: GPT-2's, Llama 3's, Qwen's."""


def decoded(token: str | bytes, kind: VocabType) -> bytes:
    """The bytes that a token adds to a text."""
    data = token if isinstance(token, bytes) else token.encode("utf-8", "surrogatepass")
    if kind is VocabType.RAW:
        return data
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data
    if kind is VocabType.BYTE_LEVEL:
        return byte_level.decode(text)
    return decoders.byte_fallback(text.replace("▁", " "))


def stop_tokens(tokens: Sequence[bytes]) -> list[int]:
    """The tokens that end a text, by their names."""
    names = {name.encode() for name in STOP_NAMES}
    return [token for token, data in enumerate(tokens) if data in names]


def metadata_of(tokenizer: Mapping[str, Any]) -> tuple[VocabType, bool]:
    """(how tokens are written, whether a space is put before a text) of a `tokenizer.json`. A vocabulary without a
    decoder of bytes is RAW."""
    kinds = {step.get("type") for step in _steps(tokenizer.get("decoder"), "decoders")}
    kind = VocabType.RAW
    if "ByteLevel" in kinds:
        kind = VocabType.BYTE_LEVEL
    elif "ByteFallback" in kinds:
        kind = VocabType.BYTE_FALLBACK
    prepends = any(
        step.get("type") == "Prepend" and step.get("prepend") == "▁"
        for step in _steps(tokenizer.get("normalizer"), "normalizers")
    )
    metaspaces = any(
        step.get("type") == "Metaspace" and step.get("prepend_scheme") in ("always", "first")
        for step in _steps(tokenizer.get("pre_tokenizer"), "pretokenizers")
    )
    return kind, prepends or metaspaces


def _steps(section: Any, inner: str) -> list[Mapping[str, Any]]:
    """The steps of a section, with sequences opened."""
    steps: list[Mapping[str, Any]] = []
    todo = [section]
    while todo:
        step = todo.pop()
        if isinstance(step, Mapping):
            below = step.get(inner)
            if isinstance(below, list):
                todo += below
            else:
                steps.append(step)
    return steps
