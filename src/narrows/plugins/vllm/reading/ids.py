"""Aligns vLLM's text with its token ids: which markers in the text are special tokens, and where the last turn begins.

vLLM gives text and ids, and they do not always cover the same tokens. It holds text back for stop strings and cuts the
text there, omits the last stop token, and can omit all special tokens. So its text is taken as it is. The ids only say
where in the text a marker stands that is one token. A marker that the model wrote in ordinary tokens stays text.

Cost: a look-up and a decode per token. Memory: the text or the ids that the other side has not reached yet.
"""

from __future__ import annotations

import codecs
import threading
from collections import OrderedDict, deque
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Union

from narrows import Vocabulary
from narrows.errors import NarrowsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_KEPT = 8
_NEAR = 8
"""Most characters by which vLLM's text and narrows' may differ before a marker (a space that a tokenizer strips)."""
_TURN_TOKENS = 4
"""Most special tokens in the heading of a turn."""

Piece = Union[str, int]
"""Text without marker tokens, or the id of a marker token."""

_lock = threading.Lock()
_vocabularies: OrderedDict[int, tuple[Any, Vocabulary | None]] = OrderedDict()


def vocabulary_of(tokenizer: Any, model_config: Any = None) -> Vocabulary | None:
    """The tokenizer's vocabulary, made once and kept. None, and a line in the log, if it cannot be read. Then markers
    are recognized by their text.

    Cost: 0.1 to 0.5 s the first time. With `model_config` it is the vocabulary that structured outputs use.
    """
    key = id(tokenizer)
    with _lock:
        if key not in _vocabularies:
            _vocabularies[key] = tokenizer, _make(tokenizer, model_config)
            while len(_vocabularies) > _KEPT:
                _vocabularies.popitem(last=False)
        return _vocabularies[key][1]


def _make(tokenizer: Any, model_config: Any) -> Vocabulary | None:
    from narrows.plugins.vllm.compat import logger
    from narrows.plugins.vllm.vocabulary import of_model

    try:
        return Vocabulary.from_transformers(tokenizer) if model_config is None else of_model(tokenizer, model_config)
    except NarrowsError as error:
        logger.warning("narrows cannot read this tokenizer and recognizes markers by their text: %s", error)
        return None


@lru_cache(maxsize=_KEPT)
def names_of(vocab: Vocabulary) -> dict[int, str]:
    """Names of the special tokens by id."""
    return {token: name for name, token in vocab.special.items()}


class Alignment:
    """Finds the marker tokens in the text of one answer, from deltas of text and ids."""

    __slots__ = ("_expected", "_markers", "_missing", "_names", "_text", "_utf8", "_vocab")

    def __init__(self, vocab: Vocabulary, markers: Iterable[str]) -> None:
        self._vocab = vocab
        self._names = names_of(vocab)
        self._markers = frozenset(vocab.special[name] for name in markers if name in vocab.special)
        self._expected: deque[Piece] = deque()
        """Text and markers that the ids stand for and the text has not shown yet."""
        self._text = ""
        """Text whose ids have not arrived yet."""
        self._missing = False
        """Whether the text omits special tokens."""
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def fits(self, text: str, ids: Sequence[int]) -> bool:
        """Whether these ids can stand for this text. False if a caller has invented them."""
        with_names, without = [], []
        for token in ids:
            if not 0 <= token < self._vocab.size:
                return False
            data = self._vocab.token_bytes(token)
            with_names.append(data or self._names.get(token, "").encode())
            without.append(data)
        expected = text.encode("utf-8", "surrogatepass").lstrip()
        for pieces in (with_names, without):
            spelled = b"".join(pieces).lstrip()
            if spelled.startswith(expected) or expected.startswith(spelled):
                return True
        return "\ufffd" in text

    def add(self, text: str, ids: Sequence[int]) -> list[Piece]:
        """Add one delta. Returns the pieces that are certain now."""
        self._text += text
        run: list[str] = []
        for token in ids:
            if token in self._names:
                self._expect("".join(run) + self._utf8.decode(b"", True))
                self._expected.append(token)
                run.clear()
            elif 0 <= token < self._vocab.size:
                run.append(self._utf8.decode(self._vocab.token_bytes(token)))
        self._expect("".join(run))
        return self._settle(bool(ids))

    def end(self) -> list[Piece]:
        """End the answer. Returns the remaining text. vLLM has cut off, with a stop string, every marker that the text
        lacks."""
        pieces = self._settle(True)
        if self._text:
            pieces.append(self._text)
            self._text = ""
        return pieces

    def _expect(self, text: str) -> None:
        if not text:
            return
        if self._expected and isinstance(self._expected[-1], str):
            self._expected[-1] += text
        else:
            self._expected.append(text)

    def _settle(self, all_ids: bool) -> list[Piece]:
        pieces: list[Piece] = []
        while self._expected:
            head = self._expected[0]
            if isinstance(head, str):
                if len(self._expected) == 1:
                    self._take_shown(head, pieces)
                    break
                marker = self._expected[1]
                assert isinstance(marker, int)
                at = self._find(self._names[marker], head)
                if at < 0:
                    break
                pieces.append(self._text[:at])
                self._text = self._text[at:]
                self._expected.popleft()
            else:
                name = self._names[head]
                shown = self._text.startswith(name)
                if shown:
                    self._text = self._text[len(name) :]
                elif not self._missing:
                    if name.startswith(self._text):
                        break  # the text has not reached it yet
                    self._missing = True
                if head in self._markers:
                    pieces.append(head)
                elif shown:
                    pieces.append(name)
                self._expected.popleft()
        if self._text and not self._expected and all_ids:
            pieces.append(self._text)  # more text than the ids stand for is text
            self._text = ""
        return [piece for piece in pieces if piece != ""]

    def _take_shown(self, head: str, pieces: list[Piece]) -> None:
        """Take what vLLM has shown of text with no marker after it."""
        size = min(len(head), len(self._text))
        pieces.append(self._text[:size])
        self._text = self._text[size:]
        self._expected.popleft()
        if size < len(head):
            self._expected.append(head[size:])

    def _find(self, name: str, head: str) -> int:
        """Position of the marker that comes after `head`. Negative if the text has not reached it yet."""
        at = len(head)
        if self._text.startswith(name, at):
            return at
        if len(self._text) < at + len(name) and not self._missing and (head + name).startswith(self._text):
            return -1
        near = [i for i in range(max(0, at - _NEAR), at + _NEAR + 1) if self._text.startswith(name, i)]
        if near:
            return min(near, key=lambda i: abs(i - at))
        return min(at, len(self._text))


def prompt_end(vocab: Vocabulary, ids: Sequence[int], markers: Iterable[str]) -> str:
    """The text of a prompt from the heading of its last turn on. Cost: linear in that turn."""
    names = names_of(vocab)
    own = {vocab.special[name] for name in markers if name in vocab.special}
    begin, headings = len(ids), 0
    while begin > 0 and headings < _TURN_TOKENS:
        begin -= 1
        headings += ids[begin] in names and ids[begin] not in own
    valid = (token for token in ids[begin:] if 0 <= token < vocab.size)
    return b"".join(vocab.token_bytes(token) or names.get(token, "").encode() for token in valid).decode(
        "utf-8", "replace"
    )
