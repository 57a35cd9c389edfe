"""`LLTokenizer`: the tokens of a model, and its tokenizer. Making one costs about a second for 128,000 tokens.

It keeps the grammars that were compiled for it (narrows.compile_cache), so that a second matcher of one grammar costs
microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

from narrows.arguments import TEXT
from narrows.compat.llguidance import encoders, misuse, slices, vocabularies
from narrows.compat.llguidance.forced import chopped
from narrows.compat.llguidance.reading import Compiled
from narrows.compat.llguidance.token_table import TokenTable
from narrows.compat.llguidance.vocabularies import Tokens
from narrows.compat.llguidance.wrapper import TokenizerWrapper
from narrows.compile_cache import CompileCache
from narrows.vocabulary.vocabulary import Vocabulary


class LLTokenizer:
    """tokenizer: the path of a tokenizer.json, its text (which begins with `{`), "byte", or a `TokenizerWrapper`.

    n_vocab: the width of the masks, if it exceeds the tokenizer's. eos_token: an id or several. slices: hints for
    llguidance's engine, without effect here.

    Raises VocabularyError and InputError, both ValueErrors.
    """

    def __init__(
        self,
        tokenizer: str | PathLike[str] | TokenizerWrapper,
        n_vocab: int | None = None,
        eos_token: int | Sequence[int] | None = None,
        slices: Sequence[str] | None = None,
    ) -> None:
        _check_slices(slices)
        ends = vocabularies.end_tokens(eos_token)
        if tokenizer == "byte":
            tokens = vocabularies.of_bytes()
        elif isinstance(tokenizer, (str, PathLike)):
            tokens = vocabularies.of_text_or_path(tokenizer, n_vocab, ends)
        else:
            tokens = vocabularies.of_wrapper(tokenizer, n_vocab, ends)
        self._take(tokens)

    @classmethod
    def _of(cls, tokens: Tokens) -> LLTokenizer:
        made = cls.__new__(cls)
        made._take(tokens)
        return made

    def _take(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._cache: CompileCache[Any, Compiled] = CompileCache(lambda compiled: compiled.constraint.bytes)

    @classmethod
    def _of_raw(
        cls,
        raw: Sequence[bytes],
        eos_token: int | Sequence[int],
        encode: Callable[[str], Sequence[int]],
        n_vocab: int | None = None,
        slices: Sequence[str] | None = None,
    ) -> LLTokenizer:
        """`raw`: the tokens by id, special ones after the byte 0xFF."""
        _check_slices(slices)
        return cls._of(
            vocabularies.of_raw(raw, vocabularies.end_tokens(eos_token) or [], encode, n_vocab, is_canonical=True)
        )

    def with_slices(self, slices: Sequence[str]) -> LLTokenizer:
        """The same tokenizer: slices have no effect here."""
        _check_slices(slices)
        made = LLTokenizer._of(self._tokens)
        made._cache = self._cache
        return made

    @staticmethod
    def general_slices() -> list[str]:
        """llguidance's slices for any text. narrows needs none."""
        return list(slices.GENERAL)

    @staticmethod
    def json_slices() -> list[str]:
        """llguidance's slices for JSON. narrows needs none."""
        return list(slices.JSON)

    @property
    def vocab_size(self) -> int:
        """The width of the masks."""
        return len(self._table)

    @property
    def eos_token(self) -> int:
        """The first end token."""
        return self._table.eos[0]

    @property
    def eos_tokens(self) -> list[int]:
        """All end tokens."""
        return list(self._table.eos)

    @property
    def is_canonical(self) -> bool:
        """Whether text becomes the tokens that the model's tokenizer writes. If not, nothing is forced as tokens. A
        tokenizer.json needs the package `tokenizers` for it."""
        return self._tokens.is_canonical

    @property
    def vocabulary(self) -> Vocabulary:
        """narrows' vocabulary, which has no end tokens. Not in llguidance."""
        return self._tokens.vocabulary

    def greedy_tokenize(self, text: str) -> list[int]:
        """The longest token at each place."""
        return self._table.greedy(_bytes("text", text))

    def tokenize_bytes(self, utf8bytes: bytes, *, parse_special: bool = False) -> list[int]:
        """The tokenizer's ids. Bytes that are no UTF-8 get the longest tokens that fit."""
        if not isinstance(utf8bytes, (bytes, bytearray)):
            raise misuse.wrong_type("utf8bytes", "bytes", utf8bytes)
        encode = encoders.encode_special if parse_special else encoders.encode_bytes
        return encode(bytes(utf8bytes), self._tokens.encode, self._table)

    def tokenize_str(self, text: str, *, parse_special: bool = False) -> list[int]:
        """The tokenizer's ids. parse_special: `<name>` is the special token of this name, if there is one."""
        return self.tokenize_bytes(_bytes("text", text), parse_special=parse_special)

    def tokenize_partial(self, new_bytes: bytes, recent_tokens: Sequence[int] | None = None) -> tuple[list[int], bytes]:
        """The ids of the beginning of these bytes that no longer text changes, and the bytes after it.

        recent_tokens: what stands before them; the last one counts.
        """
        if not isinstance(new_bytes, (bytes, bytearray)):
            raise misuse.wrong_type("new_bytes", "bytes", new_bytes)
        if not new_bytes:
            return [], b""
        recent = misuse.token_ids("recent_tokens", recent_tokens or [])[-1:]
        table = self._table
        data = table.raw(recent) + bytes(new_bytes)
        ids, fixed = encoders.encode_marked(data, self._tokens.encode, table)
        if ids[: len(recent)] != recent:
            data, recent = bytes(new_bytes), []
            ids, fixed = encoders.encode_marked(data, self._tokens.encode, table)
        fixed = max(fixed, len(recent))
        cut, length = chopped(table, ids[fixed:], lambda rest: next(table.extensions(rest), None) is not None)
        return ids[len(recent) : len(ids) - cut], data[len(data) - length :]

    def is_special_token(self, token: int) -> bool:
        """Whether the id is that of a special token."""
        return encoders.is_special_id(misuse.count("token", token), self._table)

    def dbg_tokens(self, tokens: Sequence[int]) -> str:
        """The tokens for people, between brackets."""
        return f"⟦{self._table.debug(misuse.token_ids('tokens', tokens))}⟧"

    def test_trace_tokens(self, tokens: Sequence[int]) -> str:
        """The tokens for people, with line breaks as they are."""
        return self._table.debug(misuse.token_ids("tokens", tokens)).replace("\\n", "\n")

    def decode_str(self, tokens: Sequence[int]) -> str:
        """The text; bytes that are no UTF-8 become U+FFFD."""
        return self.decode_bytes(tokens).decode("utf-8", "replace")

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """The text; special tokens are their names."""
        return self._table.decoded(misuse.token_ids("tokens", tokens))

    @property
    def _table(self) -> TokenTable:
        return self._tokens.table

    def __repr__(self) -> str:
        return f"<narrows.compat.llguidance.LLTokenizer of {self.vocab_size} tokens>"


def _bytes(name: str, text: object) -> bytes:
    if not TEXT.fits(text):
        raise misuse.wrong_type(name, "a str", text)
    return str(text).encode("utf-8", "surrogatepass")


def _check_slices(given: object) -> None:
    if given is not None and not (isinstance(given, (list, tuple)) and all(isinstance(item, str) for item in given)):
        raise misuse.wrong_type("slices", "a list of str", given)
