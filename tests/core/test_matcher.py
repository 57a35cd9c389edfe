"""What a matcher promises beyond its masks (tests/oracle holds those): errors, threads, epochs, forced and shortest texts."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

import narrows
from narrows import Grammar, Limits, Vocabulary

WORDS = [
    b"hello",
    b"he",
    b"llo",
    b"lo",
    b" wor",
    b"ld",
    b'"}',
    b'":',
    b'{"',
    b'",',
    b"  ",
    b"true",
    b"name",
    b"na",
    b"12",
    b'": "',
]
TOKENS: list[bytes | None] = [bytes([b]) for b in range(256)] + list(WORDS) + [b""]
END = len(TOKENS) - 1
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 300}, "n": {"type": "array", "items": {"type": "integer"}}},
    "required": ["name"],
    "additionalProperties": False,
}


def vocabulary(**limits: int) -> Vocabulary:
    return Vocabulary(TOKENS, {"</s>": END}, eos=END, limits=Limits(**limits))


def row_for(vocab: Vocabulary) -> NDArray[np.int32]:
    return np.zeros((vocab.size + 31) // 32, np.int32)


def mask(matcher: narrows.Matcher) -> set[int]:
    row = row_for(matcher.constraint.vocabulary)
    matcher.fill_mask(row)
    return {t for t in range(len(row) * 32) if row[t >> 5] >> (t & 31) & 1}


def greedy(text: bytes) -> list[int]:
    """A tokenizer that takes the longest token at each place."""
    ids = []
    while text:
        best = max(
            (t for t in range(END) if TOKENS[t] and text.startswith(TOKENS[t] or b"")),
            key=lambda t: len(TOKENS[t] or b""),
        )
        ids.append(best)
        text = text[len(TOKENS[best] or b"") :]
    return ids


def test_a_row_must_fit() -> None:
    vocab = vocabulary()
    matcher = vocab.compile(Grammar.from_json_schema(SCHEMA)).matcher()
    with pytest.raises(narrows.InputError) as caught:
        matcher.fill_mask(np.zeros(3, np.int32))
    assert caught.value.code == "mask_shape"
    with pytest.raises(narrows.InputError, match="row must be a writable numpy array of int32"):
        matcher.fill_mask(np.zeros(9, np.float32))  # type: ignore[arg-type]
    frozen = row_for(vocab)
    frozen.flags.writeable = False
    with pytest.raises(narrows.InputError, match="writable"):
        matcher.fill_mask(frozen)
    with pytest.raises(narrows.InputError):
        narrows.fill_masks([matcher], np.zeros((2, len(frozen)), np.int32))


@pytest.mark.parametrize("token", [-1, len(TOKENS), 1 << 40])
def test_a_token_outside_the_vocabulary_raises(token: int) -> None:
    matcher = vocabulary().compile(Grammar.choice(["a"])).matcher()
    for call in (matcher.accept, matcher.explain, lambda t: matcher.accepts([t])):
        with pytest.raises(narrows.TokenError) as caught:
            call(token)
        assert caught.value.code == "token_out_of_range"
    assert len(matcher) == 0


def test_ids_beyond_the_tokenizer_are_never_allowed() -> None:
    vocab = Vocabulary([b"a", b"b"], size=70)
    matcher = vocab.compile(Grammar.from_regex("[ab]*")).matcher()
    row = np.full(3, -1, np.int32)
    matcher.fill_mask(row)
    assert row.tolist() == [3, 0, 0]
    assert not matcher.accept(69)


def test_an_end_token_finishes_and_rollback_opens_again() -> None:
    matcher = vocabulary().compile(Grammar.choice(["a", "ab"])).matcher()
    assert not matcher.accept(END)
    assert matcher.accept(ord("a"))
    assert matcher.is_accepting
    assert mask(matcher) == {ord("b"), END}
    assert matcher.accept(END)
    assert matcher.is_finished
    assert mask(matcher) == set()
    assert not matcher.accept(ord("b"))
    assert matcher.forced_tokens() == []
    matcher.rollback(1)
    assert not matcher.is_finished
    assert mask(matcher) == {ord("b"), END}


def test_rollback_beyond_the_start_raises_and_changes_nothing() -> None:
    matcher = vocabulary().compile(Grammar.choice(["abc"])).matcher()
    matcher.accept(ord("a"))
    with pytest.raises(narrows.InputError) as caught:
        matcher.rollback(2)
    assert caught.value.code == "rollback_too_far"
    assert len(matcher) == 1
    assert mask(matcher) == {ord("b")}


def test_replay_names_the_token_that_does_not_fit() -> None:
    matcher = vocabulary().compile(Grammar.choice(["abc"])).matcher()
    matcher.replay([ord("a"), ord("b")])
    assert mask(matcher) == {ord("c")}
    with pytest.raises(narrows.InputError) as caught:
        matcher.replay([ord("a"), ord("x")])
    assert (caught.value.code, caught.value.offset) == ("replay_rejected", 1)


def test_forks_go_their_own_ways() -> None:
    first = vocabulary().compile(Grammar.choice(["abc", "abd"])).matcher()
    first.accept(ord("a"))
    second = first.fork()
    assert first.accept(ord("b"))
    assert first.accept(ord("c"))
    assert mask(second) == {ord("b")}
    assert mask(first) == {END}


def test_one_matcher_in_two_threads_raises_or_waits_for_nothing() -> None:
    constraint = vocabulary().compile(Grammar.from_json_schema({}))
    matcher = constraint.matcher()
    text = greedy(b"[" + b'"hello world", ' * 400)
    caught: list[narrows.ConcurrentUseError] = []
    start = threading.Barrier(4)

    def use() -> None:
        start.wait()
        for _ in range(3000):
            try:
                matcher.accepts(text)
            except narrows.ConcurrentUseError as error:
                caught.append(error)
                return

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert caught
    assert caught[0].code == "concurrent_use"
    assert matcher.accept(ord("["))  # and it still works


def test_many_threads_share_a_constraint() -> None:
    constraint = vocabulary().compile(Grammar.from_json_schema(SCHEMA))
    texts = [json.dumps({"name": "hello world " * i, "n": list(range(i * 7))}).encode() for i in range(8)]
    expected = [walk(vocabulary().compile(Grammar.from_json_schema(SCHEMA)).matcher(), greedy(t)) for t in texts]
    found: list[list[frozenset[int]] | None] = [None] * len(texts)

    def use(i: int) -> None:
        found[i] = walk(constraint.matcher(), greedy(texts[i]))

    threads = [threading.Thread(target=use, args=(i,)) for i in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def walk(matcher: narrows.Matcher, tokens: Sequence[int]) -> list[frozenset[int]]:
    masks = []
    for token in tokens:
        masks.append(frozenset(mask(matcher)))
        assert matcher.accept(token)
    return masks


@pytest.mark.parametrize("limits", [{"constraint_bytes": 50_000}, {"vocabulary_bytes": 60_000}])
def test_nothing_changes_when_what_is_remembered_is_dropped(limits: dict[str, int]) -> None:
    text = greedy(json.dumps({"name": "hello world, " * 20, "n": list(range(60))}).encode())
    expected = walk(vocabulary().compile(Grammar.from_json_schema(SCHEMA)).matcher(), text)
    small = vocabulary(**limits)
    grammar = Grammar.from_json_schema(SCHEMA)
    constraint = small.compile(grammar, limits=Limits(**limits))
    one, two = constraint.matcher(), constraint.matcher()
    assert walk(one, text) == expected
    small.compile(Grammar.from_regex(r"[a-z]{3,200}(foo|bar)*\d+")).matcher().accept_bytes(b"some" * 30)
    assert walk(two, text) == expected
    assert constraint.stats()["epoch"] > 1
    assert mask(one) == mask(two)
    one.rollback(5)
    assert frozenset(mask(one)) == expected[-5]


def test_batches_equal_single_masks_with_and_without_threads() -> None:
    vocab = vocabulary()
    constraint = vocab.compile(Grammar.from_json_schema(SCHEMA))
    matchers = []
    for length in range(70):
        matchers.append(constraint.matcher())
        assert matchers[-1].accept_bytes(b'{"name": "hello world, hello world, hello world"}'[: length % 50])
    width = len(row_for(vocab))
    for threads in (None, 1, 3, 200):
        rows = np.full((len(matchers), width), -1, np.int32)
        narrows.fill_masks(matchers, rows, threads=threads)
        for matcher, row in zip(matchers, rows, strict=True):
            single = row_for(vocab)
            matcher.fill_mask(single)
            assert (row == single).all()


def test_draft_rows_must_fit() -> None:
    matcher = vocabulary().compile(Grammar.choice(["ab"])).matcher()
    rows = np.zeros((2, len(row_for(matcher.constraint.vocabulary))), np.int32)
    with pytest.raises(narrows.InputError) as caught:
        matcher.fill_draft_masks([ord("a"), ord("b")], rows)
    assert caught.value.code == "mask_shape"
    with pytest.raises(narrows.InputError):
        matcher.fill_draft_masks([ord("a")], rows, parents=[0])
    matcher.fill_draft_masks([ord("a")], rows, parents=[-1])
    assert rows[1].any()
    assert len(matcher) == 0


def test_forced_bytes_stop_where_there_is_a_choice() -> None:
    matcher = vocabulary().compile(Grammar.choice(["hello world", "hello wonder"])).matcher()
    assert matcher.forced_bytes() == b"hello wo"
    assert matcher.forced_bytes(at_most=3) == b"hel"
    assert len(matcher) == 0


def test_forced_tokens_leave_to_the_model_what_a_longer_token_could_reach_across() -> None:
    vocab = Vocabulary([b"a", b"b", b"ab", b"c", b"cd", b"d", b"abc"], eos=())
    by_longest = {"ab": [2], "abc": [6], "c": [3], "abcab": [6, 2], "cab": [3, 2]}
    matcher = vocab.compile(Grammar.choice(["abcd", "abcc"])).matcher()
    assert matcher.forced_bytes() == b"abc"
    # "abc" is one token, and none that is longer starts with it; its tail "c" could have become "cd", but it is no token start.
    assert matcher.forced_tokens(by_longest.__getitem__) == [6]
    matcher = vocab.compile(Grammar.choice(["aba", "abb"])).matcher()
    assert matcher.forced_bytes() == b"ab"
    assert matcher.forced_tokens(by_longest.__getitem__) == []  # "abc" starts with it
    matcher = vocab.compile(Grammar.choice(["cabx", "caba"])).matcher()
    assert matcher.accept(3)
    assert matcher.forced_tokens(lambda text: by_longest[text]) == []


def test_forced_tokens_without_a_tokenizer_follow_single_bits() -> None:
    matcher = vocabulary().compile(Grammar.from_regex("0{3}[12]")).matcher()
    assert matcher.forced_tokens() == [ord("0")] * 3


def test_shortest_end_closes_what_is_open() -> None:
    matcher = vocabulary().compile(Grammar.from_json_schema(SCHEMA)).matcher()
    assert matcher.accept_bytes(b'{"name": "he')
    end = matcher.shortest_end()
    assert b"".join(TOKENS[t] or b"" for t in end) == b'"}'
    assert matcher.tokens_to_end() == len(end) == 1
    matcher.replay([*greedy(b'{"name": "he'), *end])
    assert matcher.is_accepting
    assert matcher.shortest_end() == []


def test_shortest_end_says_when_the_vocabulary_lacks_a_byte() -> None:
    matcher = Vocabulary([b"a"]).compile(Grammar.choice(["ab"])).matcher()
    with pytest.raises(narrows.InputError) as caught:
        matcher.tokens_to_end()
    assert caught.value.code == "not_spellable"


def test_explain_names_rules_places_and_what_was_expected() -> None:
    matcher = (
        vocabulary().compile(Grammar.from_gbnf('root ::= greeting " " [0-9]+\ngreeting ::= "hello" | "help"')).matcher()
    )
    allowed = matcher.explain(TOKENS.index(b"he"))
    assert allowed.allowed
    refused = matcher.explain(TOKENS.index(b" wor"))
    assert (refused.allowed, refused.offset, refused.expected) == (False, 0, b"h")
    assert "expected h" in str(refused)
    assert matcher.accept_bytes(b"hel")
    partly = matcher.explain(TOKENS.index(b"lo"))
    assert partly.allowed
    assert matcher.explain(TOKENS.index(b"ld")).offset == 1


def test_a_special_token_is_reached_by_name_alone() -> None:
    tokens: list[bytes | None] = [bytes([b]) for b in range(256)] + [b"<m>", b"</s>"]
    vocab = Vocabulary(tokens, {"<m>": 256, "</s>": 257}, eos=[257])
    assert vocab.token_bytes(256) == b""
    matcher = vocab.compile(Grammar.choice(["<m>"])).matcher()
    assert mask(matcher) == {ord("<")}
    assert not matcher.accept(256)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"tokens": [b"a"], "special": {"x": 3}}, "outside"),
        ({"tokens": [b"a"], "eos": [7]}, "outside"),
        ({"tokens": [b"a", b"b"], "size": 1}, "size"),
    ],
)
def test_a_vocabulary_that_does_not_hold_together_is_refused(arguments: dict[str, object], part: str) -> None:
    with pytest.raises(narrows.VocabularyError, match=part):
        Vocabulary(**arguments)  # type: ignore[arg-type]


def test_a_row_that_is_not_aligned_is_refused() -> None:
    vocab = vocabulary()
    matcher = vocab.compile(Grammar.from_regex("a*")).matcher()
    row = np.zeros(4 * len(row_for(vocab)) + 4, np.uint8)[1:-3].view(np.int32)
    with pytest.raises(narrows.InputError, match="multiple of 4") as caught:
        matcher.fill_mask(row)
    assert caught.value.code == "mask_shape"


@pytest.mark.parametrize("tokens", [[ord("a"), ord("x")], [ord("a"), 10**6], ["a"], [ord("a"), None]])
def test_replay_that_fails_changes_nothing(tokens: list[int]) -> None:
    matcher = vocabulary().compile(Grammar.from_regex("b?abcd")).matcher()
    assert matcher.accept(ord("a"))
    assert matcher.accept_bytes(b"bc")
    with pytest.raises(narrows.NarrowsError):
        matcher.replay(tokens)
    assert (matcher.steps(), matcher.forced_bytes()) == ([ord("a"), b"bc"], b"d")


def test_forced_tokens_are_without_the_special_ones_that_a_tokenizer_adds() -> None:
    tokens = [*(bytes([b]) for b in range(256)), b"", b""]
    vocab = Vocabulary(tokens, {"<s>": 256, "</s>": 257}, eos=257)
    for grammar in (Grammar.from_regex("abc"), Grammar.from_gbnf('root ::= <s> "abc"')):
        matcher = vocab.compile(grammar).matcher()
        matcher.accept(256)
        for taken in range(3):
            assert matcher.forced_tokens(lambda text: [256, *text.encode(), 257]) == [*b"abc"[taken:]]
            assert matcher.accept(b"abc"[taken])


@pytest.mark.parametrize("given", [None, "abc", 3, object()])
def test_a_tokenizer_that_returns_something_else_is_named(given: object) -> None:
    matcher = vocabulary().compile(Grammar.from_regex("abc")).matcher()
    with pytest.raises(narrows.InputError, match="encode must return a list of token ids") as caught:
        matcher.forced_tokens(lambda text: given)  # type: ignore[arg-type, return-value]
    assert (caught.value.code, caught.value.pointer) == ("wrong_type", "/encode")


def test_a_copy_of_a_matcher_is_a_fork() -> None:
    matcher = vocabulary().compile(Grammar.from_regex("[ab]{4}")).matcher()
    assert matcher.accept(ord("a"))
    for made in (copy.copy(matcher), copy.deepcopy(matcher), copy.deepcopy([matcher])[0]):
        assert made.constraint is matcher.constraint
        assert made.accept(ord("b"))
        assert (len(made), len(matcher)) == (2, 1)
    assert copy.deepcopy(matcher.constraint) is matcher.constraint
    assert copy.deepcopy(matcher.constraint.vocabulary) is matcher.constraint.vocabulary
