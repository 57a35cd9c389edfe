"""What `LLTokenizer` can be made of, as token bytes, end tokens and a narrows vocabulary.

llguidance's masks allow end tokens where the text may end, and a grammar may name an end token in its middle. So the
vocabulary that the engine sees has no end tokens: they are special tokens like others, and `parser.py` adds their bits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from narrows.arguments import file_path, quoted
from narrows.compat.llguidance import encoders, misuse
from narrows.compat.llguidance.encoders import Encode
from narrows.compat.llguidance.token_table import SPECIAL, TokenTable, is_special, marked
from narrows.errors import InputError, VocabularyError
from narrows.limits import DEFAULT_LIMITS
from narrows.vocabulary.loaders import tokenizer_json
from narrows.vocabulary.vocabulary import Vocabulary

_ENDS = ("</s>", "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "<eos>")
"""Added tokens that end a text where the caller names none; the last one counts."""
_BYTE_NAMES = ("<|tool|>", "<|/tool|>", "<|user|>", "<|system|>", "<|assistant|>", "<|end|>")


@dataclass(frozen=True, slots=True)
class Tokens:
    """A tokenizer as llguidance's classes need it."""

    table: TokenTable
    vocabulary: Vocabulary
    encode: Encode | None
    """From text to ids; None: text gets the longest tokens that fit, which may not be what the model's tokenizer
    writes."""
    is_canonical: bool


def end_tokens(value: Any) -> list[int] | None:
    """End tokens as callers give them. None: not given."""
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return [value]
    if not isinstance(value, (list, tuple)) or not all(type(i) is int and i >= 0 for i in value):
        raise InputError("eos_token must be an int or a non-empty list of ints", code="eos_invalid")
    if not value:
        raise InputError("eos_token list must not be empty", code="eos_invalid")
    return list(value)


def of_bytes() -> Tokens:
    """A token for each byte, and six special ones: for tests."""
    raw = [bytes([byte]) for byte in range(256)] + [bytes([SPECIAL]) + name.encode() for name in _BYTE_NAMES]
    return of_raw(raw, [len(raw) - 1], None, is_canonical=True)


def of_text_or_path(source: str | PathLike[str], n_vocab: int | None, eos: list[int] | None) -> Tokens:
    """The text of a tokenizer.json, or its path."""
    text = fspath(source)
    if text.startswith("{"):
        return of_tokenizer_json(text, n_vocab, eos)
    path = file_path(source)
    try:
        return of_tokenizer_json(Path(path).read_text("utf-8"), n_vocab, eos)
    except (OSError, UnicodeDecodeError) as error:
        raise VocabularyError(f"error loading tokenizer: {text}: {error}", code="file_unreadable") from None


def of_tokenizer_json(text: str, n_vocab: int | None, eos: list[int] | None) -> Tokens:
    """From the text of a tokenizer.json."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise VocabularyError(f"error loading tokenizer: {error}", code="file_unreadable") from None
    if not isinstance(content, dict):
        raise VocabularyError("error loading tokenizer: no JSON object", code="file_unreadable")
    data = tokenizer_json.from_dict(content, eos=_found_end(content) if eos is None else eos)
    ends = eos or data.eos
    raw: list[bytes] = [token or b"" for token in data.tokens]
    for name, i in data.special.items():
        raw[i] = bytes([SPECIAL]) + name.encode()
    encode = encoders.of_tokenizer_json(content)
    return of_raw(raw, ends, encode, n_vocab, is_canonical=encode is not None)


def of_wrapper(wrapper: Any, n_vocab: int | None, eos: list[int] | None) -> Tokens:
    """A `TokenizerWrapper`, or an object that says that it is one."""
    if getattr(wrapper, "is_tokenizer_wrapper", False) is not True:
        raise InputError(
            "Expecting a TokenizerWrapper() class",
            code="tokenizer_unsupported",
            hint="Give the text or path of a tokenizer.json, a TokenizerWrapper, or use llguidance.hf.from_tokenizer",
        )
    raw = [bytes(token) for token in wrapper.tokens]
    end = wrapper.eos_token_id
    if end is None:
        raw.append(b"")
        end = len(raw) - 1
    for i in wrapper.special_token_ids:
        if 0 <= i < len(raw) and raw[i][:1] != bytes([SPECIAL]):
            raw[i] = bytes([SPECIAL]) + raw[i]
    return of_raw(raw, eos or [end], wrapper, n_vocab, is_canonical=True)


def of_raw(
    raw: Sequence[bytes], eos: Sequence[int], encode: Encode | None, n_vocab: int | None = None, *, is_canonical: bool
) -> Tokens:
    """`raw`: the tokens by id, special ones after the byte 0xFF. `n_vocab`: the width of the masks."""
    width = len(raw) if n_vocab is None else misuse.count("n_vocab", n_vocab)
    if width < len(raw):
        raise VocabularyError(f"vocab size too small; {width} vs {len(raw)}", pointer="/n_vocab")
    if width > DEFAULT_LIMITS.vocabulary_tokens:
        raise VocabularyError(f"n_vocab is {quoted(width)}", pointer="/n_vocab")
    for i in eos:
        if i >= width:
            raise InputError(f"EOS token ID {i} is out of range (vocab_size={width})", code="eos_invalid")
    shown = [*raw, *[b""] * (width - len(raw))]
    if n_vocab is not None:
        shown = [token or bytes([SPECIAL]) + b"<[%d]>" % i for i, token in enumerate(shown)]
    special = _special_names(shown, eos, len(raw))
    usable: list[bytes | None] = [None if not token or is_special(token) else token for token in raw]
    return Tokens(TokenTable(shown, eos), Vocabulary(usable, special, size=width), encode, is_canonical)


def _special_names(tokens: Sequence[bytes], eos: Sequence[int], known: int) -> Mapping[str, int]:
    """Ids by names. An end token is special, so that no text can spell it. Padding has no names."""
    names: dict[str, int] = {}
    taken = set()
    for i, token in enumerate(tokens[:known]):
        if is_special(token):
            names.setdefault(token[1:].decode("utf-8", "replace"), i)
            taken.add(i)
    for i in eos:
        if i not in taken or names.get(tokens[i][1:].decode("utf-8", "replace")) != i:
            name = tokens[i].lstrip(bytes([SPECIAL])).decode("utf-8", "replace")
            names[name if name and name not in names else repr(marked(i))] = i
    return names


def _found_end(content: Mapping[str, Any]) -> int | None:
    found = None
    added = content.get("added_tokens")
    for token in added if isinstance(added, list) else ():
        if isinstance(token, dict) and token.get("content") in _ENDS and isinstance(token.get("id"), int):
            found = token["id"] if found is None else max(found, token["id"])
    return found
