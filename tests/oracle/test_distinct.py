"""Names that come once in a run of a rule (`ir.Distinct`): the engine's masks equal the oracle's, where tokens hold whole keys, several
keys, halves of escapes, and where the grammar is ambiguous about what is a key."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from random import Random

import numpy as np
import pytest
import random_grammars
from test_masks import Oracle, Walk

import narrows
from narrows.errors import GrammarError
from narrows.grammar import ir
from narrows.grammar.json_schema import schema_module
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.reference import Reference

AB = ir.byte_set(b"ab")
BARE = ir.Lexeme(ir.Repeat(AB, 1))
BYTES = narrows.Vocabulary([bytes([b]) for b in range(256)] + [b""], special={"<end>": 256}, eos=[256])
PIECES = [
    *(bytes((b,)) for b in b"\"ab\\u00612{}:,'1=n<q>"),
    *(b'"a"', b'":1', b'":1,"', b'a":1,"b":1', b'1,"a":1', b'{"a":', b'"}', b'},"', b'":{"', b"\\u", b"0061", b'61"'),
    *(
        b"a=",
        b"b,",
        b"a=1,b=",
        b",a=1",
        b"=1,",
        b"'a'",
        b"':1,'",
        b"\\'",
        b'\\"',
        b"aa",
        b"ab",
        b"ba",
        b"1,",
        b'u0061":1,"a"',
        b'"a":1,"b":1',
        b'":1,"a":',
        b'a":1,"a"',
        b',"\\u0061":',
        b'1,"ab":1,"a"',
        b',"b":{"a"',
        b'},"a":1,"b"',
        b',"a\\"b":',
        b",'a\\'b':",
    ),
]


def key(rng: Random) -> ir.Node:
    """A part that reads a name, of which there is always another one."""
    kind = rng.randrange(5)
    if kind == 0:
        return ir.Distinct(BARE)
    if kind == 1:
        return ir.Seq((ir.Marker("<q>"), ir.Distinct(BARE), ir.Marker("<q>")))
    if kind == 2:
        body = ir.Repeat(ir.alt(AB, ir.Literals((b"\\'", b"\\\\", b"\\n"))))
        return ir.Distinct(ir.Lexeme(ir.Seq((ir.Bytes(b"'"), body, ir.Bytes(b"'")))), "single")
    escapes = ir.Literals((b"\\u0061", b"\\u0062", b'\\"', b"\\u0022"))
    string = ir.Seq((ir.Bytes(b'"'), ir.Repeat(ir.alt(AB, escapes)), ir.Bytes(b'"')))
    if kind == 3:
        return ir.Distinct(ir.Lexeme(string), "json")
    return ir.Distinct(ir.Lexeme(ir.And((string, ir.Not(ir.Literals((b'"a"', b'"b"')))))), "json")


def pair(rng: Random) -> ir.Node:
    value = ir.alt(ir.Bytes(b"1"), ir.Ref("object"), *rng.sample([BARE, ir.EMPTY, ir.Lexeme(ir.Repeat(AB))], 1))
    colon = ir.Bytes(rng.choice((b":", b"=")))
    made = ir.Seq((key(rng), colon, value))
    if rng.random() < 0.4:  # the same text may be read as something else
        plain = key(rng)
        plain = plain.item if isinstance(plain, ir.Distinct) else plain
        return ir.alt(made, ir.Seq((plain, colon, value)))
    return made


def module(rng: Random) -> ir.Module:
    comma = ir.Bytes(b",")
    member = pair(rng)
    high = rng.choice((None, None, 3))
    tail = ir.Repeat(ir.Seq((comma, member)), 0, high)
    body = ir.Seq((member, tail))
    if rng.random() < 0.4:
        body = ir.Seq((ir.optional(ir.Seq((ir.Lexeme(ir.Literals((b'"a":1', b"a=1"))), comma))), body))
    if rng.random() < 0.3:
        body = ir.alt(body, ir.Seq((member, comma, pair(rng), ir.Repeat(ir.Seq((comma, pair(rng)))))))
    braces = rng.random() < 0.7  # without them the end of an object is open, and so is whose key comes next
    rule = ir.Seq((ir.Bytes(b"{"), body, ir.Bytes(b"}"))) if braces else body
    return ir.Module({"root": ir.Ref("object"), "object": ir.alt(rule, ir.Bytes(b"n"))})


def vocabulary(rng: Random) -> random_grammars.Vocabulary:
    pieces: list[bytes | None] = [piece for piece in PIECES if len(piece) == 1 or rng.random() < 0.6]
    end = len(pieces)
    special = {"<q>": end + 1} if rng.random() < 0.5 else {}
    return random_grammars.Vocabulary([*pieces, b"", *([b""] * len(special))], special, [end])


def walk(seed: int, limits: Limits = DEFAULT_LIMITS) -> int:
    rng = Random(seed)
    vocab = vocabulary(rng)
    made = module(rng)
    if rng.random() < 0.3:
        limits = replace(limits, object_keys=rng.choice((1, 2)))
    oracle = Oracle(made, vocab)
    oracle.reference = Reference(made, special=vocab.special, eos=vocab.eos, object_keys=limits.object_keys)
    oracle.places = {(): oracle.reference.start}
    compiled = narrows.Vocabulary(vocab.tokens, special=vocab.special, eos=vocab.eos, limits=limits)
    return Walk(compiled.compile(narrows.Grammar(made), limits), oracle, rng).go(14)


def test_masks_equal_the_oracle() -> None:
    depths = []
    for seed in range(100):
        try:
            depths.append(walk(seed))
        except AssertionError as error:
            raise AssertionError(f"walk({seed}): {error}") from error
    assert sum(depth >= 8 for depth in depths) > 26


def test_masks_equal_the_oracle_under_little_memory() -> None:
    small = Limits(constraint_bytes=60_000, vocabulary_bytes=100_000)
    for seed in range(40):
        try:
            walk(seed, small)
        except narrows.LimitError as error:
            assert error.limit in ("constraint_bytes", "vocabulary_bytes"), seed  # noqa: PT017


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_masks_equal_the_oracle_at_length() -> None:
    for seed in range(1_000, 4_000):
        walk(seed)


@lru_cache(maxsize=4)
def compiled(schema: str, limits: Limits, *options: tuple[str, str]) -> tuple[narrows.Constraint, Reference]:
    made = schema_module(schema, **dict(options)).module  # type: ignore[arg-type]
    return BYTES.compile(narrows.Grammar(made), limits), Reference(made, object_keys=limits.object_keys)


def accepts(schema: object, text: str, limits: Limits = DEFAULT_LIMITS, **options: str) -> bool:
    constraint, reference = compiled(json.dumps(schema), limits, *options.items())
    matcher = constraint.matcher()
    accepted = matcher.accept_bytes(text.encode()) and matcher.is_accepting
    assert reference.accepts(text.encode()) is accepted
    return accepted


KEYS = ["a", "é", "😀", "/", "\\\\", '\\"', "\\n", "\\u0061b", "", " ", "a\\u0000"]
SPELLED = {
    "a": "\\u0061",
    "é": "\\u00E9",
    "😀": "\\uD83D\\uDE00",
    "/": "\\/",
    "\\\\": "\\u005c",
    '\\"': "\\u0022",
    "\\n": "\\u000A",
    "\\u0061b": "ab",
    "a\\u0000": "\\u0061\\u0000",
}


@pytest.mark.parametrize(
    "schema", [{"type": "object"}, {"properties": {"p": {}}, "additionalProperties": True}], ids=str
)
@pytest.mark.parametrize("name", KEYS)
def test_no_key_twice_in_any_spelling(schema: object, name: str) -> None:
    again = SPELLED.get(name, name)
    for first, second in ((name, name), (name, again), (again, name)):
        assert not accepts(schema, f'{{"{first}":1,"{second}":2}}')
        assert not accepts(schema, f'{{"{first}":1,"x":{{}},"{second}":2}}')
    assert accepts(schema, f'{{"{name}":1,"{again}y":2,"z{again}":3}}')
    assert accepts(schema, f'{{"{name}":{{"{again}":1}},"x":[{{"{again}":1}},{{"{name}":1}}]}}')
    assert not accepts(schema, f'{{"x":[{{"{again}":1,"{name}":1}}]}}')


def test_beyond_the_bound_names_may_come_again() -> None:
    few = replace(DEFAULT_LIMITS, object_keys=2)
    schema = {"type": "object"}
    assert not accepts(schema, '{"a":1,"b":1,"a":1}', few)
    assert not accepts(schema, '{"a":1,"b":1,"c":1,"b":1}', few)
    assert accepts(schema, '{"a":1,"b":1,"c":1,"c":1}', few)
    many = ",".join(f'"k{i}":1' for i in range(DEFAULT_LIMITS.object_keys))
    matcher = BYTES.compile(narrows.Grammar(schema_module(schema).module)).matcher()
    assert matcher.accept_bytes(f"{{{many}".encode())
    assert not matcher.fork().accept_bytes(b',"k7":')
    assert matcher.fork().accept_bytes(b',"new":1,"new":1}')


def test_the_shortest_end_and_forced_bytes_keep_it() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    matcher = BYTES.compile(narrows.Grammar(schema_module(schema, whitespace="compact").module)).matcher()
    assert matcher.accept_bytes(b'{"ab":1,"ab')
    row = np.zeros((257 + 31) // 32, dtype=np.int32)
    matcher.fill_mask(row)
    assert not row[ord('"') >> 5] >> (ord('"') & 31) & 1
    end = bytes(token for token in matcher.shortest_end() if token < 256)
    assert end[:1] != b'"'
    assert matcher.accept_bytes(end)
    assert matcher.is_accepting
    for style in ("json.dumps", "compact", "bounded"):
        matcher = BYTES.compile(narrows.Grammar(schema_module({"type": "object"}, whitespace=style).module)).matcher()
        assert matcher.accept_bytes(b'{"": 1,' if style == "json.dumps" else b'{"":1,')
        assert matcher.accept_bytes(bytes(token for token in matcher.shortest_end() if token < 256))
        assert matcher.is_accepting


def test_what_leaves_a_string_is_found_once_for_all_keys() -> None:
    """Names make places of their own; the tokens behind a closing quote do not depend on them, but for those that end a key, too."""
    vocabulary = narrows.Vocabulary(
        [*(bytes([b]) for b in range(256)), *dict.fromkeys(p for p in PIECES if len(p) > 1)]
    )
    constraint = vocabulary.compile(narrows.Grammar.from_json_schema({"type": "object"}))
    matcher = constraint.matcher()
    row = np.zeros((vocabulary.size + 31) // 32, dtype=np.int32)

    def read(text: str) -> dict[str, int]:
        for byte in text.encode():
            assert matcher.accept_bytes(bytes((byte,)))
            matcher.fill_mask(row)
        return constraint.stats()

    before = read("{" + "".join(f'"some_key_{i}": "value {i}", ' for i in range(10, 20)))
    after = read("".join(f'"some_key_{i}": "value {i}", ' for i in range(20, 60)))
    assert after["crossings"] - before["crossings"] < 40
    assert after["shared_states"] - before["shared_states"] < 40
    assert after["shared_bytes"] - before["shared_bytes"] < 80_000 * 40


def test_a_rule_that_begins_with_itself_cannot_hold_names() -> None:
    """Left recursion becomes a loop in one run of the rule."""
    rule = ir.alt(ir.Seq((ir.Ref("root"), ir.Bytes(b","), ir.Distinct(BARE))), ir.Distinct(BARE))
    with pytest.raises((GrammarError, narrows.NarrowsError)) as caught:
        BYTES.compile(narrows.Grammar(ir.Module({"root": rule})))
    assert caught.value.code == "ir_invalid"


@pytest.mark.parametrize("count", [300, 3_000])
def test_a_set_of_many_values_takes_little_memory(count: int) -> None:
    """One that is longer than a list of its own for each set of names, and a shorter one."""
    values = [f"value-{k * 7 % count:04d}é" for k in range(count)]
    module = schema_module(
        {"type": "array", "items": {"enum": values}, "uniqueItems": True}, whitespace="compact"
    ).module
    constraint = BYTES.compile(narrows.Grammar(module))
    matcher = constraint.matcher()
    assert matcher.accept_bytes(b"[")
    for value in values[:120]:
        assert matcher.accept_bytes(json.dumps(value, ensure_ascii=False).encode() + b",")
    for value in values[:120:17]:
        for spelled in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
            assert not matcher.accept_bytes(spelled.encode())
    assert matcher.accept_bytes(json.dumps(values[120]).encode() + b"]")
    assert constraint.bytes < 5_000_000
