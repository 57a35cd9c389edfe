"""Any ids decode to their joined bytes: tokenizers trained here, and the files of real models."""

from __future__ import annotations

import functools
import json

import decoding
import pytest
import real_tokenizers
import trained
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from narrows.vocabulary.loaders import tokenizer_json, tokenizers_object
from narrows.vocabulary.loaders.data import VocabularyData

KINDS = {
    "byte_level": trained.byte_level,
    "unigram": trained.unigram,
    "byte_fallback": trained.byte_fallback,
    "word_piece": trained.word_piece,
}


@functools.cache
def loaded(kind: str) -> tuple[Tokenizer, VocabularyData, list[int]]:
    tok = KINDS[kind]()
    eos = "[SEP]" if kind == "word_piece" else None
    return tok, tokenizers_object.load(tok, eos=eos), tok.encode("a", add_special_tokens=False).ids


@pytest.mark.parametrize("kind", KINDS)
def test_any_ids_decode_to_their_joined_bytes(kind: str) -> None:
    tok, vocabulary, before = loaded(kind)
    hidden = {
        "word_piece": set(vocabulary.special.values()),  # shown with blanks around them
        "byte_level": {
            tok.token_to_id("naïveword")
        },  # `tokenizers` reads its ï, plain text, as a letter of the byte alphabet
    }.get(kind, set())
    ids = st.sampled_from([i for i, data in enumerate(vocabulary.tokens) if data is not None and i not in hidden])

    @settings(max_examples=300, deadline=None)
    @given(st.lists(ids, max_size=12))
    def agrees(sequence: list[int]) -> None:
        if kind == "byte_fallback":  # a run of bytes that is not UTF-8 is replaced whole
            pieces = b"".join(vocabulary.tokens[i] or b"" for i in sequence)
            if pieces.decode("utf-8", "ignore").encode() != pieces:
                return
        decoding.check(vocabulary, lambda i: tok.decode(i, skip_special_tokens=False), before, sequence)

    agrees()


@pytest.mark.parametrize("kind", KINDS)
def test_text_comes_back(kind: str) -> None:
    tok, vocabulary, _ = loaded(kind)
    text = "The lazy dog"
    data = b"".join(vocabulary.tokens[i] or b"" for i in tok.encode(text, add_special_tokens=False).ids)
    assert data.decode().strip() == text


@pytest.mark.parametrize("kind", ["byte_level", "unigram", "byte_fallback"])
def test_added_tokens(kind: str) -> None:
    tok, vocabulary, _ = loaded(kind)
    for name in ("<|im_end|>", "<tool_call>", "</tool_call>"):
        i = tok.token_to_id(name)
        assert vocabulary.special[name] == i
        assert vocabulary.tokens[i] == b""
    for text in ("    ", "naïveword", "x" * 1500):
        assert text not in vocabulary.special
        assert vocabulary.tokens[tok.token_to_id(text)] == text.encode()


def test_every_byte_is_a_token_of_a_byte_level_vocabulary() -> None:
    _, vocabulary, _ = loaded("byte_level")
    assert {bytes((b,)) for b in range(256)} <= {t for t in vocabulary.tokens if t}


@pytest.fixture(scope="module", params=["qwen3", "deepseek_v3", "llama2", "gemma3"])
def real(request: pytest.FixtureRequest) -> tuple[str, Tokenizer, VocabularyData]:
    try:
        folder = real_tokenizers.folder(request.param)
    except real_tokenizers.UnreachableError as error:
        pytest.skip(str(error))
    return request.param, Tokenizer.from_file(str(folder / "tokenizer.json")), tokenizer_json.load(folder)


def test_every_id_of_a_real_tokenizer(real: tuple[str, Tokenizer, VocabularyData]) -> None:
    _, tok, vocabulary = real
    before = tok.encode("a", add_special_tokens=False).ids
    head = tok.decode(before).encode()
    assert len(vocabulary.tokens) == vocabulary.size == tok.get_vocab_size()
    shown = decoding.spelled(vocabulary)
    expected = [(head + (piece or b"")).decode("utf-8", "replace") for piece in shown]
    assert tok.decode_batch([[*before, i] for i in range(vocabulary.size)], skip_special_tokens=False) == expected


def test_random_ids_of_a_real_tokenizer(real: tuple[str, Tokenizer, VocabularyData]) -> None:
    name, tok, vocabulary = real
    before = tok.encode("a", add_special_tokens=False).ids
    shown = decoding.spelled(vocabulary)
    head = tok.decode(before).encode()

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.integers(0, vocabulary.size - 1), max_size=16))
    def agrees(sequence: list[int]) -> None:
        raw = b"".join(shown[i] or b"" for i in sequence)
        if name in ("gemma3", "llama2") and raw.decode("utf-8", "ignore").encode() != raw:
            return  # a run of bytes that is not UTF-8 is replaced whole
        assert tok.decode([*before, *sequence], skip_special_tokens=False) == (head + raw).decode("utf-8", "replace")

    agrees()


def test_markers_of_real_tokenizers(real: tuple[str, Tokenizer, VocabularyData]) -> None:
    name, _, vocabulary = real
    special = {
        "qwen3": ["<tool_call>", "</tool_call>", "<think>", "<|im_end|>", "<|fim_pad|>"],
        "deepseek_v3": ["<｜tool▁calls▁begin｜>", "<｜end▁of▁sentence｜>", "<｜tool▁sep｜>"],
        "llama2": ["<s>", "</s>", "<unk>"],
        "gemma3": ["<end_of_turn>", "<unused7>", "<mask>", "<image_soft_token>"],
    }[name]
    text = {
        "qwen3": [],
        "deepseek_v3": [],
        "llama2": [" the"],
        "gemma3": ["<table>", "</b>", "\n\n\n", "\t\t", "     ", "</s>"],
    }[name]
    assert set(special) <= vocabulary.special.keys()
    assert not set(text) & vocabulary.special.keys()
    assert {t.encode() for t in text} <= set(vocabulary.tokens)
    eos = {"qwen3": [151645], "deepseek_v3": [1], "llama2": [2], "gemma3": [106]}[name]
    assert vocabulary.eos == eos


def test_the_object_and_the_file_agree(tmp_path: pytest.TempPathFactory) -> None:
    tok = trained.byte_level()
    path = tmp_path / "tokenizer.json"  # type: ignore[operator]
    tok.save(str(path))
    assert tokenizer_json.load(path) == tokenizer_json.load(json.loads(path.read_text())) == tokenizers_object.load(tok)
