"""`step_work` bounds what a mask really takes, on a real vocabulary: its tokens are what makes some grammars dear."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from real_vocabulary import llama3

from narrows import Grammar, LimitError, Limits, Matcher, NarrowsError, Vocabulary

DEAR = {
    "a loop of nothing behind blanks": ('root ::= a | " " a\na ::= a "é"{2} | root | ""', b" " * 2_048),
    "recursion under counted repetitions": (
        (
            "root ::= [一-鿿] a | [一-鿿] .\n"
            'a ::= [一-鿿] | "é" | ("x" | a root ((root a ","? | a | "é" "ab" root{2}){0,3} [0-9]){5,40} | .{5,40} a) . .'
        ),
        b"",
    ),
    "hundreds of words with counters": (
        "root ::= "
        + " | ".join(f"r{i}" for i in range(250))
        + "".join(f'\nr{i} ::= [a-z]* [a-m]{{{i % 7 + 1},{i % 9 + 20}}} "x{i}" root?' for i in range(250)),
        b"",
    ),
}


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return llama3()


def write(matcher: Matcher, vocabulary: Vocabulary, steps: int, seed: int = 1) -> None:
    """Any token that fits, again and again, until the text ends."""
    choose = random.Random(seed)
    row = np.zeros((vocabulary.size + 31) // 32, np.int32)
    for _ in range(steps):
        matcher.fill_mask(row)
        fitting = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        assert matcher.accept(choose.choice(fitting.tolist()))
        if matcher.is_finished:
            return


@pytest.mark.parametrize("name", DEAR)
def test_a_mask_that_is_too_dear_is_an_error(vocabulary: Vocabulary, name: str) -> None:
    text, begin = DEAR[name]
    matcher = vocabulary.compile(Grammar.from_gbnf(text)).matcher()
    for at in range(0, len(begin), 256):
        assert matcher.accept_bytes(begin[at : at + 256])
    with pytest.raises(LimitError) as caught:
        write(matcher, vocabulary, 12)
    assert caught.value.limit == "step_work"


def test_the_places_of_a_text_that_is_cut_in_many_ways_count() -> None:
    """Each place is a search in 100,000 pieces. As they once cost what a byte set costs, a step of 256 letters took 4 s
    before it met the limit."""
    choose = random.Random(1)
    grammar = Grammar.substring(["a" * choose.randint(1, 3) for _ in range(100_000)])
    letters = Vocabulary([b"a", b"b", b""], {"</s>": 2}, eos=2)
    with pytest.raises(LimitError) as caught:
        letters.compile(grammar, Limits(step_work=4_000_000)).matcher().accept_bytes(b"a" * 20)
    assert caught.value.limit == "step_work"


def test_ordinary_masks_are_far_below(vocabulary: Vocabulary) -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 200},
            "mail": {"type": "string", "format": "email"},
            "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z-]{1,30}$"}, "maxItems": 20},
            "any": {},
        },
        "required": ["name"],
    }
    limits = Limits(step_work=Limits().step_work // 10)
    write(vocabulary.compile(Grammar.from_json_schema(schema), limits=limits).matcher(), vocabulary, 40)


# A pattern, what stands beside it, a text, and at most so many states for each of its characters.
FEW_STATES = {
    "words": (r"^(?:\S+\s+){0,99}\S+$", {}, "We are looking for a supplier to help us.", 6),
    "zones": (
        "("
        + "|".join(f"{place}{n}-az{k}" for place in ("ap", "us", "eu", "sa", "ca") for n in "1234" for k in "123")
        + ")",
        {},
        "use1 or us1-az1",
        3,
    ),
    "a trace": (r"\d+-[A-Fa-f0-9]*-[A-Fa-f0-9]{24}", {}, "1-60f6f7e7-0123456789abcdef", 6),
    "a trace with a length": (
        r"\d+-[A-Fa-f0-9]*-[A-Fa-f0-9]{24}",
        {"minLength": 35},
        "1-60f6f7e7-0123456789abcdef",
        40,
    ),
    "a length, and something left out": (
        ".",
        {"maxLength": 255, "not": {"pattern": "foo"}},
        "a foa text that goes on",
        12,
    ),
    "a password": (r"^(?=.*[A-Z])(?=.*[0-9])(?=.*[a-z])(?!.*\s).{8,64}$", {}, "Passw0rd-is-long-enough", 90),
    "a path": (r"^(?!.*\.\.)(/[^/\0]{1,255})+$", {"maxLength": 4096}, "/usr/local/lib/python", 12),
}


@pytest.mark.parametrize("name", FEW_STATES)
def test_text_with_many_states_is_read_beside_text_without(vocabulary: Vocabulary, name: str) -> None:
    """A walk over the whole vocabulary for each mask would visit thousands of states, and take a millisecond each."""
    pattern, more, text, most = FEW_STATES[name]
    constraint = vocabulary.compile(Grammar.from_json_schema({"type": "string", "pattern": pattern, **more}))
    matcher = constraint.matcher()
    row = np.zeros((vocabulary.size + 31) // 32, np.int32)
    matcher.fill_mask(row)
    before = constraint.stats()["shared_states"]
    for byte in f'"{text}'.encode():
        assert matcher.accept_bytes(bytes([byte]))
        matcher.fill_mask(row)
    assert not constraint.is_apart
    assert constraint.stats()["shared_states"] - before < most * len(text)


def test_keys_by_a_pattern_beside_declared_ones_have_no_state_for_each_number() -> None:
    """With a state for each length that a key may still have, the mask takes eight times as much."""
    choose = random.Random(5)
    words = {"".join(choose.choices("etaoin_", k=choose.randint(2, 9))).encode() for _ in range(2_000)}
    few = Vocabulary([bytes([b]) for b in range(256)] + sorted(words))
    schema = {
        "type": "object",
        "properties": {"index": {"type": "string"}},
        "patternProperties": {"^[a-z_]{1,255}$": {"type": "integer"}},
        "additionalProperties": False,
    }
    matcher = few.compile(Grammar.from_json_schema(schema), limits=Limits(step_work=35_000)).matcher()
    assert matcher.accept_bytes(b'{"')
    matcher.fill_mask(np.zeros((few.size + 31) // 32, np.int32))


def words(count: int, begin: int = 0) -> str:
    """Words of 3 to 10 letters, as alternatives of a pattern."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return "|".join("".join(random.Random(n).choices(letters, k=3 + n % 8)) for n in range(begin, begin + count))


