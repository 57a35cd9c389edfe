"""Questions about regular nodes, against sets of texts: every text of up to four letters is in the set or not."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from narrows.errors import LimitError
from narrows.grammar import ir
from narrows.grammar.regular import NEVER, Regular
from narrows.grammar.work import Work
from narrows.limits import Limits

LONGEST = 4
TEXTS = [bytes(text) for n in range(LONGEST + 1) for text in itertools.product(b"ab", repeat=n)]
Texts = frozenset[bytes]
"""The texts of up to `LONGEST` letters that a node matches."""


def joined(first: Texts, second: Texts) -> Texts:
    return frozenset(x + y for x in first for y in second if len(x + y) <= LONGEST)


def repeated(item: Texts, low: int, high: int | None) -> Texts:
    """What is longer than the texts that are looked at needs no more rounds."""
    now: Texts = frozenset([b""])
    found = now if low == 0 else frozenset[bytes]()
    for n in range(1, (low + LONGEST if high is None else high) + 1):
        now = joined(now, item)
        found = found | now if n >= low else found
    return found


def parts(random: Random) -> tuple[ir.Node, Texts]:
    """Parts of a text that is cut anywhere."""
    pieces = random.choices(TEXTS[1:7], k=random.randint(0, 5))
    if random.random() < 0.5:
        pieces = [bytes([letter]) for letter in b"".join(pieces)]
        node = ir.Substrings(b"".join(pieces))
    else:
        node = ir.Substrings(b"".join(piece + ir.CUT for piece in pieces), "pieces")
    runs = itertools.combinations(range(len(pieces) + 1), 2)
    return node, frozenset([b"", *(b"".join(pieces[i:j]) for i, j in runs)])


def random_node(random: Random, depth: int) -> tuple[ir.Node, Texts]:
    kind = random.choice(
        ["bytes", "set", "literals", "substrings"] if depth == 0 else ["seq", "alt", "and", "not", "repeat", "bytes"]
    )
    if kind == "bytes":
        text = random.choice(TEXTS[:7])
        return ir.Bytes(text), frozenset([text])
    if kind == "set":
        letters = random.choice([b"a", b"b", b"ab", b""])
        return ir.byte_set(letters), frozenset(bytes([letter]) for letter in letters)
    if kind == "literals":
        options = random.sample(TEXTS[:15], random.randint(0, 4))
        return ir.Literals(tuple(options)), frozenset(options)
    if kind == "substrings":
        node, whole = parts(random)
        return node, frozenset(text for text in whole if len(text) <= LONGEST)
    inner = [random_node(random, depth - 1) for _ in range(random.randint(1, 3))]
    nodes = tuple(node for node, _ in inner)
    texts = [texts for _, texts in inner]
    if kind == "seq":
        whole = frozenset([b""])
        for some in texts:
            whole = joined(whole, some)
        return ir.Seq(nodes), whole
    if kind == "alt":
        return ir.Alt(nodes), frozenset().union(*texts)
    if kind == "and":
        return ir.And(nodes), texts[0].intersection(*texts[1:])
    if kind == "not":
        return ir.Not(nodes[0]), frozenset(TEXTS) - texts[0]
    low, high = random.randint(0, 3), random.choice([None, random.randint(0, 4)])
    if high is not None and high < low:
        high = low
    return ir.Repeat(nodes[0], low, high), repeated(texts[0], low, high)


def over_letters(regular: Regular, node: ir.Node) -> int:
    """The texts of the node that consist of the two letters, of up to `LONGEST`."""
    return regular.both([regular.of(node), regular.repeat(regular.byte_set(0b11 << ord("a")), 0, LONGEST)])


@pytest.mark.parametrize("part", range(4))
def test_random_nodes_agree_with_sets(part: int) -> None:
    for seed in range(part * 500, part * 500 + 500):
        regular = Regular(Work(Limits()))
        node, expected = random_node(Random(seed), 3)
        term = regular.of(node)
        assert {text for text in TEXTS if regular.matches(term, text)} == expected, seed
        few = over_letters(regular, node)
        assert regular.is_never(few) is not bool(expected), seed
        assert regular.texts(few, len(expected)) == sorted(expected, key=lambda text: (len(text), text)), seed
        if expected:
            assert regular.texts(few, len(expected) - 1) is None, seed


def test_what_was_asked_before_changes_no_answer() -> None:
    """A text that has counted letters after others was once taken for the rest of such a letter, if it had been compared
    with another text before."""
    a, b = ir.byte_set(b"a"), ir.byte_set(b"b")
    text = ir.Seq((ir.Seq((ir.Repeat(a, 3, 6), b)), ir.Repeat(b, 0, 2)))
    regular = Regular(Work(Limits()))
    assert regular.is_never(regular.of(ir.And((text, ir.Repeat(a)))))
    assert regular.is_never(regular.of(ir.And((text, ir.Repeat(ir.byte_set(b"ab"), 0, 3)))))
    assert not regular.is_never(regular.of(ir.And((text, ir.Repeat(ir.byte_set(b"ab"), 0, 4)))))


def test_all_questions_of_a_reading_share_their_terms() -> None:
    work = Work(Limits())
    regular = Regular.of_reading(work)
    assert Regular.of_reading(work) is regular
    node = ir.Repeat(ir.Bytes(b"ab"), 1, 100)
    term = regular.of(node)
    spent = work.spent
    assert regular.of(node) == term
    assert work.spent == spent


def test_nodes_that_share_a_part_share_its_term() -> None:
    work = Work(Limits())
    regular = Regular(work)
    part = ir.Alt(tuple([ir.Bytes(b"%d" % n) for n in range(500)]))
    regular.of(ir.Seq((ir.Bytes(b"a"), part)))
    spent = work.spent
    term = regular.of(ir.Repeat(part))
    assert work.spent - spent < 10
    assert regular.matches(term, b"1499")


def hard(n: int) -> ir.Node:
    """Two texts that are found to exclude each other only after 2 ** n states."""
    letter = ir.byte_set(b"ab")
    any_text = ir.Repeat(letter)
    ends = ir.Seq((any_text, ir.Bytes(b"a"), ir.Repeat(letter, n, n)))
    return ir.And((ends, ir.Not(ir.Seq((ends, ir.optional(ir.Bytes(b"c")))))))


def test_a_question_that_takes_too_long_is_refused() -> None:
    work = Work(Limits(reading_work=2_000))
    work.pointer = "/properties/a"
    regular = Regular.of_reading(work)
    with pytest.raises(LimitError) as error:
        regular.is_never(regular.of(hard(18)))
    assert (error.value.limit, error.value.pointer) == ("reading_work", "/properties/a")


def test_a_question_that_takes_too_much_memory_is_refused() -> None:
    work = Work(Limits(constraint_bytes=100_000))
    regular = Regular.of_reading(work)
    with pytest.raises(LimitError) as error:
        regular.is_never(regular.of(hard(18)))
    assert error.value.limit == "constraint_bytes"


def test_a_node_that_nests_too_deeply_is_refused() -> None:
    node: ir.Node = ir.Bytes(b"a")
    for _ in range(500):
        node = ir.Repeat(ir.Seq((node, ir.Bytes(b"b"))), 2, 3)
    with pytest.raises(LimitError) as error:
        Regular(Work(Limits())).of(node)
    assert error.value.limit == "term_depth"


def test_nothing_is_nothing() -> None:
    regular = Regular(Work(Limits()))
    assert regular.of(ir.NEVER) == NEVER
    assert regular.is_never(NEVER)
    assert regular.texts(NEVER, 0) == []
