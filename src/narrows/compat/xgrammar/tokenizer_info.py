"""TokenizerInfo: a vocabulary, how its tokens are written, and which of them end a text.

The `narrows.Vocabulary` behind it is made when it is first needed, once (about 0.2 s for 128,000 tokens). Make one
`TokenizerInfo` for a model and share it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from narrows.compat.xgrammar.encodings import VocabType, decoded, metadata_of, stop_tokens
from narrows.compat.xgrammar.exception import CompatError, DeserializeFormatError, WrongTypeError, as_theirs
from narrows.compat.xgrammar.serialized import read_object, write_object
from narrows.limits import DEFAULT_LIMITS
from narrows.vocabulary.loaders import transformers_object
from narrows.vocabulary.vocabulary import Vocabulary

__all__ = ["TokenizerInfo", "VocabType"]


class TokenizerInfo:
    """Immutable; threads may share it."""

    def __init__(
        self,
        encoded_vocab: Sequence[bytes] | Sequence[str],
        vocab_type: VocabType = VocabType.RAW,
        *,
        vocab_size: int | None = None,
        stop_token_ids: Sequence[int] | int | None = None,
        add_prefix_space: bool = False,
    ) -> None:
        """`encoded_vocab`: one token for each id, as `vocab_type` writes it.

        vocab_size: the width of the logits, if that is more. Ids beyond the tokens are never allowed.
        stop_token_ids: the tokens that end a text; ids out of range are left out. None: they are looked for by name.
        add_prefix_space: kept for those who ask; it changes no mask.

        Raises CompatError `argument_invalid` and `wrong_type`.
        """
        if not isinstance(vocab_type, VocabType):
            raise WrongTypeError(f"vocab_type must be a VocabType, not {type(vocab_type).__name__}")
        for token in encoded_vocab:
            if not isinstance(token, (str, bytes)):
                raise WrongTypeError(f"a token must be a str or bytes, not {type(token).__name__}")
        tokens = [decoded(token, vocab_type) for token in encoded_vocab]
        self._set(tokens, vocab_type, vocab_size, stop_token_ids, add_prefix_space)

    def _set(
        self,
        tokens: list[bytes],
        vocab_type: VocabType,
        vocab_size: int | None,
        stop_token_ids: Sequence[int] | int | None,
        add_prefix_space: bool,
    ) -> None:
        size = len(tokens) if vocab_size is None else vocab_size
        if size < len(tokens):
            raise CompatError(
                f"vocab_size is {size}, but there are {len(tokens)} tokens",
                code="argument_invalid",
                hint="Give the width of the model's logits, and no more tokens than that",
            )
        if isinstance(stop_token_ids, int):
            stop_token_ids = [stop_token_ids]
        stops = stop_tokens(tokens) if stop_token_ids is None else stop_token_ids
        self._tokens = tokens
        self._size = size
        self._type = vocab_type
        self._stops = tuple(sorted({int(token) for token in stops if 0 <= token < size}))
        self._prefix_space = bool(add_prefix_space)
        self._lock = Lock()
        self._made: Vocabulary | None = None
        self._names: Mapping[str, int] | None = None

    @classmethod
    def _of(cls, tokens: list[bytes], *facts: Any) -> TokenizerInfo:
        made = cls.__new__(cls)
        made._set(tokens, *facts)
        return made

    @staticmethod
    def from_huggingface(
        tokenizer: Any, *, vocab_size: int | None = None, stop_token_ids: Sequence[int] | int | None = None
    ) -> TokenizerInfo:
        """From a fast tokenizer of `transformers`, or one that wraps a tiktoken encoding.

        vocab_size: the model's (`model.config.vocab_size`). Tokens beyond it are left out.
        stop_token_ids: None stands for the tokenizer's end token. Models often have several; then name them.

        The bytes of tokens come from the tokenizer's decoder. Control tokens are text under their names, as in
        xgrammar. Raises CompatError `tokenizer_unsupported` and `decoder_unsupported`.
        """
        if isinstance(stop_token_ids, int):
            stop_token_ids = [stop_token_ids]
        if stop_token_ids is not None and not stop_token_ids:
            raise CompatError("stop_token_ids is empty", code="argument_invalid", hint="Give None, or the ids")
        if not callable(getattr(tokenizer, "get_vocab", None)):
            raise CompatError(
                f"a {type(tokenizer).__name__} has no get_vocab",
                code="tokenizer_unsupported",
                hint="Give a tokenizer of transformers, or the tokens themselves to TokenizerInfo",
            )
        names: dict[str, int] = tokenizer.get_vocab()
        size = vocab_size or max(len(names), max(names.values()) + 1)
        if stop_token_ids is None:
            end = getattr(tokenizer, "eos_token_id", None)
            if end is None:
                warnings.warn("the tokenizer has no end token: stop tokens are looked for by name", stacklevel=2)
            else:
                stop_token_ids = [end] if isinstance(end, int) else list(end)
        ends = [token for token in stop_token_ids or names.values() if 0 <= token < size][: len(stop_token_ids or [0])]
        with as_theirs():
            data = transformers_object.load(tokenizer, eos=ends, size=size)
        backend = getattr(tokenizer, "backend_tokenizer", None)
        kind, prefix_space = metadata_of(json.loads(backend.to_str()) if backend is not None else {})
        tokens = [known or b"" for known in data.tokens]
        for name, token in names.items():  # the loader gives no bytes to control tokens
            if token < size and not tokens[token]:
                tokens[token] = name.encode() if data.special.get(name) == token else decoded(name, kind)
        return TokenizerInfo._of(tokens, kind, size, stop_token_ids, prefix_space)

    @staticmethod
    def from_vocab_and_metadata(encoded_vocab: Sequence[bytes | str], metadata: str) -> TokenizerInfo:
        """From tokens and what `dump_metadata` has written. Raises CompatError `json_invalid`, `argument_invalid`."""
        facts = read_object(metadata)
        return TokenizerInfo(list(encoded_vocab), **_checked(facts))  # type: ignore[arg-type]

    @staticmethod
    def _detect_metadata_from_hf(backend_str: str) -> dict[str, Any]:
        """`vocab_type` and `add_prefix_space` of the text of a `tokenizer.json`."""
        kind, prefix_space = metadata_of(read_object(backend_str))
        return {"vocab_type": kind, "add_prefix_space": prefix_space}

    @property
    def vocab_type(self) -> VocabType:
        """How the tokens were written."""
        return self._type

    @property
    def vocab_size(self) -> int:
        """The width of the logits."""
        return self._size

    @property
    def add_prefix_space(self) -> bool:
        """Whether the tokenizer puts a space before a text."""
        return self._prefix_space

    @property
    def prepend_space_in_tokenization(self) -> bool:
        """The former name of `add_prefix_space`."""
        warnings.warn("prepend_space_in_tokenization is now add_prefix_space", DeprecationWarning, stacklevel=2)
        return self._prefix_space

    @property
    def decoded_vocab(self) -> list[bytes]:
        """The bytes of each token."""
        return list(self._tokens)

    @property
    def stop_token_ids(self) -> list[int]:
        """The tokens that end a text."""
        return list(self._stops)

    @property
    def special_token_ids(self) -> list[int]:
        """The ids that have no bytes: holes and padding."""
        stops = set(self._stops)
        holes = [token for token, data in enumerate(self._tokens) if not data and token not in stops]
        return holes + [token for token in range(len(self._tokens), self._size) if token not in stops]

    def _metadata(self) -> dict[str, Any]:
        return {
            "vocab_type": self._type.value,
            "vocab_size": self._size,
            "add_prefix_space": self._prefix_space,
            "stop_token_ids": list(self._stops),
        }

    def dump_metadata(self) -> str:
        """All but the tokens, as JSON."""
        return json.dumps(self._metadata(), separators=(",", ":"))

    def serialize_json(self) -> str:
        """All of it, as JSON that this version of narrows reads again. Each byte of a token is one character."""
        return write_object({**self._metadata(), "tokens": [data.decode("latin-1") for data in self._tokens]})

    @staticmethod
    def deserialize_json(json_string: str) -> TokenizerInfo:
        """What `serialize_json` has written. Raises InvalidJSONError, DeserializeVersionError and
        DeserializeFormatError."""
        facts = read_object(json_string, versioned=True)
        tokens = facts.pop("tokens", None)
        if not isinstance(tokens, list) or not all(isinstance(t, str) and _is_latin(t) for t in tokens):
            raise _malformed("tokens", serialized=True)
        known = _checked(facts, serialized=True)
        return TokenizerInfo._of([token.encode("latin-1") for token in tokens], *known.values())

    def _vocabulary(self) -> Vocabulary:
        """The tokens for narrows' engine. Stop tokens are not among them: the matcher sees to those."""
        with self._lock:
            if self._made is None:
                stops = set(self._stops)
                tokens = [data if data and token not in stops else None for token, data in enumerate(self._tokens)]
                with as_theirs():
                    self._made = Vocabulary(tokens, size=self._size, limits=DEFAULT_LIMITS)
            return self._made

    def _by_text(self) -> Mapping[str, int]:
        """The first token of each text."""
        if self._names is None:
            found: dict[str, int] = {}
            for token, data in enumerate(self._tokens):
                if data:
                    found.setdefault(data.decode("utf-8", "replace"), token)
            self._names = found
        return self._names