# Schemas of many words. Each met the limit within some tokens, at a time when every state looked at every word.
MANY_WORDS = {
    "in any case, near a greatest length": {"pattern": f"(?i:{words(200)})", "maxLength": 20},
    "in any case, with a length": {"pattern": f"(?i:{words(200)})", "minLength": 20, "maxLength": 60},
    "two lists": {"allOf": [{"pattern": words(200)}, {"pattern": words(200, 200)}]},
    "two lists, near a greatest length": {
        "allOf": [{"pattern": words(200)}, {"pattern": words(200, 200)}],
        "maxLength": 20,
    },
    "two lists with a greatest length": {
        "allOf": [{"pattern": words(200)}, {"pattern": words(200, 200)}],
        "maxLength": 60,
    },
    "one of some and none of others, with a greatest length": {
        "pattern": words(200),
        "not": {"pattern": words(200, 200)},
        "maxLength": 40,
    },
    "three lists": {"allOf": [{"pattern": words(100, n)} for n in (0, 100, 200)], "minLength": 30},
    "none of them": {"not": {"pattern": words(200)}},
    "none of them, in any case": {"not": {"pattern": f"(?i:{words(200)})"}, "minLength": 10, "maxLength": 100},
    "none of them, as a look-ahead": {"pattern": f"^(?!.*(?:{words(200)}))"},
    "one of some and none of others": {"pattern": words(200), "not": {"pattern": words(200, 200)}},
    "exactly one of two lists": {"oneOf": [{"pattern": words(50)}, {"pattern": words(300, 50)}]},
    "beside a format": {"format": "uri", "pattern": words(200)},
    "an address with one of some": {"format": "email", "pattern": words(20)},
    "an address with one of some, in any case": {"format": "email", "pattern": f"(?i:{words(20)})"},
    "an address with one of some, and not much room": {"format": "email", "pattern": words(60), "maxLength": 20},
    "an address with one of many, with a length": {"format": "email", "pattern": words(200), "maxLength": 100},
    "a host's name with one of some, in any case": {"format": "hostname", "pattern": f"(?i:{words(20)})"},
    "a resource with one of some, in any case": {
        "format": "uri-reference",
        "pattern": f"(?i:{words(20)})",
        "maxLength": 100,
    },
    "keys": {"type": "object", "patternProperties": {words(200): {"type": "integer"}}},
    "keys of two kinds": {
        "type": "object",
        "patternProperties": {words(200): {"type": "integer"}, words(200, 200): {"minimum": 3}},
    },
}


