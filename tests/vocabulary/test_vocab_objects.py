"""tiktoken encodings, transformers tokenizers, and things that are neither."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import tiktoken
import trained
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows import Vocabulary
from narrows.errors import LimitError, VocabularyError
from narrows.limits import Limits
from narrows.vocabulary.loaders import tiktoken_encoding, tokenizers_object, transformers_object
from narrows.vocabulary.loaders.data import assemble

RANKS = {bytes((b,)): b for b in range(256)} | {b"he": 256, b"hel": 257, "é".encode(): 258, b"\xe6\x9d": 260}
SPECIAL = {"<|endoftext|>": 261, "<|return|>": 262, "<|call|>": 265}


def encoding() -> tiktoken.Encoding:
    return tiktoken.Encoding("small", pat_str=r".|\n", mergeable_ranks=RANKS, special_tokens=SPECIAL)


def test_tiktoken() -> None:
    found = tiktoken_encoding.load(encoding())
    assert found.size == 266
    assert [found.tokens[i] for i in (0, 255, 257, 258, 259, 260)] == [
        b"\0",
        b"\xff",
        b"hel",
        "é".encode(),
        None,
        b"\xe6\x9d",
    ]
    assert found.tokens[261:] == [b"", b"", None, None, b""]
    assert found.special == SPECIAL
    assert found.eos == [261, 262, 265]
    assert tiktoken_encoding.load(encoding(), eos="<|return|>", size=300).eos == [262]
    assert len(tiktoken_encoding.load(encoding(), size=300).tokens) == 300


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(sorted(RANKS.values()))))
def test_tiktoken_decodes_to_the_joined_bytes(ids: list[int]) -> None:
    found = tiktoken_encoding.load(encoding())
    assert encoding().decode_bytes(ids) == b"".join(found.tokens[i] or b"" for i in ids)


def test_transformers_fast() -> None:
    tok = trained.byte_level()
    end = tok.token_to_id("<|im_end|>")
    wrapped = SimpleNamespace(backend_tokenizer=tok, eos_token_id=end)
    assert transformers_object.load(wrapped) == tokenizers_object.load(tok, eos=end)
    assert transformers_object.load(wrapped, eos="<s>").eos == [tok.token_to_id("<s>")]
    wrapped = SimpleNamespace(backend_tokenizer=tok, eos_token_id=[end, 0])
    assert transformers_object.load(wrapped, size=1000).eos == sorted([end, 0])


def test_transformers_around_tiktoken() -> None:
    wrapped = SimpleNamespace(model=encoding(), eos_token_id=262)
    assert transformers_object.load(wrapped) == tiktoken_encoding.load(encoding(), eos=262)


@pytest.mark.parametrize("load", [tiktoken_encoding.load, tokenizers_object.load, transformers_object.load])
def test_not_a_tokenizer(load: object) -> None:
    for thing in (None, "gpt2", 5, object()):
        with pytest.raises(VocabularyError) as caught:
            load(thing)  # type: ignore[operator]
        assert caught.value.code == "tokenizer_unsupported"


def test_limits() -> None:
    assert (
        assemble(
            {0: b"x" * 5, 9: b"y"}, {"</s>": 1}, eos=None, size=None, limits=Limits(vocabulary_tokens=10, token_bytes=5)
        ).size
        == 10
    )
    for limits, name in ((Limits(vocabulary_tokens=9), "vocabulary_tokens"), (Limits(token_bytes=4), "token_bytes")):
        with pytest.raises(LimitError) as caught:
            assemble({0: b"x" * 5, 9: b"y"}, {"</s>": 1}, eos=None, size=None, limits=limits)
        assert caught.value.limit == name
    with pytest.raises(LimitError):  # padding counts
        assemble({0: b"x"}, {"</s>": 1}, eos=None, size=11, limits=Limits(vocabulary_tokens=10))


def test_size_below_the_tokenizer_drops_tokens_and_names() -> None:
    found = assemble({0: b"a", 3: b"b"}, {"</s>": 1, "<image>": 2}, eos=None, size=2)
    assert (found.tokens, found.special, found.eos, found.size) == ([b"a", b""], {"</s>": 1}, [1], 2)


@pytest.mark.parametrize("eos", [[], [True], [1.5], 2, -1, "nothing", [[0]]])
def test_bad_end_tokens(eos: object) -> None:
    with pytest.raises(VocabularyError) as caught:
        assemble({0: b"a"}, {"</s>": 1}, eos=eos, size=None)  # type: ignore[arg-type]
    assert caught.value.code in ("eos_invalid", "eos_missing")


@pytest.mark.parametrize("token", [3, "three", [3], True])
def test_what_is_no_bytes_is_no_token(token: object) -> None:
    with pytest.raises(VocabularyError, match="token 1 must be bytes"):
        Vocabulary([b"a", token])  # type: ignore[list-item]