def _is_latin(text: str) -> bool:
    return max(text, default="") <= "\xff"


def _malformed(name: str, *, serialized: bool) -> CompatError:
    message = f"{name} is missing, or not what it must be"
    if serialized:
        return DeserializeFormatError(message, pointer=f"/{name}")
    return CompatError(message, code="argument_invalid", pointer=f"/{name}", hint="dump_metadata writes it")


def _checked(facts: Mapping[str, Any], *, serialized: bool = False) -> dict[str, Any]:
    """The facts of `dump_metadata`, as the constructor's parameters in their order."""
    size, stops = facts.get("vocab_size"), facts.get("stop_token_ids")
    kinds = {kind.value: kind for kind in VocabType}
    if not isinstance(facts.get("vocab_type"), int) or facts["vocab_type"] not in kinds:
        raise _malformed("vocab_type", serialized=serialized)
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= DEFAULT_LIMITS.vocabulary_tokens:
        raise _malformed("vocab_size", serialized=serialized)
    if not isinstance(facts.get("add_prefix_space"), bool):
        raise _malformed("add_prefix_space", serialized=serialized)
    if not isinstance(stops, list) or not all(isinstance(token, int) for token in stops):
        raise _malformed("stop_token_ids", serialized=serialized)
    return {
        "vocab_type": kinds[facts["vocab_type"]],
        "vocab_size": size,
        "stop_token_ids": stops,
        "add_prefix_space": facts["add_prefix_space"],
    }
