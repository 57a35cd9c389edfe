"""TokenizerInfo: bytes of tokens, stop tokens, sizes, metadata."""

from __future__ import annotations

import json
from typing import Any

import pytest

import narrows.compat.xgrammar as ours

STOPS = """</s> <|end_of_text|> <|eot_id|> <|endoftext|> <eos> <|eos|> <end_of_turn> <｜end▁of▁sentence｜> <|im_end|> <|end|> <|return|>
<|eom_id|> <EOT> [EOS] <|endofturn|> <|eot|> <|END_OF_TURN_TOKEN|> </S>""".split()


@pytest.mark.parametrize(
    ("kind", "tokens", "decoded"),
    [
        ("RAW", ["a", "é", "Ġ", "<0x0A>"], [b"a", "é".encode(), "Ġ".encode(), b"<0x0A>"]),
        ("RAW", [b"\xff", b"a"], [b"\xff", b"a"]),
        (
            "BYTE_LEVEL",
            ["Ġa", "Ċ", "日本", "Ġ日", "a b", "Ã©"],
            [b" a", b"\n", "日本".encode(), "Ġ日".encode(), b"a b", b"\xc3\xa9"],
        ),
        ("BYTE_FALLBACK", ["<0xE6>", "▁▁a", "x<0xE6>", "a▁b"], [b"\xe6", b"  a", b"x<0xE6>", b"a b"]),
        ("BYTE_FALLBACK", [b"\xff"], [b"\xff"]),
    ],
)
def test_tokens_are_decoded(xgr: Any, kind: str, tokens: list[Any], decoded: list[bytes]) -> None:
    info = xgr.TokenizerInfo(tokens, xgr.VocabType[kind])
    assert info.decoded_vocab == decoded
    assert info.vocab_type is xgr.VocabType[kind]
    assert info.vocab_size == len(tokens)


def test_stop_tokens_are_found_by_name(xgr: Any) -> None:
    info = xgr.TokenizerInfo(STOPS)
    assert [STOPS[token] for token in info.stop_token_ids] == [
        "</s>", "<|end_of_text|>", "<|eot_id|>", "<|endoftext|>", "<eos>", "<|eos|>", "<end_of_turn>", "<｜end▁of▁sentence｜>",
    ]  # fmt: skip


@pytest.mark.parametrize(("given", "kept"), [(1, [1]), ([2, 0, 2], [0, 2]), ([-1, 9], []), ([], [])])
def test_stop_tokens_that_are_given(xgr: Any, given: Any, kept: list[int]) -> None:
    assert xgr.TokenizerInfo(["a", "</s>", "c"], stop_token_ids=given).stop_token_ids == kept


def test_special_tokens_are_those_without_bytes(xgr: Any) -> None:
    info = xgr.TokenizerInfo(["a", "", "<|x|>", ""], vocab_size=6, stop_token_ids=3)
    assert info.special_token_ids == [1, 4, 5]
    assert info.vocab_size == 6
    assert len(info.decoded_vocab) == 4


def test_more_tokens_than_the_size(xgr: Any) -> None:
    with pytest.raises(RuntimeError):
        xgr.TokenizerInfo(["a", "b"], vocab_size=1)


def test_metadata_and_back(xgr: Any) -> None:
    info = xgr.TokenizerInfo(
        ["Ġ", "b"], xgr.VocabType.BYTE_LEVEL, vocab_size=5, stop_token_ids=1, add_prefix_space=True
    )
    facts = {"vocab_type": 2, "vocab_size": 5, "add_prefix_space": True, "stop_token_ids": [1]}
    assert json.loads(info.dump_metadata()) == facts
    again = xgr.TokenizerInfo.from_vocab_and_metadata(["Ġ", "b"], info.dump_metadata())
    assert again.dump_metadata() == info.dump_metadata()
    assert again.decoded_vocab == [b" ", b"b"]
    for missing in facts:
        with pytest.raises(RuntimeError):
            xgr.TokenizerInfo.from_vocab_and_metadata(
                ["a"], json.dumps({k: v for k, v in facts.items() if k != missing})
            )
    with pytest.raises(RuntimeError):
        xgr.TokenizerInfo.from_vocab_and_metadata(["a"], "{")


def test_written_and_read_again(xgr: Any) -> None:
    info = xgr.TokenizerInfo([b"\xff", "é".encode(), b'"\n'], vocab_size=4, stop_token_ids=[2])
    again = xgr.TokenizerInfo.deserialize_json(info.serialize_json())
    assert again.decoded_vocab == info.decoded_vocab
    assert again.dump_metadata() == info.dump_metadata()
    with pytest.raises(xgr.InvalidJSONError):
        xgr.TokenizerInfo.deserialize_json("{")
    with pytest.raises(xgr.DeserializeVersionError):
        xgr.TokenizerInfo.deserialize_json(json.dumps({**json.loads(info.serialize_json()), "__VERSION__": "v0"}))
    without = json.loads(info.serialize_json())
    del without["vocab_size"]
    with pytest.raises(xgr.DeserializeFormatError):
        xgr.TokenizerInfo.deserialize_json(json.dumps(without))


FALLBACK = {"type": "Sequence", "decoders": [{"type": "Replace"}, {"type": "ByteFallback"}, {"type": "Fuse"}]}
LEVEL = {"type": "ByteLevel"}


@pytest.mark.parametrize(
    ("kind", "prefix", "tokenizer"),
    [
        ("RAW", False, {"decoder": {"type": "WordPiece"}}),
        ("BYTE_LEVEL", False, {"decoder": LEVEL, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True}}),
        ("BYTE_LEVEL", False, {"decoder": {"type": "Sequence", "decoders": [LEVEL]}}),
        ("BYTE_FALLBACK", True, {"decoder": FALLBACK, "normalizer": {"type": "Prepend", "prepend": "▁"}}),
        (
            "BYTE_FALLBACK",
            True,
            {
                "decoder": FALLBACK,
                "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}]},
            },
        ),
        (
            "BYTE_FALLBACK",
            True,
            {"decoder": FALLBACK, "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "first"}},
        ),
        (
            "BYTE_FALLBACK",
            False,
            {"decoder": FALLBACK, "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "never"}},
        ),
    ],
)
def test_how_a_tokenizer_json_writes_tokens(xgr: Any, kind: str, prefix: bool, tokenizer: Any) -> None:
    found = xgr.TokenizerInfo._detect_metadata_from_hf(json.dumps(tokenizer))
    assert found == {"vocab_type": xgr.VocabType[kind], "add_prefix_space": prefix}


def test_wrong_arguments_have_codes() -> None:
    for make, code in (
        (lambda: ours.TokenizerInfo(["a"], 1), "wrong_type"),  # type: ignore[arg-type]
        (lambda: ours.TokenizerInfo([1]), "wrong_type"),  # type: ignore[list-item]
        (lambda: ours.TokenizerInfo(["a"], vocab_size=0), "argument_invalid"),
        (lambda: ours.TokenizerInfo.from_huggingface(object()), "tokenizer_unsupported"),
        (lambda: ours.TokenizerInfo.from_huggingface(object(), stop_token_ids=[]), "argument_invalid"),
    ):
        with pytest.raises(ours.CompatError) as caught:
            make()
        assert caught.value.code == code
