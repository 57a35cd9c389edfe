"""Runs tests/cases/vocabulary/tokenizer_json.toml: one small tokenizer.json each, what it becomes or why it is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from narrows.errors import NarrowsError, VocabularyError
from narrows.vocabulary.loaders import tokenizer_json

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).parents[1] / "cases" / "vocabulary" / "tokenizer_json.toml"
CASES = tomllib.loads(FILE.read_text(encoding="utf-8"))["case"]


def write(case: dict[str, Any], folder: Path) -> None:
    for name, text in case.get("files", {}).items():
        (folder / name).write_text(text, encoding="utf-8")
    if "raw" in case or "nested" in case:
        text = case.get("raw", "[" * case.get("nested", 0))
    else:
        vocab = case.get("vocab", [])
        if isinstance(vocab, list):
            vocab = {token: i for i, token in enumerate(vocab)}
        if "long" in case:
            vocab["x" * case["long"]] = len(vocab)
        model = {"type": "BPE", "vocab": vocab}
        if "unigram" in case:
            model = {"type": "Unigram", "vocab": [[token, -1.5] for token in case["unigram"]]}
        text = json.dumps(
            {"model": model, "added_tokens": case.get("added", []), "decoder": json.loads(case["decoder"])}
        )
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")


def readable(token: bytes | None) -> str:
    if token is None:
        return "none"
    try:
        return token.decode()
    except UnicodeDecodeError:
        return "hex:" + token.hex()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case: dict[str, Any], tmp_path: Path) -> None:
    write(case, tmp_path)
    if "error" in case:
        with pytest.raises(NarrowsError) as caught:
            tokenizer_json.load(tmp_path, **case.get("arguments", {}))
        assert (caught.value.code, caught.value.pointer, caught.value.limit) == (
            case["error"],
            case.get("pointer"),
            case.get("limit"),
        )
        return
    found = tokenizer_json.load(tmp_path / "tokenizer.json", **case.get("arguments", {}))
    assert [readable(t) for t in found.tokens] == case["tokens"]
    assert found.special == case["special"]
    assert found.eos == case["eos"]
    assert found.size == len(found.tokens)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError) as caught:
        tokenizer_json.load(tmp_path / "nowhere")
    assert caught.value.code == "file_unreadable"