@pytest.mark.parametrize("name", MANY_WORDS)
def test_many_words_beside_something_can_be_written(vocabulary: Vocabulary, name: str) -> None:
    schema = {"type": "string"} | MANY_WORDS[name]
    constraint = vocabulary.compile(Grammar.from_json_schema(schema))
    for seed in range(4):
        write(constraint.matcher(), vocabulary, 12, seed)


def test_rules_that_take_too_much_together_are_refused_before_the_text() -> None:
    """Each of them is well below the limit, and so is each pair. What is known of them already would help."""
    lists = [{"pattern": words(200, n)} for n in (0, 200, 400)]
    schema = {"type": "object", "properties": {"name": {"type": "string", "allOf": lists, "maxLength": 60}}}
    with pytest.raises(LimitError) as caught:
        llama3().compile(Grammar.from_json_schema(schema))
    assert (caught.value.limit, caught.value.pointer) == ("step_work", "/properties/name/allOf/2/pattern")


def random_lists(choose: random.Random) -> dict[str, Any]:
    """One or two lists of words, mostly beside a format, a length, or a list that is left out."""

    def listed() -> str:
        found = words(choose.choice((20, 60, 100, 200)), choose.randrange(600))
        return choose.choice(("{}", "{}", "^({})", "({})$", "(?i:{})", r"\b({})\b")).format(found)

    found = {
        "type": "string",
        "allOf": [{"pattern": listed()} for _ in range(choose.choice((1, 1, 1, 2)))],
        "format": choose.choice((None, "email", "hostname", "uri", "uri-reference", "iri", "regex", "idn-email")),
        "maxLength": choose.choice((None, None, 20, 60, 100, 255)),
        "not": choose.choice((None, None, {"pattern": listed()})),
    }
    return {keyword: value for keyword, value in found.items() if value is not None}


