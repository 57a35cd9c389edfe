"""Token ids beside the text: which markers in vLLM's text are special tokens, and where a prompt's last turn begins.

vLLM hands out both, text and ids, and they do not always cover the same: it holds text back for stop strings and cuts
it there, leaves the last stop token out, and can leave out all special tokens. So its text is taken as it is, and the
ids say only where in it a marker stands that came as one token. A marker that the model spelled in ordinary tokens
stays text.

Cost: a look-up and a decode per token; what waits is the text or the ids that the other side has not caught up with.
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
"""How many characters vLLM's text and ours may drift apart before a marker (a space that a tokenizer strips)."""
_TURN_TOKENS = 4
"""A turn's heading holds at most so many special tokens."""

Piece = Union[str, int]
"""Text without markers that are tokens, or such a marker's id."""

_lock = threading.Lock()
_made: OrderedDict[int, tuple[Any, Vocabulary | None]] = OrderedDict()


def vocabulary_of(tokenizer: Any, model_config: Any = None) -> Vocabulary | None:
    """The tokenizer's vocabulary, made once and kept; None, and a line in the log, where it cannot be read: then text
    decides.

    Cost: 0.1 to 0.5 s the first time. With the model's configuration it is the one that structured outputs use.
    """
    key = id(tokenizer)
    with _lock:
        if key not in _made:
            _made[key] = tokenizer, _make(tokenizer, model_config)
            while len(_made) > _KEPT:
                _made.popitem(last=False)
        return _made[key][1]


def _make(tokenizer: Any, model_config: Any) -> Vocabulary | None:
    from narrows.plugins.vllm.compat import logger
    from narrows.plugins.vllm.vocabulary import of_model

    try:
        return Vocabulary.from_transformers(tokenizer) if model_config is None else of_model(tokenizer, model_config)
    except NarrowsError as error:
        logger.warning("narrows cannot read this tokenizer, and goes by the text of markers: %s", error)
        return None


@lru_cache(maxsize=_KEPT)
def names_of(vocab: Vocabulary) -> dict[int, str]:
    """Special tokens' names by id."""
    return {token: name for name, token in vocab.special.items()}


class Alignment:
    """The text of one answer with the markers in it that are tokens, from deltas of text and ids."""

    __slots__ = ("_expected", "_markers", "_missing", "_names", "_text", "_utf8", "_vocab")

    def __init__(self, vocab: Vocabulary, markers: Iterable[str]) -> None:
        self._vocab = vocab
        self._names = names_of(vocab)
        self._markers = frozenset(vocab.special[name] for name in markers if name in vocab.special)
        self._expected: deque[Piece] = deque()
        """What the ids stand for and the text has not shown yet."""
        self._text = ""
        """Text that no id accounts for yet."""
        self._missing = False
        """The text leaves special tokens out."""
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def fits(self, text: str, ids: Sequence[int]) -> bool:
        """Whether these ids can stand for this text: False where a caller has made them up."""
        with_names, without = [], []
        for token in ids:
            if not 0 <= token < self._vocab.size:
                return False
            data = self._vocab.token_bytes(token)
            with_names.append(data or self._names.get(token, "").encode())
            without.append(data)
        wanted = text.encode("utf-8", "surrogatepass").lstrip()
        for pieces in (with_names, without):
            spelled = b"".join(pieces).lstrip()
            if spelled.startswith(wanted) or wanted.startswith(spelled):
                return True
        return "\ufffd" in text

    def add(self, text: str, ids: Sequence[int]) -> list[Piece]:
        """One delta. Returns what is certain now."""
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
        """The answer is over. A marker that the text should hold and does not was cut off by vLLM, with a stop
        string."""
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
                        break  # the text does not go so far yet
                    self._missing = True
                if head in self._markers:
                    pieces.append(head)
                elif shown:
                    pieces.append(name)
                self._expected.popleft()
        if self._text and not self._expected and all_ids:
            pieces.append(self._text)  # more than the ids stand for: it is text in any case
            self._text = ""
        return [piece for piece in pieces if piece != ""]

    def _take_shown(self, head: str, pieces: list[Piece]) -> None:
        """Text with no marker after it: what vLLM shows of it."""
        size = min(len(head), len(self._text))
        pieces.append(self._text[:size])
        self._text = self._text[size:]
        self._expected.popleft()
        if size < len(head):
            self._expected.append(head[size:])

    def _find(self, name: str, head: str) -> int:
        """Where the marker stands that comes after `head`; negative: the text does not go so far yet."""
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
    """The text of a prompt from its last turn's heading on. Linear in that turn, whatever came before it."""
    names = names_of(vocab)
    own = {vocab.special[name] for name in markers if name in vocab.special}
    begin, headings = len(ids), 0
    while begin > 0 and headings < _TURN_TOKENS:
        begin -= 1
        headings += ids[begin] in names and ids[begin] not in own
    known = (token for token in ids[begin:] if 0 <= token < vocab.size)
    return b"".join(vocab.token_bytes(token) or names.get(token, "").encode() for token in known).decode(
        "utf-8", "replace"
    )
