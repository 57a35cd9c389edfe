"""What a matcher does at the edges: the end of a text, steps taken back, tokens and bitmasks that do not fit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import narrows.compat.xgrammar as ours


def test_a_text_from_its_start_to_its_end(sequence: Any) -> None:
    at = sequence("a(b|ab)*")
    assert at.allowed() == [2, 4]
    assert at.matcher.find_jump_forward_string() == "a"
    assert not at.matcher.is_completed()
    assert at.accept(0, 13, 14, 99, -1, 5, 1) == [False] * 7
    assert at.accept(2) == [True]
    assert at.allowed() == [1, 2, 3, 4]
    assert at.matcher.is_completed()
    assert not at.matcher.is_terminated()
    assert at.matcher.find_jump_forward_string() == ""
    assert at.accept(1) == [True]
    assert at.matcher.is_terminated()
    assert at.matcher.is_completed()


def test_after_the_stop_token_nothing_comes(sequence: Any) -> None:
    at = sequence("a")
    at.accept(2, 1)
    assert at.accept(1, 2) == [False, False]
    assert not at.matcher.accept_string("")
    with pytest.raises(RuntimeError):
        at.allowed()
    with pytest.raises(RuntimeError):
        at.matcher.find_jump_forward_string()
    at.matcher.rollback()
    assert not at.matcher.is_terminated()
    assert at.allowed() == [1]


def test_steps_are_taken_back(sequence: Any) -> None:
    at = sequence("[ab]*")
    at.accept(2, 4)
    assert at.matcher.accept_string("bab")
    assert at.matcher.accept_string(b"")
    at.accept(1)
    at.matcher.rollback(2)
    at.matcher.rollback(0)
    at.matcher.rollback(3)
    with pytest.raises(RuntimeError):
        at.matcher.rollback(1)
    assert at.matcher.max_rollback_tokens == -1


def test_texts_may_end_within_a_character(sequence: Any) -> None:
    at = sequence("é|è")
    assert at.matcher.accept_string(b"\xc3")
    assert not at.matcher.is_completed()
    assert at.matcher.accept_string(b"\xa9")
    assert at.matcher.is_completed()


def test_the_text_that_must_come(sequence: Any) -> None:
    assert sequence("éab|éb").matcher.find_jump_forward_string() == "é"
    assert sequence("ab?").matcher.find_jump_forward_string() == "a"
    assert sequence('\\{"a":1\\}').matcher.find_jump_forward_string() == '{"a":1}'


def test_a_part_of_a_character_is_no_text_to_jump_to() -> None:
    """xgrammar raises UnicodeDecodeError here."""
    at = ours.testing._get_matcher_from_grammar(ours.Grammar.from_regex("aé|aè"))
    assert at.find_jump_forward_string() == "a"
    at.accept_string(b"a\xc3")
    assert at.find_jump_forward_string() == ""


def test_forks_and_resets(sequence: Any) -> None:
    at = sequence("aab*")
    at.accept(2)
    other = at.matcher.fork()
    assert other.accept_token(4)
    assert other.accept_token(1)
    assert not at.matcher.is_terminated()
    assert at.allowed() == [2, 4]
    assert other.stop_token_ids == [1]
    other.rollback(3)
    assert other.find_jump_forward_string() == "aa"
    at.matcher.reset()
    assert at.matcher.find_jump_forward_string() == "aa"


def test_a_text_that_ends_by_itself(sequence: Any) -> None:
    at = sequence("ab?", terminate_without_stop_token=True)
    assert not at.matcher.is_terminated()
    assert at.accept(2) == [True]
    assert at.matcher.is_terminated()
    assert at.allowed() == [1, 3]
    assert at.accept(1, 3) == [False, True]
    assert at.matcher.is_terminated()
    assert at.allowed() == [1]
    assert at.accept(1) == [False]
    assert not at.matcher.accept_string("b")


def test_other_stop_tokens(sequence: Any) -> None:
    at = sequence("a", override_stop_tokens=[3, 4])
    assert at.matcher.stop_token_ids == [3, 4]
    assert at.accept(2) == [True]
    assert at.allowed() == [3, 4]
    assert at.accept(1, 3) == [False, True]
    assert at.matcher.is_terminated()


def test_a_stop_token_is_no_text(sequence: Any) -> None:
    at = sequence("aba?", override_stop_tokens=3)
    assert at.accept(2) == [True]
    assert at.allowed() == []
    assert at.accept(3) == [False]
    assert at.matcher.accept_string("b")
    assert at.allowed() == [2, 3]
    at = sequence("[ab]*", override_stop_tokens=3)
    assert at.allowed() == [2, 3, 4]
    assert at.accept(3) == [True]
    assert at.matcher.is_terminated()
    at.matcher.rollback(1)
    assert at.accept(2, 3, 4) == [True, True, False]


@pytest.mark.parametrize("stops", [[], [99], -1])
def test_stop_tokens_that_cannot_be(sequence: Any, stops: Any) -> None:
    with pytest.raises(RuntimeError):
        sequence("a", override_stop_tokens=stops)


def test_control_tokens_are_text(compiler: Any, sequence: Any) -> None:
    at = sequence(compiler.compile_grammar('root ::= "a" "<tool>" "b"'))
    at.accept(2)
    assert at.allowed() == [7]
    assert at.accept(7, 3, 1) == [True, True, True]


def test_the_name_of_a_stop_token_is_no_text(compiler: Any, sequence: Any) -> None:
    at = sequence(compiler.compile_grammar('root ::= "a" "</s>" "b"'))
    at.accept(2)
    assert at.allowed() == []
    assert at.accept(1) == [False]


def test_whether_a_mask_leaves_something_out(xgr: Any) -> None:
    info = xgr.TokenizerInfo(["a", "b", "</s>"], stop_token_ids=2)
    compiler = xgr.GrammarCompiler(info)
    row = np.zeros((1, 1), np.int32)
    assert xgr.GrammarMatcher(compiler.compile_regex("[ab]*")).fill_next_token_bitmask(row) is False
    assert row.tolist() == [[-1]]
    assert xgr.GrammarMatcher(compiler.compile_regex("[ab]+")).fill_next_token_bitmask(row) is True
    assert (row & 7).tolist() == [[3]]
    assert xgr.GrammarMatcher(compiler.compile_regex("c")).fill_next_token_bitmask(row) is True
    assert (row & 7).tolist() == [[0]]


def test_rows_of_a_bitmask(sequence: Any) -> None:
    at = sequence("a(b|ab)*")
    rows = np.full((3, 1), -1, np.int32)
    at.matcher.fill_next_token_bitmask(rows, 1)
    assert rows.tolist() == [[-1], [20], [-1]]
    single = np.zeros(1, np.int32)
    at.matcher.fill_next_token_bitmask(single)
    assert single.tolist() == [20]


@pytest.mark.parametrize("dtype", [np.int64, np.uint32, np.float32])
def test_bitmasks_of_another_type(sequence: Any, dtype: Any) -> None:
    with pytest.raises(RuntimeError):
        sequence("a").matcher.fill_next_token_bitmask(np.zeros((1, 1), dtype))


@pytest.mark.parametrize("shape", [(1, 2), (1, 0), (1, 1, 1), (2,)])
def test_bitmasks_of_another_shape(sequence: Any, shape: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError):
        sequence("a").matcher.fill_next_token_bitmask(np.zeros(shape, np.int32))


@pytest.mark.parametrize("index", [2, -1])
def test_rows_that_are_not_there(sequence: Any, index: int) -> None:
    with pytest.raises(RuntimeError):
        sequence("a").matcher.fill_next_token_bitmask(np.zeros((2, 1), np.int32), index)


def test_wrong_types(xgr: Any, sequence: Any) -> None:
    at = sequence("a")
    assert at.matcher.accept_token(np.int64(2))
    for wrong in ("x", 2.0, None):
        with pytest.raises(TypeError):
            at.matcher.accept_token(wrong)
    with pytest.raises(RuntimeError):
        at.matcher.accept_string(3)
    with pytest.raises(TypeError):
        at.matcher.fill_next_token_bitmask([0])
    with pytest.raises(ValueError, match=r"."):
        xgr.GrammarMatcher("a")


def test_rollback_has_no_bound_to_set(sequence: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sequence("a", max_rollback_tokens=3)
    assert [warning.category for warning in caught] == [DeprecationWarning]


def test_temperatures_and_captures(xgr: Any, sequence: Any) -> None:
    assert sequence("a", default_temperature=0.5).matcher.temperature == 0.5
    plain = sequence("a").matcher
    assert plain.temperature is None
    assert plain.get_captures() == []


def test_annotations_of_rules_are_refused_where_they_would_count() -> None:
    matcher = ours.testing._get_matcher_from_grammar('root ::= x "b"\nx[temperature=0.5] ::= "a"')
    assert matcher.accept_string("ab")
    for ask in (lambda: matcher.temperature, lambda: matcher.get_captures(deduplicate=False)):
        with pytest.raises(ours.CompatError) as caught:
            ask()
        assert caught.value.code == "compat_unsupported"


def test_captures_come_in_the_order_in_which_they_end() -> None:
    grammar = 'root[capture] ::= item ("," item)*\nitem[capture="i"] ::= [a-z]+ | "(" root ")"'
    matcher = ours.testing._get_matcher_from_grammar(grammar)
    assert matcher.accept_string("ab,(c")
    assert matcher.get_captures() == [("i", b"ab")]
    assert matcher.accept_string(")")
    assert matcher.get_captures() == [("i", b"ab"), ("i", b"c"), ("root", b"c"), ("i", b"(c)"), ("root", b"ab,(c)")]
    matcher.rollback(1)
    assert matcher.get_captures() == [("i", b"ab")]


def tree(*nodes: tuple[int, int, int]) -> list[np.ndarray[Any, Any]]:
    """Nodes as (first child, next sibling, token)."""
    return [np.array(column, np.int64) for column in zip(*nodes, strict=True)]


def test_masks_of_a_draft_tree(sequence: Any) -> None:
    at = sequence("a(b|ab)*")
    at.accept(2)
    rows = np.full((5, 1), -1, np.int32)
    nodes = tree((1, -1, 9), (2, 3, 3), (-1, -1, 5), (4, -1, 4), (-1, -1, 1))
    assert at.matcher.traverse_draft_tree(*nodes, rows)
    assert rows.tolist() == [[30], [30], [0], [30], [0]]
    assert at.allowed() == [1, 2, 3, 4]
    at.matcher.rollback(1)
    with pytest.raises(RuntimeError):
        at.matcher.rollback(1)


def test_what_is_below_a_draft_that_does_not_fit(sequence: Any) -> None:
    at = sequence("ab")
    rows = np.full((4, 1), 7, np.int32)
    assert at.matcher.traverse_draft_tree(*tree((1, -1, 0), (2, 3, 3), (-1, -1, 3), (-1, -1, 2)), rows)
    assert rows.tolist() == [[20], [0], [7], [8]]


def test_a_draft_tree_after_the_end(sequence: Any) -> None:
    at = sequence("a")
    at.accept(2, 1)
    rows = np.full((2, 1), 7, np.int32)
    assert at.matcher.traverse_draft_tree(*tree((1, -1, 0), (-1, -1, 2)), rows)
    assert rows.tolist() == [[0], [7]]
    assert at.matcher.is_terminated()


def test_draft_trees_that_cannot_be(sequence: Any) -> None:
    at = sequence("a")
    rows = np.zeros((2, 1), np.int32)
    good = tree((1, -1, 0), (-1, -1, 2))
    for nodes, place in (
        (tree((9, -1, 0), (-1, -1, 2)), rows),
        (good, rows[:1]),
        ([good[0], good[1], good[2][:1]], rows),
        ([good[0].astype(np.int32), good[1], good[2]], rows),
        (good, rows.astype(np.int64)),
        ([part[:0] for part in good], rows[:0]),
    ):
        with pytest.raises(RuntimeError):
            at.matcher.traverse_draft_tree(*nodes, place)


def test_a_draft_tree_that_goes_round() -> None:
    at = ours.GrammarMatcher(ours.GrammarCompiler(ours.TokenizerInfo(["a", "</s>"])).compile_regex("a*"))
    with pytest.raises(ours.CompatError) as caught:
        at.traverse_draft_tree(*tree((1, -1, 0), (0, -1, 0)), np.zeros((2, 1), np.int32))
    assert caught.value.code == "draft_tree_invalid"
    with pytest.raises(ours.CompatError):
        at.rollback(1)


def test_a_draft_tree_in_no_time(sequence: Any) -> None:
    at = sequence("a*")
    count = 3000
    nodes = tree(*[(k + 1 if k + 1 < count else -1, -1, 2) for k in range(count)])
    assert not at.matcher.traverse_draft_tree(*nodes, np.zeros((count, 1), np.int32), 1e-9)


def test_temperatures_of_a_draft_tree(sequence: Any) -> None:
    at = sequence("ab", default_temperature=0.5)
    rows, warmth = np.zeros((3, 1), np.int32), np.zeros(3, np.float32)
    at.matcher.traverse_draft_tree(*tree((1, -1, 0), (-1, 2, 2), (-1, -1, 3)), rows, -1.0, warmth)
    assert warmth.tolist() == [0.5, 0.5, -1.0]


def test_masks_of_a_batch(xgr: Any, sequence: Any) -> None:
    batch = xgr.BatchGrammarMatcher()
    matchers = [sequence("a(b|ab)*").matcher, sequence("b").matcher]
    rows = np.full((3, 1), -1, np.int32)
    batch.batch_fill_next_token_bitmask(matchers, rows)
    assert rows.tolist() == [[20], [8], [-1]]
    rows[:] = -1
    xgr.BatchGrammarMatcher(2).batch_fill_next_token_bitmask(matchers, rows, [2, 0])
    assert rows.tolist() == [[8], [-1], [20]]
    batch.batch_fill_next_token_bitmask([matchers[0], matchers[0]], rows)
    assert rows.tolist() == [[20], [20], [20]]
    batch.batch_fill_next_token_bitmask([], rows)


def test_batches_that_cannot_be(xgr: Any, sequence: Any) -> None:
    batch = xgr.BatchGrammarMatcher()
    matchers = [sequence("a").matcher, sequence("a").matcher]
    rows = np.zeros((2, 1), np.int32)
    for wrong in ([5, 0], [0], [-1, 0]):
        with pytest.raises(RuntimeError):
            batch.batch_fill_next_token_bitmask(matchers, rows, wrong)
    with pytest.raises(RuntimeError):
        batch.batch_fill_next_token_bitmask(matchers, rows[:1])
    for call in (
        lambda: batch.batch_accept_token(matchers, [2]),
        lambda: batch.batch_accept_string(matchers, ["a"]),
        lambda: batch.batch_rollback(matchers, [1]),
        lambda: xgr.BatchGrammarMatcher(0),
        lambda: xgr.BatchGrammarMatcher("x"),
    ):
        with pytest.raises(RuntimeError):
            call()
    matchers[1].accept_token(2)
    matchers[1].accept_token(1)
    with pytest.raises(RuntimeError):
        batch.batch_fill_next_token_bitmask(matchers, rows)


def test_the_steps_of_a_batch(xgr: Any, sequence: Any) -> None:
    batch = xgr.BatchGrammarMatcher()
    matchers = [sequence("a+b").matcher, sequence("ab").matcher]
    assert batch.batch_accept_token(matchers, [2, 3]) == [True, False]
    assert batch.batch_accept_string(matchers, ["ab", b"a"]) == [True, True]
    batch.batch_rollback(matchers, [2, 1])
    assert [matcher.find_jump_forward_string() for matcher in matchers] == ["a", "ab"]
    warm = [sequence("a", default_temperature=0.25).matcher, matchers[0]]
    values = np.zeros(2, np.float32)
    batch.batch_fill_temperature(warm, values, [1, 0])
    assert values.tolist() == [-1.0, 0.25]
    with pytest.raises(RuntimeError):
        batch.batch_fill_temperature(warm, values.astype(np.float64))
