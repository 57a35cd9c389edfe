"""Token healing on the small model: the text goes on after the prompt, whatever tokens the prompt's end is cut into."""

from __future__ import annotations

import numpy as np
import pytest
from test_llama_engine import collect, start

import narrows
from narrows.decoding.healing import split
from narrows.errors import InputError

pytestmark = pytest.mark.model


def healed(engine, text, **options):
    (output,) = collect(start(engine, engine.encode(text), token_healing=True, temperature=0, **options))
    assert output.error is None
    return output


def test_a_word_that_the_prompt_cuts_goes_on(engine):
    """The model has rarely seen the tokens of "The capital of France is Par" before "is"."""
    whole = "The capital city of the country called France is Paris"
    for cut in range(1, 6):
        output = healed(engine, whole[:-cut], max_tokens=4)
        assert (whole[:-cut] + output.text).startswith(whole), (whole[:-cut], output.text)
        prompt, rest = split(engine.encode(whole[:-cut]), engine.vocabulary)
        tokens = [*prompt, *output.token_ids]
        assert engine.decode(tokens) == whole[:-cut] + output.text
        assert rest


@pytest.mark.parametrize("text", ["See http:", "def f(x):\n    retur", "A, B and", "I am ", "x =", "Zürich und Gen"])
def test_the_text_is_the_prompt_s_and_then_the_model_s(engine, text):
    output = healed(engine, text, max_tokens=8)
    prompt, _ = split(engine.encode(text), engine.vocabulary)
    assert engine.decode([*prompt, *output.token_ids]) == text + output.text
    assert output.finish_reason == "length"


@pytest.mark.parametrize("text", ["The answer is: tr", 'JSON: {"na', "Number: 1"])
def test_under_a_grammar(engine, text):
    """The grammar holds what comes after the prompt."""
    constraint = engine.vocabulary.compile(narrows.Grammar.from_regex('(ue|ying|me": 1|[0-9]{2}) [a-z]{3}!'))
    output = healed(engine, text, max_tokens=20, constraint=constraint)
    matcher = constraint.matcher()
    assert matcher.accept_bytes(output.text.encode()), output.text
    assert matcher.is_accepting
    prompt, _ = split(engine.encode(text), engine.vocabulary)
    assert engine.decode([*prompt, *output.token_ids]) == text + output.text


def test_with_a_parser_the_prompt_is_not_content(engine):
    hermes = narrows.formats.get("hermes_json")

    def parser(index):
        return hermes.parser(None, vocab=engine.vocabulary)

    text = "The capital city of the country called France is Par"
    output = healed(engine, text, max_tokens=4, parser_factory=parser)
    assert "".join(event.text for event in output.events) == output.text
    assert output.text.startswith("is")


def test_what_is_not_healed(engine):
    vocabulary = engine.vocabulary
    for text in ("<|im_start|>", "word<|im_end|>"):
        tokens = engine.encode(text, parse_special=True)
        assert split(tokens, vocabulary) == (tokens, b"")
    single = engine.encode("Par")
    assert split(single, vocabulary)[0][:1] == single[:1], "one token stays"
    half = [*engine.encode("a b"), next(t for t in range(vocabulary.size) if vocabulary.token_bytes(t) == b"\xc3")]
    _, rest = split(half, vocabulary)
    rest.decode()
    with pytest.raises(InputError) as caught:
        start(engine, single, token_healing=True, output_token_ids=[5])
    assert caught.value.pointer == "/token_healing"


def test_the_mask_has_the_tokens_along_the_rest():
    tokens = [b"", b"ab", b"abc", b"a", b"b", b"x", b"abd", b"\xc3"]
    vocabulary = narrows.Vocabulary(tokens, special={"<end>": 0}, eos=[0])
    for rest in (b"ab", b"a", b"abc", b"b", b"q"):
        expected = {i for i, t in enumerate(tokens) if t and (t.startswith(rest) or rest.startswith(t))}
        assert set(vocabulary._core.along(rest)) == expected
    from narrows.decoding.healing import Healing

    healing = Healing(b"abc", vocabulary)
    assert np.flatnonzero(np.unpackbits(healing.mask().view(np.uint8), bitorder="little")).tolist() == [1, 2, 3]
    healing.took(1)
    assert healing
    healing.took(5)
    assert not healing
