"""The invariant of every vocabulary: any ids, decoded without skipping special tokens, give the joined bytes (special tokens: names)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from narrows.vocabulary.loaders.data import VocabularyData


def spelled(vocabulary: VocabularyData) -> list[bytes | None]:
    """The bytes of each id as a decoder shows it: special tokens by name."""
    shown = list(vocabulary.tokens)
    for name, i in vocabulary.special.items():
        shown[i] = name.encode()
    return shown


def check(
    vocabulary: VocabularyData, decode: Callable[[list[int]], str], before: Sequence[int], ids: Sequence[int]
) -> None:
    """`before` holds ids that start the text, because a tokenizer may strip a blank there; their own decoding is not judged."""
    shown = spelled(vocabulary)
    head = decode(list(before)).encode()
    raw = b"".join(piece for i in ids if (piece := shown[i]) is not None)
    assert decode([*before, *ids]) == (head + raw).decode("utf-8", "replace")