@pytest.mark.parametrize("runs", [6, pytest.param(200, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
def test_random_lists_are_refused_before_the_text_or_can_be_written(runs: int) -> None:
    for seed in range(runs):
        vocabulary = llama3()
        choose = random.Random(seed)
        schema = random_lists(choose)
        try:
            constraint = vocabulary.compile(Grammar.from_json_schema(schema))
        except NarrowsError as error:
            if error.code not in ("limit_reached", "unsatisfiable"):
                raise
            continue
        try:
            write(constraint.matcher(), vocabulary, choose.choice((5, 12, 25)), seed)
        except LimitError as error:
            raise AssertionError(f"seed {seed}: {schema}") from error


@pytest.mark.parametrize("flag", ["", "i"])
def test_one_of_many_words_anywhere_can_be_written(vocabulary: Vocabulary, flag: str) -> None:
    """Such a pattern moves apart soon, and is read beside plain text there, too. Without that, the first mask took more
    work than a step may."""
    listed = words(200)
    schema = {"type": "string", "pattern": f"(?{flag}:{listed})"}
    constraint = vocabulary.compile(Grammar.from_json_schema(schema))
    write(constraint.matcher(), vocabulary, 12)
    matcher = constraint.matcher()
    row = np.zeros((vocabulary.size + 31) // 32, np.int32)
    for part in ['"', "not ", listed.split("|")[7][:2], listed.split("|")[7][2:], '"']:
        matcher.fill_mask(row)
        assert matcher.accept_bytes(part.encode())
    assert matcher.is_accepting


def test_an_address_of_any_language_with_lengths_and_without_a_word_can_be_written(vocabulary: Vocabulary) -> None:
    """Without its greatest numbers it still has thousands of states, so a walk over these is no help."""
    lengths = {"pattern": "^.{5,40}$", "minLength": 10, "maxLength": 30}
    schema = {"type": "string", "format": "idn-email", "not": {"pattern": "test"}, **lengths}
    matcher = vocabulary.compile(Grammar.from_json_schema(schema)).matcher()
    assert matcher.accept_bytes(b'"')
    write(matcher, vocabulary, 12)


HOST = r"^(?!.*://)(?=.{1,255}$)((.{1,63}\.){1,127}(?![0-9]*$)[a-z0-9-]+\.?)$"
RULE = {
    "oneOf": [
        {"type": "string", "minLength": 1},
        {"type": "object", "properties": {"rules": {"$ref": "#/$defs/rules"}}, "additionalProperties": False},
    ]
}
RULES = {"type": "object", "properties": {f"rule {number}": RULE for number in range(39)}}
# Schemas with a text that met the limit. In the first, an alternative began at each dot of the text, and of each token.
# In the one with unique objects, each key had a text of its own for what may come after it. In the last, the parts of what
# may come were looked at once for each of the ways that lead to them, 2^40, and no limit counted that.
LONG_ONES = {
    "a host's name": ({"type": "string", "pattern": HOST}, '"www.example.com"'),
    "a host's name of many parts": ({"type": "string", "pattern": HOST}, f'"{"a-b." * 55}org"'),
    "a host's name of parts of one letter": ({"type": "string", "pattern": HOST}, f'"{"q." * 126}com"'),
    "a host's name whose labels look around": (
        {"type": "string", "pattern": r"^((?!-)[A-Za-z0-9-]{1,63}(?<!-)\.)+[A-Za-z]{2,6}$", "maxLength": 253},
        f'"www.ex-ample.{"a-b." * 40}org"',
    ),
    "unique objects of many keys": (
        {"$ref": "#/$defs/rules", "$defs": {"rules": {"type": "array", "uniqueItems": True, "items": RULES}}},
        '[{"rule 1": "//", "rule 2": "ab"}, {"rule 1": "//", "rule 3": {"rules": [{"rule 1": "cd"}]}}]',
    ),
    "a part that looks ahead, 40 times": (
        {"type": "string", "pattern": "^(?:a(?!a)|bc?){1,40}$"},
        '"ababbcab"',
    ),
}


@pytest.mark.timeout(120, method="thread")  # a loop in the core hears no signal
@pytest.mark.parametrize("name", LONG_ONES)
def test_every_mask_of_a_text_is_made(vocabulary: Vocabulary, name: str) -> None:
    schema, text = LONG_ONES[name]
    matcher = vocabulary.compile(Grammar.from_json_schema(schema)).matcher()
    row = np.zeros((vocabulary.size + 31) // 32, np.int32)
    for byte in text.encode():
        matcher.fill_mask(row)
        assert matcher.accept_bytes(bytes([byte]))
    assert matcher.is_accepting
