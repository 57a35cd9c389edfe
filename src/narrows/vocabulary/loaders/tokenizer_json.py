"""The vocabulary of a Hugging Face `tokenizer.json`, and of the three files that lie beside it.

`tokenizer_config.json` names the end token and may add tokens, `generation_config.json` lists all end ids of the model,
`config.json` has the width of its logits. All four are read as strangers' data. Cost: mostly the JSON reader's; 0.5 s
for 128,000 tokens with their merges.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Union

from narrows.errors import VocabularyError
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.vocabulary.loaders.data import EndTokens, VocabularyData, assemble, is_marker
from narrows.vocabulary.loaders.decoders import compile_decoder

Source = Union[str, "os.PathLike[str]", Mapping[str, Any]]


def load(
    source: Source, eos: EndTokens = None, size: int | None = None, limits: Limits = DEFAULT_LIMITS
) -> VocabularyData:
    """Read a tokenizer.json: its path, the folder that holds it, or its parsed content (then nothing lies beside it).

    `eos` and `size` replace what the files say. Raises VocabularyError (`file_unreadable`, `vocabulary_invalid`,
    `decoder_unsupported`, `eos_missing`, `eos_invalid`), LimitError (`vocabulary_tokens`, `token_bytes`).
    """
    if isinstance(source, Mapping):
        return from_dict(source, eos=eos, size=size, limits=limits)
    path = Path(source)
    if path.is_dir():
        path = path / "tokenizer.json"
    tokenizer = _read(path)
    config, generation, model = (
        _read(path.with_name(name), missing_ok=True)
        for name in ("tokenizer_config.json", "generation_config.json", "config.json")
    )
    shipped = [*_ids(config.get("eos_token")), *_ids(generation.get("eos_token_id"))]
    if not generation:
        shipped += _ids(model.get("eos_token_id"))
    if size is None:
        size = _model_width(model)
    extra = config.get("added_tokens_decoder")
    return from_dict(
        tokenizer,
        eos=eos,
        shipped_eos=shipped,
        size=size,
        limits=limits,
        extra_tokens=extra if isinstance(extra, Mapping) else None,
    )


def from_dict(
    tokenizer: Mapping[str, Any],
    *,
    eos: EndTokens = None,
    shipped_eos: list[int | str] | None = None,
    size: int | None = None,
    extra_tokens: Mapping[str, Any] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> VocabularyData:
    """The same from parsed JSON. `extra_tokens` is `added_tokens_decoder` of tokenizer_config.json: id -> added
    token."""
    model = tokenizer.get("model")
    if not isinstance(model, Mapping) or not isinstance(model.get("vocab"), (Mapping, list)):
        raise VocabularyError("no vocabulary in it: is this a tokenizer.json?", pointer="/model/vocab")
    decode = compile_decoder(tokenizer.get("decoder"))
    trained: dict[str, int] = {}
    texts: dict[int, bytes] = {}
    for pointer, token, i in _trained(model["vocab"]):
        _claim(i, pointer)
        if i in texts:
            raise VocabularyError(f"two tokens have the id {i}", pointer=pointer)
        trained[token] = i
        texts[i] = _bytes(decode, token, pointer)

    special: dict[str, int] = {}
    seen: set[int] = set()
    for pointer, i, content, flagged in _added(tokenizer.get("added_tokens"), extra_tokens):
        _claim(i, pointer)
        if i in seen:
            continue
        seen.add(i)
        in_base = trained.get(content) == i
        if is_marker(content, flagged=flagged, trained=in_base):
            texts.pop(i, None)
            if special.setdefault(content, i) != i:
                texts[i] = b""
        elif not in_base:
            texts[i] = _bytes(str.encode if _is_byte_level(tokenizer) else decode, content, pointer)
    return assemble(texts, special, eos=eos, shipped_eos=shipped_eos or (), size=size, limits=limits)


def _trained(vocab: Mapping[str, Any] | list[Any]) -> Iterator[tuple[str, str, int]]:
    """(JSON pointer, token, id) of the base vocabulary: a mapping for BPE, WordPiece and WordLevel, a list of pairs for
    Unigram."""
    if isinstance(vocab, Mapping):
        for token, i in vocab.items():
            yield "/model/vocab", token, i
    else:
        for i, entry in enumerate(vocab):
            if not isinstance(entry, (list, tuple)) or not entry or not isinstance(entry[0], str):
                raise VocabularyError("a Unigram entry must be a token and its score", pointer=f"/model/vocab/{i}")
            yield f"/model/vocab/{i}", entry[0], i


def _added(tokens: Any, extra: Mapping[str, Any] | None) -> Iterator[tuple[str, int, str, bool]]:
    """(where, id, content, flagged special) of every added token; those of tokenizer.json come first and win."""
    if tokens is not None and not isinstance(tokens, list):
        raise VocabularyError("added_tokens must be a list", pointer="/added_tokens")
    for n, entry in enumerate(tokens or ()):
        pointer = f"/added_tokens/{n}"
        if not isinstance(entry, Mapping) or not isinstance(entry.get("content"), str):
            raise VocabularyError("an added token must be an object with an id and a content", pointer=pointer)
        # Whether the id is one is checked by _claim.
        yield pointer, entry.get("id"), entry["content"], bool(entry.get("special"))  # type: ignore[misc]
    for key, entry in (extra or {}).items():
        if isinstance(entry, Mapping) and isinstance(entry.get("content"), str) and key.isdecimal() and len(key) < 20:
            yield "tokenizer_config.json/added_tokens_decoder", int(key), entry["content"], bool(entry.get("special"))


def _claim(i: Any, pointer: str) -> None:
    if not isinstance(i, int) or isinstance(i, bool) or i < 0:
        raise VocabularyError(f"a token id must be a whole number from 0, not {i!r}", pointer=pointer)


def _bytes(decode: Callable[[str], bytes], token: str, pointer: str) -> bytes:
    try:
        return decode(token)
    except UnicodeEncodeError as error:
        raise VocabularyError(f"token {token!r} holds half of a surrogate pair", pointer=pointer) from error


def _is_byte_level(tokenizer: Mapping[str, Any]) -> bool:
    """Added tokens are matched in the raw text: where the decoder maps an alphabet, they are not spelled in it."""
    decoder = tokenizer.get("decoder")
    return isinstance(decoder, Mapping) and decoder.get("type") == "ByteLevel"


def _ids(value: Any) -> list[int | str]:
    """End tokens as the files write them: an id, a list of ids, a name, or an added token's object."""
    if isinstance(value, Mapping):
        value = value.get("content")
    if isinstance(value, list):
        return [v for v in value if isinstance(v, int) and not isinstance(v, bool)]
    return [value] if isinstance(value, (int, str)) and not isinstance(value, bool) else []


def _model_width(model: Mapping[str, Any]) -> int | None:
    """`vocab_size` of config.json; multimodal models keep it in `text_config`."""
    inner = model.get("text_config")
    for place in (model, inner if isinstance(inner, Mapping) else {}):
        width = place.get("vocab_size")
        if isinstance(width, int) and not isinstance(width, bool) and width > 0:
            return width
    return None


def _read(path: Path, missing_ok: bool = False) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        if missing_ok:
            return {}
        raise VocabularyError(f"there is no file {path}", code="file_unreadable") from error
    except OSError as error:
        raise VocabularyError(f"{path} cannot be read: {error.strerror or error}", code="file_unreadable") from error
    except RecursionError as error:
        raise VocabularyError(f"{path} is nested too deep to be a tokenizer file", code="file_unreadable") from error
    except ValueError as error:
        raise VocabularyError(f"{path} is not JSON: {error}", code="file_unreadable") from error
    if not isinstance(content, Mapping):
        raise VocabularyError(f"{path} must hold a JSON object", code="file_unreadable")
    return content
