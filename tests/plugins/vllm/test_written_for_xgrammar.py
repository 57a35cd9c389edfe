"""A grammar that narrows writes for an upstream with xgrammar: xgrammar's masks are narrows', at each step of random texts.

Special tokens that the grammar does not name count as refused: the upstream is told to ban them.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
import xgrammar

from narrows import Grammar, Vocabulary, formats
from narrows.errors import NarrowsError
from narrows.grammar.export import Dialect, write
from narrows.grammar.flatten import flatten
from narrows.limits import DEFAULT_LIMITS

SPECIAL = {"<|im_start|>": 256, "<|im_end|>": 257, "<tool_call>": 258, "</tool_call>": 259, "<think>": 260}
WORDS = ["é", "🦩", '"city', "}}", ": ", "the", "00", "日本", '{"name": ', "ab"]
TOKENS = [bytes((byte,)) for byte in range(256)] + [b""] * len(SPECIAL) + [word.encode() for word in WORDS]
END = 257
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 20},
                "day": {"type": "string", "format": "date"},
                "word": {"type": "string", "pattern": "^[é-ü]+x$", "maxLength": 9},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
PATTERNS = ["a(b|€)*[^x]{2,300}", "(?s).*", "[à-ü]+|日本", r"\w+\d?", "(?:a?b?){2,5}", r"[\]\-^\\\"]+"]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary(TOKENS, special=SPECIAL, eos=[END])


@pytest.fixture(scope="module")
def compiler() -> Any:
    names = {token: name for name, token in SPECIAL.items()}
    tokens = [names[i].encode() if i in names else data for i, data in enumerate(TOKENS)]
    info = xgrammar.TokenizerInfo(
        tokens, vocab_type=xgrammar.VocabType.RAW, vocab_size=len(tokens), stop_token_ids=[END]
    )
    return xgrammar.GrammarCompiler(info, max_threads=1)


def bits(row: Any) -> set[int]:
    found = np.unpackbits(np.asarray(row).view(np.uint8), bitorder="little")[: len(TOKENS)]
    return set(found.nonzero()[0].tolist())


def compare(grammar: Grammar, vocabulary: Vocabulary, compiler: Any, rng: Random) -> None:
    arrays = flatten(grammar.module, vocabulary.facts, DEFAULT_LIMITS)
    options: Any = {"end_tokens": (END,), "names": vocabulary.special}
    written = write(arrays, Dialect.XGRAMMAR, **options)
    ours = vocabulary.compile(Grammar.from_gbnf(write(arrays, **options).text))
    theirs = compiler.compile_grammar(xgrammar.Grammar.from_ebnf(written.text))
    banned = set(SPECIAL.values()) - written.tokens - {END}
    row = np.zeros((len(TOKENS) + 31) // 32, dtype=np.int32)
    for _ in range(3):
        matcher, other = ours.matcher(), xgrammar.GrammarMatcher(theirs)
        for _ in range(30):
            matcher.fill_mask(row)
            mask = xgrammar.allocate_token_bitmask(1, len(TOKENS))
            other.fill_next_token_bitmask(mask)
            allowed = bits(row)
            assert bits(mask.numpy()[0]) - banned == allowed
            if not allowed:
                break
            token = rng.choice(sorted(allowed))
            assert matcher.accept(token)
            assert other.accept_token(token)
            if matcher.is_finished:
                break


@pytest.mark.parametrize("choice", ["required", "auto"])
@pytest.mark.parametrize("name", formats.names())
def test_turns(name: str, choice: str, vocabulary: Vocabulary, compiler: Any) -> None:
    grammar = formats.get(name).grammar([TOOL], tool_choice=choice)
    try:
        compare(grammar, vocabulary, compiler, Random(name))
    except NarrowsError as error:
        if (name, error.code) != ("hyperclovax", "token_not_writable"):
            raise


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(pattern: str, vocabulary: Vocabulary, compiler: Any) -> None:
    compare(Grammar.from_regex(pattern), vocabulary, compiler, Random(pattern))
