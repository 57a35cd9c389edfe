"""A grammar respelled for the inside of a JSON string: a text is in it exactly if its spelling is in the new one."""

from __future__ import annotations

import json
from random import Random

import pytest
import random_grammars

from narrows import Grammar
from narrows.errors import UnsupportedError
from narrows.grammar import ir
from narrows.grammar.in_json_string import in_json_string, spelled
from narrows.reference import Reference

ALPHABET = b'"\\ab\n'


def module(rng: Random) -> ir.Module:
    vocab = random_grammars.Vocabulary([bytes((byte,)) for byte in ALPHABET], alphabet=ALPHABET)
    while True:
        made = random_grammars.module(rng, vocab)
        try:
            in_json_string(made)
        except UnsupportedError:
            continue
        return made


def read_back(data: bytes) -> list[bytes]:
    """The text that these bytes spell; none if they spell none."""
    try:
        text: bytes = json.loads(b'"' + data + b'"').encode()
    except ValueError:
        return []
    return [text] if spelled(text) == data else []


@pytest.mark.parametrize("seed", range(150))
def test_a_spelling_is_read_exactly_where_its_text_is(seed: int) -> None:
    rng = Random(seed)
    made = module(rng)
    own, inside = Reference(made), Reference(in_json_string(made))
    for _ in range(40):
        text = random_grammars.text(rng, ALPHABET, 0, 6)
        assert own.accepts(text) == inside.accepts(spelled(text)), (made, text)
        assert own.viable(text) == inside.viable(spelled(text)), (made, text)
        assert inside.accepts(text) == any(own.accepts(t) for t in read_back(text)), (made, text)


def test_other_spellings_of_a_character_are_not_read() -> None:
    inside = Reference(in_json_string(Grammar.from_regex(r"[^x]+").module))
    for text, expected in ((r"\n", True), (r"\u000a", False), ("\n", False), (r"\/", False), (r"\u0001", True)):
        assert inside.accepts(text.encode()) == expected, text


@pytest.mark.parametrize("text", ["plain", 'say "no"\n', "C:\\x\t\x00\x1f", "é😀", "\x7f/"])
def test_the_spelling_is_that_of_json(text: str) -> None:
    assert b'"' + spelled(text.encode()) + b'"' == json.dumps(text, ensure_ascii=False).encode()


@pytest.mark.parametrize("lark", ["start: <|im_end|>", "start: <[5]>", 'start: %json {"type": "object"}'])
def test_what_has_no_spelling_is_refused(lark: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        in_json_string(Grammar.from_lark(lark).module)
    assert caught.value.code == "input_unsupported"
