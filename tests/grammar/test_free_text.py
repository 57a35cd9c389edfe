"""Free text with triggers: the rule, read off directly, against the reference and the engine; and `Grammar.free_text`."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import narrows
from narrows.errors import InputError
from narrows.grammar import ir
from narrows.grammar.free_text import Switch, endings_before, switching
from narrows.grammar.grammar import Grammar
from narrows.grammar.work import Work
from narrows.limits import DEFAULT_LIMITS
from narrows.reference import Reference

VOCABULARY = narrows.Vocabulary([b"a", b"b", b"c", b"ab", b"bca", b"cc", b"aa"])
TEXTS = ["".join(letters) for length in range(7) for letters in itertools.product("abc", repeat=length)]
words = st.text("abc", min_size=1, max_size=3)


def may_be_run(text: str, start: int, end: int, stop: str, banned: set[str]) -> bool:
    """The rule: nothing banned begins in the run text[start:end] and is complete when the stop behind it is."""
    return not any(
        text.startswith(string, at) and at + len(string) <= end + len(stop)
        for string in banned
        for at in range(start, end)
    )


def is_switching(
    text: str, switches: list[tuple[str, str]], excluded: set[str], before: str, once: bool, some: bool
) -> bool:
    """Whether the text is runs with triggers and what follows them, with `before` behind it. Tries all ways to cut
    it."""
    banned = {trigger for trigger, _ in switches} | excluded
    whole = text + before
    todo, seen = [(0, 0)], set()
    while todo:
        start, count = todo.pop()
        if (start, count) in seen:
            continue
        seen.add((start, count))
        ends_here = start == len(text) if once and count else may_be_run(whole, start, len(text), before, banned)
        if ends_here and count >= some:
            return True
        if once and count:
            continue
        for at in range(start, len(text) + 1):
            for trigger, rest in switches:
                if text.startswith(trigger + rest, at) and may_be_run(text, start, at, trigger, banned):
                    todo.append((at + len(trigger + rest), 1))
    return False


@settings(max_examples=60)
@given(
    st.lists(st.tuples(words, st.text("abc", max_size=2)), max_size=3),
    st.sets(words, max_size=2),
    st.one_of(st.just(""), words),
    st.booleans(),
    st.booleans(),
)
def test_the_rule(switches: list[tuple[str, str]], excluded: set[str], before: str, once: bool, some: bool) -> None:
    nodes = [Switch(trigger.encode(), ir.Bytes((trigger + rest).encode())) for trigger, rest in switches]
    work = Work(DEFAULT_LIMITS)
    node = switching(
        nodes,
        [text.encode() for text in excluded],
        work,
        before=before.encode(),
        stop_after_first=once,
        at_least_one=some,
    )
    grammar = Grammar(ir.Module({"root": ir.seq(node, ir.Bytes(before.encode()))}))
    reference = Reference(grammar.module)
    matcher = VOCABULARY.compile(grammar).matcher() if switches or not some else None
    for text in TEXTS[:400]:
        wanted = is_switching(text, switches, excluded, before, once, some)
        assert reference.accepts((text + before).encode()) == wanted, text
        if matcher is not None:
            matcher.reset()
            assert (matcher.accept_bytes((text + before).encode()) and matcher.is_accepting) == wanted, text


@given(st.lists(words, min_size=1, max_size=3), st.sets(words, max_size=4))
def test_what_a_run_must_not_end_with(stops: list[str], banned: set[str]) -> None:
    found = endings_before([stop.encode() for stop in stops], [b.encode() for b in banned], Work(DEFAULT_LIMITS))
    for stop, endings in zip(stops, found, strict=True):
        for run in TEXTS[:364]:
            if any(string in run for string in banned):
                continue
            bad = not may_be_run(run + stop, 0, len(run), stop, banned)
            assert bad == any(run.encode().endswith(ending) for ending in endings), (run, stop)


# The combinator.

DIGITS = Grammar.from_regex(r"[0-9]+;")
JSON = Grammar.from_json_schema({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
BYTES = narrows.Vocabulary([bytes([byte]) for byte in range(256)])


def reads(grammar: Grammar, text: str) -> bool:
    matcher = BYTES.compile(grammar).matcher()
    accepted = matcher.accept_bytes(text.encode()) and matcher.is_accepting
    assert accepted == Reference(grammar.module).accepts(text.encode()), text
    return accepted


@pytest.mark.parametrize(
    ("options", "accepted", "refused"),
    [
        (
            {},
            ["", "text", "#1;", "a #12; b{{ #3;", "<", '<j>{"a": 1}', 'x<j>{"a": 1}y<j>{"a": 2}'],
            ["#", "#x", "<j>{}"],
        ),
        ({"at_least_one": True}, ["#1;", "a #1; b"], ["", "text"]),
        ({"stop_after_first": True}, ["", "text", "a #1;"], ["#1; b", "#1;#1;"]),
        ({"at_least_one": True, "stop_after_first": True}, ["#1;", "a#1;"], ["", "a", "#1;a"]),
        ({"excludes": ["no", ";"]}, ["n#1;o"], ["no", "a;", "#1;;"]),
    ],
)
def test_free_text(options: dict[str, Any], accepted: list[str], refused: list[str]) -> None:
    grammar = Grammar.free_text({"#": DIGITS, "<j>": JSON}, **options)
    for text in accepted + refused:
        assert reads(grammar, text) == (text in accepted), text


def test_free_text_alone() -> None:
    assert reads(Grammar.free_text({}), "anything é")
    assert not reads(Grammar.free_text({}, excludes=["any"]), "anything")


def test_free_text_in_free_text() -> None:
    inner = Grammar.free_text({"(": Grammar.choice(["1)"])}, excludes=["]"], at_least_one=True)
    grammar = Grammar.free_text({"[": inner}, stop_after_first=True)
    for text, accepted in (("a[b(1)c", True), ("a[b", False), ("a[(1)]", False), ("(", True)):
        assert reads(grammar, text) == accepted, text


def test_grammars_that_fuse_and_those_that_do_not() -> None:
    """Rules of both kinds lie in one module."""
    gbnf = Grammar.from_gbnf('root ::= "x" root? "y" | z\nz ::= [0-9]{2}')
    grammar = Grammar.free_text({"<g>": gbnf, "<j>": JSON, "<r>": DIGITS})
    assert reads(grammar, 'a<g>x12y<j>{"a": 5}<r>7;')


def test_the_report_and_the_places_begin_with_the_trigger() -> None:
    grammar = Grammar.free_text({"</a~b>": JSON})
    assert grammar.report["/<~1a~0b>/properties/a/type"] == "exact"
    assert set(grammar.module.sources.values()) == {"", "/<~1a~0b>"}


def test_triggers_may_be_special_tokens() -> None:
    vocabulary = narrows.Vocabulary([b"a", b"<", b"x", b">", b"1", None], special={"<x>": 5})
    matcher = vocabulary.compile(Grammar.free_text({"<x>": Grammar.choice(["1"])})).matcher()
    assert matcher.accepts([0, 1, 2, 0]) == 4
    assert matcher.accepts([1, 2, 3]) == 2  # the trigger is never spelled
    assert matcher.accepts([0, 5, 4, 0]) == 4


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (({"": DIGITS},), "trigger_invalid"),
        (({"\ud800": DIGITS},), "trigger_invalid"),
        (({"a": "b"},), "wrong_type"),
        ((["a"],), "wrong_type"),
        (({5: DIGITS},), "wrong_type"),
    ],
)
def test_refused(arguments: Any, code: str) -> None:
    with pytest.raises(InputError) as caught:
        Grammar.free_text(*arguments)
    assert caught.value.code == code
    with pytest.raises(InputError):
        Grammar.free_text({}, excludes=[""])
