"""A tokenizer's vocabulary as byte strings, and the trie from which masks are computed.

Cost: about 0.2 s for 128,000 tokens, once per process, with what nearly every JSON schema needs (ahead.py). A
vocabulary does not change for its users, and threads may share it. All constraints compiled for it share computed
automaton states (bounded by `Limits.vocabulary_bytes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from narrows._core import Constraint as CoreConstraint
from narrows._core import Vocabulary as CoreVocabulary
from narrows.arguments import (
    INTEGER,
    ITERABLE,
    LIST,
    MAPPING,
    Kind,
    file_path,
    integer,
    of,
    optional,
    quoted,
    wants,
)
from narrows.constraint import Constraint
from narrows.errors import GrammarError, InputError, LimitError, TokenError, VocabularyError
from narrows.grammar import ir
from narrows.grammar.flatten import TokenFacts, flatten, is_flat
from narrows.grammar.fuse import children
from narrows.limits import DEFAULT_LIMITS, LIMITS, Limits
from narrows.vocabulary import ahead

if TYPE_CHECKING:
    from narrows.grammar.grammar import Grammar
    from narrows.vocabulary.loaders.data import EndTokens, VocabularyData

_MOST_PLACED = 16
_GOOD_PART = 8
_ARRAYS = Kind("what narrows.grammar.flatten.flatten returns", is_flat)


class Vocabulary:
    """Token bytes by id, special tokens by name, and the tokens that end a text.

    `tokens` has one byte string per id, or None for an unused id. `special` maps names to ids. A special token has no
    bytes, so that no text can contain it: a grammar can only use its name. `eos` are the end tokens. `size` is the
    width of the logits if that exceeds `len(tokens)`: the further ids are never allowed. Raises `VocabularyError` and
    `LimitError` (`vocabulary_tokens`, `token_bytes`).

    Immutable for its users, and shared by threads. Cost: about 0.2 s for 128,000 tokens, once.
    """

    def __init__(
        self,
        tokens: Sequence[bytes | None],
        special: Mapping[str, int] | None = None,
        eos: Iterable[int] | int = (),
        size: int | None = None,
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        wants(LIST, tokens=tokens)
        wants(optional(MAPPING), special=special)
        wants(optional(INTEGER), size=size)
        wants(LIMITS, limits=limits)
        self._special = MappingProxyType({_name(name): integer("special", i) for name, i in (special or {}).items()})
        self._eos = _end_tokens(eos)
        width = len(tokens) if size is None else size
        if width < len(tokens):
            raise VocabularyError(f"size is {quoted(width)}, but there are {len(tokens)} tokens")
        if width > limits.vocabulary_tokens:
            raise LimitError(f"a vocabulary of {quoted(width)} tokens", limit="vocabulary_tokens")
        for name, token in [*self._special.items(), *((f"end token {quoted(t)}", t) for t in self._eos)]:
            if not 0 <= token < width:
                raise VocabularyError(f"{name!r} has id {quoted(token)}, outside 0..{width - 1}")
        without_bytes = set(self._special.values()) | set(self._eos)
        for i, token_bytes in enumerate(tokens):
            if token_bytes is not None and not isinstance(token_bytes, (bytes, bytearray, memoryview)):
                raise VocabularyError(f"token {i} must be bytes, not {type(token_bytes).__name__}")
        pieces = [b"" if t is None or i in without_bytes else bytes(t) for i, t in enumerate(tokens)]
        if max(map(len, pieces), default=0) > limits.token_bytes:
            raise LimitError("a token is too long", limit="token_bytes")
        lengths = np.fromiter((len(p) for p in pieces), dtype=np.uint64, count=len(pieces))
        self._usable = dict.fromkeys(
            i for i in range(width) if i in without_bytes or (i < len(pieces) and tokens[i] is not None)
        )
        self._core = CoreVocabulary(
            np.frombuffer(b"".join(pieces), dtype=np.uint8),
            np.concatenate([np.zeros(1, np.uint64), np.cumsum(lengths, dtype=np.uint64)]),
            list(self._eos),
            width,
            limits.vocabulary_bytes,
        )
        if width >= ahead.FEW_TOKENS and limits.vocabulary_bytes >= DEFAULT_LIMITS.vocabulary_bytes:
            ahead.prepare(self.compile, width)

    @classmethod
    def from_tokenizer_json(
        cls, path: str | PathLike[str] | Mapping[str, Any], eos: EndTokens = None, size: int | None = None
    ) -> Vocabulary:
        """From a `tokenizer.json`: its path, or its content as a mapping.

        eos: end tokens as ids or names, one or several. size: the width of the logits. Both come from the config files
        beside it (tokenizer_config.json, generation_config.json, config.json) unless they are given.

        Raises VocabularyError `file_unreadable`, `decoder_unsupported` if tokens have no bytes of their own,
        `eos_missing` and `eos_invalid`, and LimitError. Cost: that of `Vocabulary`, and of reading the JSON: about a
        second for 128,000 tokens.
        """
        from narrows.vocabulary.loaders import tokenizer_json

        source = path if isinstance(path, Mapping) else file_path(path)
        return cls._from(tokenizer_json.load(source, eos=eos, size=size))

    @classmethod
    def from_gguf(cls, path: str | PathLike[str], eos: EndTokens = None, size: int | None = None) -> Vocabulary:
        """From the tokenizer inside a GGUF file. The weights are not read. `eos` and `size` as for
        `from_tokenizer_json`; the file has both.

        Raises VocabularyError `file_unreadable`, `tokenizer_unsupported`, `eos_missing` and `eos_invalid`.
        """
        from narrows.vocabulary.loaders import gguf_file

        return cls._from(gguf_file.load(file_path(path), eos=eos, size=size))

    @classmethod
    def from_tokenizers(cls, tokenizer: Any, eos: EndTokens = None, size: int | None = None) -> Vocabulary:
        """From a `tokenizers.Tokenizer`. It does not know its end tokens, so give `eos` unless their names are common
        ones. The errors are those of `from_tokenizer_json`."""
        from narrows.vocabulary.loaders import tokenizers_object

        return cls._from(tokenizers_object.load(tokenizer, eos=eos, size=size))

    @classmethod
    def from_transformers(cls, tokenizer: Any, eos: EndTokens = None, size: int | None = None) -> Vocabulary:
        """From a tokenizer of `transformers`. It knows one end token, and not the width of the logits: give
        `eos=model.generation_config.eos_token_id` and `size=model.config.vocab_size`. The errors are those of
        `from_tokenizer_json`; `tokenizer_unsupported` for a class that cannot be read."""
        from narrows.vocabulary.loaders import transformers_object

        return cls._from(transformers_object.load(tokenizer, eos=eos, size=size))

    @classmethod
    def from_tiktoken(cls, encoding: Any, eos: EndTokens = None, size: int | None = None) -> Vocabulary:
        """From a `tiktoken.Encoding`. `eos` and `size` as for `from_tokenizer_json`. Raises VocabularyError
        `tokenizer_unsupported` for anything else, `eos_missing` and `eos_invalid`."""
        from narrows.vocabulary.loaders import tiktoken_encoding

        return cls._from(tiktoken_encoding.load(encoding, eos=eos, size=size))

    @classmethod
    def _from(cls, data: VocabularyData) -> Vocabulary:
        return cls(data.tokens, data.special, data.eos, data.size)

    @property
    def size(self) -> int:
        """The width of the logits. Mask rows have ceil(size / 32) words."""
        return self._core.size

    @property
    def special(self) -> Mapping[str, int]:
        """Special tokens by name."""
        return self._special

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """The tokens that end a text."""
        return self._eos

    @property
    def shared_bytes(self) -> int:
        """Bytes of automaton states and their masks that constraints share now, at most about
        `Limits.vocabulary_bytes`. Does not block."""
        return self._core.shared_bytes

    def token_bytes(self, token: int) -> bytes:
        """The bytes that a token adds to a text. b"" for special tokens and unused ids."""
        if type(token) is not int:
            token = integer("token", token)
        if not 0 <= token < self.size:
            raise TokenError(f"token {quoted(token)} lies outside the vocabulary of {self.size}")
        return self._core.token_bytes(token)

    def spell(self, data: bytes) -> list[int] | None:
        """Ids of tokens that together have these bytes, not always as the tokenizer would cut them. None if no tokens
        have them."""
        wants(of("bytes", bytes), data=data)
        return self._core.segment(data)

    def compile(self, grammar: Grammar, limits: Limits = DEFAULT_LIMITS) -> Constraint:
        """The grammar, ready to make masks for this vocabulary. Cheap: tables are filled as they are needed.

        Raises `GrammarError` code `unsatisfiable` if the grammar allows no text, and `LimitError`. Cost: less than a
        millisecond for a small schema; docs/benchmarks.md has the numbers.
        """
        from narrows.grammar.grammar import Grammar

        wants(of("a narrows.Grammar", Grammar), grammar=grammar)
        wants(LIMITS, limits=limits)
        try:
            return self._assembled(flatten(grammar.module, self.facts, limits, grammar.work), limits, grammar)
        except LimitError as error:
            if error.limit == "step_work" and error.pointer is None:
                error.pointer = self._place_of_work(grammar.module, limits)
            raise

    def _place_of_work(self, module: ir.Module, limits: Limits) -> str | None:
        """Where a part came from that takes a good part of the limit by itself; None if none of the first is found to.
        Each is compiled alone, so all of them take at most twice the limit."""
        limits = replace(limits, step_work=max(limits.step_work // _GOOD_PART, 1))
        parts: list[tuple[ir.Node, str]] = []
        todo, seen = list(module.rules.values()), set()
        while todo and len(parts) < _MOST_PLACED:
            node = todo.pop()
            if id(node) in module.places:
                parts.append((node, module.places[id(node)]))
            elif id(node) not in seen:
                seen.add(id(node))
                todo += children(node)
        for node, place in parts:
            try:
                self._assembled(flatten(ir.Module({"root": node}), self.facts, limits), limits)
            except LimitError:
                return place
            except GrammarError:
                continue
        return None

    @property
    def facts(self) -> TokenFacts:
        """The facts about this vocabulary that flattening a grammar needs."""
        return TokenFacts(self._special, self._eos, self._usable)

    def assemble(
        self, arrays: Mapping[str, Any], limits: Limits = DEFAULT_LIMITS, grammar: Grammar | None = None
    ) -> Constraint:
        """Like `compile`, but from a grammar that was already flattened with the same `facts`
        (narrows.grammar.flatten). The grammar itself need not be kept."""
        wants(_ARRAYS, arrays=arrays)
        wants(LIMITS, limits=limits)
        return self._assembled(arrays, limits, grammar)

    def _assembled(self, arrays: Mapping[str, Any], limits: Limits, grammar: Grammar | None = None) -> Constraint:
        names = ("states", "term_depth", "step_work", "sequence_work", "live_items", "object_keys", "constraint_bytes")
        core = CoreConstraint.compile(self._core, dict(arrays), {name: getattr(limits, name) for name in names})
        return Constraint(core, self, grammar)

    def __copy__(self) -> Vocabulary:
        """Itself: users cannot change it."""
        return self

    def __deepcopy__(self, memo: object) -> Vocabulary:
        """Itself, as for `__copy__`."""
        return self

    def __repr__(self) -> str:
        return f"<narrows.Vocabulary of {self.size} tokens, {len(self._special)} special>"


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise InputError(
            f"special must map names to ids; a name is a str, not {type(name).__name__}",
            code="wrong_type",
            pointer="/special",
        )
    return str(name)


def _end_tokens(eos: object) -> tuple[int, ...]:
    """End tokens from one id or several, without duplicates, in the given order."""
    if INTEGER.fits(eos):
        return (integer("eos", eos),)
    wants(ITERABLE, eos=eos)
    return tuple(dict.fromkeys(integer("eos", token) for token in cast("Iterable[object]", eos)))
