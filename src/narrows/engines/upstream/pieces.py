"""From what an upstream writes to token ids: the one form that constraints, parsers and stop texts read.

Where an upstream gives ids, they are taken. What it gives as text alone becomes ids that spell the same bytes; the
names of special tokens in it become those tokens, since such an upstream writes them so. Cost: linear in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from narrows.decoding.sampling import TokenLogprob
from narrows.errors import EngineError
from narrows.vocabulary.vocabulary import Vocabulary

Finish = Literal["stop", "length"]


@dataclass(slots=True)
class Piece:
    """The news of one event."""

    tokens: Sequence[int] = ()
    logprobs: Sequence[TokenLogprob | None] = field(default_factory=tuple)
    """One for each token, where they were asked for."""
    finish: Finish | None = None
    cached_tokens: int = 0


class TextTokens:
    """Reads text without ids. Holds back what may be the beginning of a special token's name."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._special = vocabulary.special
        self._firsts: dict[str, list[str]] = {}
        for name in sorted(self._special, key=len, reverse=True):
            if name:
                self._firsts.setdefault(name[0], []).append(name)
        self._held = ""

    def feed(self, text: str, *, last: bool = False) -> list[int]:
        """The ids of the text that is decided; of all of it, where nothing follows."""
        text, self._held = self._held + text, ""
        ids: list[int] = []
        start = at = 0
        while at < len(text):
            names = self._firsts.get(text[at], ())
            left = len(text) - at
            if not last and any(len(name) > left and name.startswith(text[at:]) for name in names):
                self._held = text[at:]  # a longer name may still come
                break
            name = next((name for name in names if text.startswith(name, at)), None)
            if name is None:
                at += 1
                continue
            ids += [*spelled(self._vocabulary, text[start:at].encode()), self._special[name]]
            start = at = at + len(name)
        return ids + spelled(self._vocabulary, text[start:at].encode())


def spelled(vocabulary: Vocabulary, data: bytes) -> list[int]:
    """Ids of tokens with these bytes. Raises EngineError `upstream_text_unknown` where no tokens have them."""
    if not data:
        return []
    ids = vocabulary.spell(data)
    if ids is None:
        raise EngineError(
            f"no tokens of the vocabulary spell what the upstream wrote: {data[:40]!r}",
            code="upstream_text_unknown",
            hint="Is --tokenizer the tokenizer of the upstream's model?",
        )
    return ids


def with_lost(vocabulary: Vocabulary, content: str, tokens: Sequence[int]) -> list[int]:
    """The ids of an event whose text may have more than its ids: llama.cpp sends a character that several tokens spell
    with the last of them. The others are spelled again."""
    data = content.encode("utf-8", "replace")
    own = b"".join(map(vocabulary.token_bytes, tokens))
    if data == own:
        return list(tokens)
    if data.endswith(own):
        return [*spelled(vocabulary, data[: len(data) - len(own)]), *tokens]
    return spelled(vocabulary, data)
