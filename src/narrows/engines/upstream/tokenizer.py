"""The tokenizer of the upstream's model: a Hugging Face folder with a tokenizer.json, or a GGUF file. Both may be
fetched from the hub (narrows.engines.hub).

Of a GGUF file only the vocabulary is loaded. Cost: 0.1 to 1 s, and some 30 to 300 MB for large vocabularies.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from narrows.engines.hub import fetch_tokenizer, hub_name
from narrows.errors import EngineError, InputError
from narrows.vocabulary.vocabulary import Vocabulary


class Tokenizer(Protocol):
    """What an engine needs to know of its model's tokenizer."""

    path: str
    vocabulary: Vocabulary
    chat_template: str | None
    special_tokens: Mapping[str, str]
    bos_token_id: int | None
    add_bos: bool

    def encode(self, text: str, *, parse_special: bool = False) -> list[int]: ...

    def close(self) -> None: ...


def load_tokenizer(path: str | os.PathLike[str]) -> Tokenizer:
    """The tokenizer of a folder, of a tokenizer.json or of a GGUF file. What does not exist, and has the form of a name
    of the hub, is fetched. Raises `EngineError` code `tokenizer_missing`, what `fetch_tokenizer` raises, and what
    `Vocabulary` raises."""
    where = Path(path)
    name = None if where.exists() else hub_name(os.fspath(path))
    if name is not None:
        where = fetch_tokenizer(name)
    if where.is_dir():
        where = where / "tokenizer.json"
    if not where.is_file():
        raise EngineError(
            f"there is no tokenizer at {os.fspath(path)!r}",
            code="tokenizer_missing",
            hint="Name a folder with a tokenizer.json, a GGUF file, or the model's name on the hub",
        )
    with where.open("rb") as file:
        is_gguf = file.read(4) == b"GGUF"
    return GgufTokenizer(where) if is_gguf else FolderTokenizer(where)


class GgufTokenizer:
    """llama.cpp's own tokenizer, so that the ids are those of a llama.cpp server."""

    def __init__(self, path: Path) -> None:
        from narrows.engines.llama_cpp.text import ModelText

        self.path = str(path)
        self.vocabulary = Vocabulary.from_gguf(path)
        self._model = ModelText.vocabulary_only(path)
        self.chat_template = self._model.chat_template
        self.special_tokens: Mapping[str, str] = self._model.special_tokens()
        self.bos_token_id = self._model.bos_token_id
        self.add_bos = self._model.add_bos

    def encode(self, text: str, *, parse_special: bool = False) -> list[int]:
        return self._model.encode(text, parse_special=parse_special)

    def close(self) -> None:
        self._model.close()


class FolderTokenizer:
    """The `tokenizers` library on a tokenizer.json, with the files beside it."""

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer as Fast

        self.path = str(path.parent)
        self.vocabulary = Vocabulary.from_tokenizer_json(path)
        content = json.loads(path.read_bytes())
        config = _json(path.with_name("tokenizer_config.json"))
        self._with_special = Fast.from_str(json.dumps(content))
        # Without the entries of its special tokens, the tokenizer reads their names as ordinary text.
        special = set(self.vocabulary.special.values())
        content["added_tokens"] = [t for t in content.get("added_tokens") or () if t.get("id") not in special]
        content["post_processor"] = None
        self._plain = Fast.from_str(json.dumps(content))
        self.special_tokens: Mapping[str, str] = {
            name: text
            for name in ("bos_token", "eos_token", "unk_token", "pad_token")
            if (text := _text(config.get(name)))
        }
        self.chat_template = _template(path.parent, config)
        self.bos_token_id = self.vocabulary.special.get(self.special_tokens.get("bos_token", ""))
        begun = self._with_special.encode("a").ids
        self.add_bos = self.bos_token_id is not None and begun[:1] == [self.bos_token_id]

    def encode(self, text: str, *, parse_special: bool = False) -> list[int]:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                "the text has a lone surrogate, which is not valid Unicode", code="text_not_unicode", offset=error.start
            ) from None
        tokenizer = self._with_special if parse_special else self._plain
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def close(self) -> None:
        """Nothing is held."""


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _text(token: Any) -> str | None:
    """A special token as configurations write it: its text, or an object with it."""
    token = token.get("content") if isinstance(token, dict) else token
    return token if isinstance(token, str) else None


def _template(folder: Path, config: Mapping[str, Any]) -> str | None:
    """The chat template: a file of its own, or in the configuration, where there may be several."""
    try:
        return (folder / "chat_template.jinja").read_text("utf-8")
    except OSError:
        template = config.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None
