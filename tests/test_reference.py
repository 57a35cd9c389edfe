"""The oracle against two things that are simpler still: a table of cases, and sets of strings computed bottom-up."""

from __future__ import annotations

import itertools
import random
from functools import partial, reduce

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from narrows.grammar import ir
from narrows.reference import Reference

A, B, C = ir.Bytes(b"a"), ir.Bytes(b"b"), ir.Bytes(b"c")
E = ir.Ref("e")
DIGITS = ir.Lexeme(ir.Repeat(ir.byte_set((48, 57)), 1, 3))


def module(root: ir.Node, **rules: ir.Node) -> ir.Module:
    return ir.Module({"root": root, **rules})


CASES = {
    "bytes": (module(ir.Bytes(b"ab")), ["ab"], ["", "a"], ["b", "abc", "aa"]),
    "empty text": (module(ir.EMPTY), [""], [""], ["a"]),
    "never": (module(ir.NEVER), [], [], ["", "a"]),
    "empty byte set": (module(ir.Seq((A, ir.ByteSet(0)))), [], [], ["", "a"]),
    "no literals": (module(ir.Alt((ir.Literals(()), B))), ["b"], [""], ["a"]),
    "literals": (module(ir.Literals((b"ab", b"abc", b"x"))), ["ab", "abc", "x"], ["", "a", "ab"], ["b", "xa", "abcd"]),
    "left recursion": (module(E, e=ir.Alt((ir.Seq((E, B)), A))), ["a", "ab", "abbb"], [""], ["b", "ba"]),
    "mutual left recursion": (
        module(ir.Ref("x"), x=ir.Alt((ir.Seq((ir.Ref("y"), A)), A)), y=ir.Alt((ir.Seq((ir.Ref("x"), B)), B))),
        ["a", "ba", "aba", "bababa"],
        ["", "b", "ab"],
        ["bb", "aa"],
    ),
    "ambiguity": (module(E, e=ir.Alt((ir.Seq((E, E)), A))), ["a", "aaaaaaaaaaaa"], [""], ["b", "ab"]),
    "a rule that is itself": (module(E, e=ir.Alt((E, A))), ["a"], [""], ["aa"]),
    "nothing but itself": (module(ir.Alt((E, B)), e=E), ["b"], [""], ["a"]),
    "nullable loop": (
        module(E, e=ir.Repeat(ir.Repeat(ir.Alt((A, ir.EMPTY, ir.Ref("e")))))),
        ["", "a", "aaa"],
        [],
        ["b"],
    ),
    "nullable left recursion": (module(E, e=ir.Alt((ir.Seq((E, E, A)), ir.EMPTY))), ["", "a", "aaa"], [], ["b"]),
    "repeat": (
        module(ir.Repeat(E, 2, 3), e=ir.Alt((A, ir.Bytes(b"bc")))),
        ["aa", "bca", "aaa"],
        ["", "a", "bcb"],
        ["aaaa"],
    ),
    "repeat of nothing": (module(ir.Repeat(E, 5, 1_000_000), e=ir.optional(A)), ["", "a", "aaaaaaa"], [], ["b"]),
    "repeat of nothing, twice": (
        module(ir.Repeat(ir.Repeat(E, 2, 3), 2, 2), e=ir.optional(A)),
        ["", "a", "aaaaaa"],
        [],
        ["aaaaaaa"],
    ),
    "repeat of nothing in a lexeme": (
        module(ir.Lexeme(ir.Repeat(ir.Repeat(ir.optional(A), 2, 3), 2, 2))),
        ["", "a", "aaaaaa"],
        [],
        ["aaaaaaa"],
    ),
    "repeat backwards": (module(ir.Alt((ir.Repeat(ir.optional(A), 3, 2), B))), ["b"], [""], ["a"]),
    "repeat none": (module(ir.Seq((ir.Repeat(E, 0, 0), B)), e=A), ["b"], [""], ["a"]),
    "repeat what cannot be": (module(ir.Seq((ir.Repeat(E), B)), e=ir.Seq((A, E))), ["b"], [""], ["a"]),
    "unproductive branch": (module(ir.Alt((ir.Seq((A, E)), B)), e=ir.Seq((A, E))), ["b"], [""], ["a"]),
    "balanced": (
        module(E, e=ir.Alt((ir.Seq((ir.Bytes(b"("), E, ir.Bytes(b")"), E)), ir.EMPTY))),
        ["", "()", "(())()"],
        ["(", "(()"],
        [")", "())"],
    ),
    "intersection": (
        module(ir.And((ir.Repeat(ir.byte_set(b"ab"), 2, 4), ir.Seq((ir.Repeat(ir.ANY_BYTE), A))))),
        ["ba", "aa", "bbba"],
        ["", "b", "bbb"],
        ["bbbb", "c", "aaaaa"],
    ),
    "empty intersection": (module(ir.Seq((A, ir.And((ir.Repeat(A, 1), ir.Repeat(B, 1)))))), [], [], ["", "a", "aa"]),
    "any but": (
        module(ir.And((ir.Repeat(ir.byte_set(b"ab"), 1), ir.Not(ir.Literals((b"ab", b"a")))))),
        ["b", "aa", "aba"],
        ["", "a", "ab"],
        ["c"],
    ),
    "double negation": (module(ir.Not(ir.Not(A))), ["a"], [""], ["b", "aa"]),
    "long count": (
        module(ir.Seq((ir.Lexeme(ir.And((ir.Repeat(A, 0, 100_000), ir.Not(ir.Bytes(b"aa"))))), B))),
        ["b", "ab", "aaab"],
        ["", "a", "aa"],
        ["aab", "ba"],
    ),
    "lexeme in a rule": (
        module(E, e=ir.Alt((ir.Seq((E, ir.Bytes(b"+"), E)), DIGITS, ir.Seq((ir.Bytes(b"("), E, ir.Bytes(b")")))))),
        ["1", "1+22", "(1+333)+4"],
        ["", "1+", "((1)"],
        ["1234", "+", "1)", "()"],
    ),
    "marker as text": (module(ir.Seq((ir.Marker("<x>"), A))), ["<x>a"], ["", "<x"], ["a"]),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    grammar, sentences, prefixes, others = CASES[name]
    reference = Reference(grammar)
    for text in sentences:
        assert reference.accepts(text.encode()), text
        assert all(reference.viable(text[:k].encode()) for k in range(len(text) + 1)), text
    for text in prefixes:
        assert reference.viable(text.encode()), text
        assert text in sentences or not reference.accepts(text.encode()), text
    for text in others:
        assert not reference.viable(text.encode()), text
        assert not reference.accepts(text.encode()), text


def test_deep_nesting_needs_no_recursion() -> None:
    node: ir.Node = A
    for _ in range(5_000):
        node = ir.Seq((ir.Alt((node, B)),))
    assert Reference(module(node)).accepts(b"a")
    assert Reference(module(ir.Lexeme(node))).accepts(b"b")


VOCAB = [b"a", b"b", b"ab", b"aab", b"", None, b"<e>", b"<x>", b"<", b"x>", b"c"]
SPECIAL = {"<e>": 6, "<x>": 7}


@pytest.mark.parametrize(
    ("root", "text", "allowed"),
    [
        (ir.Repeat(A), [], {0, 6}),
        (ir.Repeat(A), [0, 6], set()),
        (ir.Seq((ir.Repeat(A), B)), [], {0, 1, 2, 3}),
        (ir.Seq((ir.Repeat(A), B)), [2], {6}),
        (ir.Seq((ir.Marker("<x>"), A)), [], {7}),
        (ir.Seq((ir.Marker("<y>"), A)), [], {8}),
        (ir.Seq((ir.Marker("<x>"), A)), [7], {0}),
        (ir.Seq((A, ir.Marker("<e>"))), [0], {6}),
        (ir.Seq((A, ir.Marker("<e>"), A)), [0, 6], set()),
        (ir.Seq((ir.Token((2, 4)), A)), [], {2, 4}),
        (ir.Seq((ir.Token((2, 4)), A)), [4], {0}),
        (ir.Seq((ir.Token((0,), negate=True), B)), [], {1, 2, 3, 4, 7, 8, 9, 10}),
        # Token 2 as a symbol, then b; or as its bytes, and then c.
        (ir.Alt((ir.Seq((ir.Token((2,)), B)), ir.Bytes(b"abc"))), [2], {1, 10}),
        (ir.Token(()), [], set()),
        (ir.Alt((ir.Seq((A, ir.Token(()))), B)), [], {1}),
    ],
)
def test_masks(root: ir.Node, text: list[int], allowed: set[int]) -> None:
    reference = Reference(module(root), special=SPECIAL, eos=[6])
    assert reference.mask(text, VOCAB) == allowed
    assert Reference(module(root)).mask(text, VOCAB, SPECIAL, [6]) == allowed


# Sets of strings over {a, b} up to a length, by the definition of each node: the second opinion.

LENGTH = 5
ALL = frozenset(bytes(t) for n in range(LENGTH + 1) for t in itertools.product(b"ab", repeat=n))

leaves = st.sampled_from(
    [A, B, ir.EMPTY, ir.NEVER, ir.byte_set(b"ab"), ir.ByteSet(0), ir.Literals((b"a", b"ab")), ir.Bytes(b"ba")]
)


def composites(inner: st.SearchStrategy[ir.Node]) -> st.SearchStrategy[ir.Node]:
    items = st.lists(inner, min_size=0, max_size=3).map(tuple)
    return st.one_of(
        items.map(ir.Seq),
        items.map(ir.Alt),
        st.builds(ir.Repeat, inner, st.integers(0, 2), st.sampled_from([None, 0, 1, 2, 3])),
    )


regular = st.recursive(
    leaves,
    lambda inner: st.one_of(
        composites(inner), inner.map(ir.Not), st.lists(inner, min_size=1, max_size=3).map(lambda i: ir.And(tuple(i)))
    ),
    max_leaves=6,
)
free = st.recursive(
    st.one_of(leaves, regular.map(ir.Lexeme), st.sampled_from(["root", "p", "q"]).map(ir.Ref)), composites, max_leaves=6
)


def joined(left: frozenset[bytes], right: frozenset[bytes]) -> frozenset[bytes]:
    return frozenset(x + y for x in left for y in right if len(x) + len(y) <= LENGTH)


def strings(node: ir.Node, rules: dict[str, frozenset[bytes]]) -> frozenset[bytes]:
    match node:
        case ir.Bytes(data):
            return frozenset([data])
        case ir.ByteSet(bits):
            return frozenset(bytes([b]) for b in b"ab" if bits >> b & 1)
        case ir.Literals(options):
            return frozenset(options)
        case ir.Seq(items):
            return reduce(joined, (strings(i, rules) for i in items), frozenset([b""]))
        case ir.Alt(items):
            return frozenset().union(*(strings(i, rules) for i in items))
        case ir.And(items):
            return reduce(frozenset.intersection, (strings(i, rules) for i in items))
        case ir.Not(item):
            return ALL - strings(item, rules)
        case ir.Lexeme(item):
            return strings(item, rules)
        case ir.Ref(name):
            return rules[name]
        case ir.Repeat(item, low, high):
            one = strings(item, rules)
            power, found = frozenset([b""]), frozenset[bytes]()
            for count in range(low + LENGTH + 2 if high is None else high + 1):
                found |= power if count >= low else frozenset()
                power = joined(power, one)
            return found
    raise AssertionError(node)


at_least_two = partial(ir.Repeat, min=2, max=None)


@settings(max_examples=150, deadline=None)
@example(
    ir.Repeat(at_least_two(at_least_two(at_least_two(ir.Ref("p")))), 0, None),
    ir.Seq((A, ir.Lexeme(ir.Not(ir.EMPTY)))),
    A,
)
@given(free, free, free)
def test_against_sets_of_strings(root: ir.Node, p: ir.Node, q: ir.Node) -> None:
    bodies = {"root": root, "p": p, "q": q}
    language = dict.fromkeys(bodies, frozenset[bytes]())
    while (larger := {name: strings(body, language) for name, body in bodies.items()}) != language:
        language = larger
    reference = Reference(ir.Module(bodies))
    prefixes = {text[:k] for text in language["root"] for k in range(len(text) + 1)}
    for text in ALL:
        place = reference.position(text)
        assert place.accepting == (text in language["root"]), text
        assert place.viable or text not in prefixes, text
        if len(text) <= 2 and place.viable:
            assert completed(reference, text), text


def completed(reference: Reference, text: bytes) -> bool:
    """Whether some completion is found by trying the bytes a, b and c: breadth first, and then by chance, for a text may need many
    bytes."""
    places = [reference.position(text)]
    for place in places:
        if place.accepting:
            return True
        places.extend(after for byte in b"abc" if (after := reference.after(place, byte)).viable)
        if len(places) > 3_000:
            break
    choose = random.Random(0)
    for _ in range(20):
        place = places[0]
        for _ in range(100):
            place = choose.choice([after for byte in b"abc" if (after := reference.after(place, byte)).viable])
            if place.accepting:
                return True
    return False
