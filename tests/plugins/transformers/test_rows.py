"""Which matcher belongs to which row: random steps as beam search and assisted decoding make them, against matchers that
read each row from its start."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from narrows import Constraint, Grammar, InputError, Vocabulary
from narrows.plugins.transformers.rows import Ids, Row, Rows

TOKENS = [b"a", b"b", b"ab", b"(", b")", b",", b"", b""]
END, PAD = 6, 7
VOCABULARY = Vocabulary(TOKENS, special={"<end>": END, "<pad>": PAD}, eos=[END])
NESTED = VOCABULARY.compile(Grammar.from_gbnf('root ::= "(" (root ("," root)*)? ")" | "a" | "ab" "b"*'))
WORDS = VOCABULARY.compile(Grammar.from_regex("(ab|b)+a?"))


def mask(row: Row) -> list[int]:
    if not row.is_open or row.matcher is None:
        return []
    words = np.zeros(1, np.int32)
    row.matcher.fill_mask(words)
    return [token for token in range(len(TOKENS)) if words[0] >> token & 1]


def fresh(constraint: Constraint | None, generated: list[int]) -> Row:
    row = Row(None if constraint is None else constraint.matcher())
    row.go_on(generated)
    return row


def agree(rows: list[Row], ids: Ids, prompt: int, constraints: list[Constraint | None]) -> None:
    each = len(ids) // len(constraints)
    for index, row in enumerate(rows):
        wanted = fresh(constraints[index // each], ids[index, prompt:].tolist())
        assert (row.is_open, row.is_lost, mask(row)) == (wanted.is_open, wanted.is_lost, mask(wanted)), ids[index]
    assert len({id(row.matcher) for row in rows if row.matcher is not None}) == sum(
        row.matcher is not None for row in rows
    )


def next_token(row: Row, choose: Random) -> int:
    allowed = mask(row)
    if row.matcher is not None and not row.is_open and not row.is_lost:
        return PAD
    return choose.choice(allowed) if allowed and choose.random() < 0.95 else choose.randrange(len(TOKENS))


@pytest.mark.parametrize("seed", range(60))
def test_rows_that_are_chosen_copied_and_cut_back(seed: int) -> None:
    choose = Random(seed)
    constraints: list[Constraint | None] = [choose.choice((NESTED, WORDS, None)) for _ in range(choose.randint(1, 3))]
    each, prompt = choose.randint(1, 4), choose.randint(1, 3)
    prompts = [[choose.randrange(len(TOKENS)) for _ in range(prompt)] for _ in constraints]
    ids = np.array([one for one in prompts for _ in range(each)], dtype=np.int64)
    rows = Rows(constraints)
    agree(rows.at(ids), ids, prompt, constraints)
    for _ in range(25):
        if choose.random() < 0.3:  # another order, within the rows of one prompt
            order = [choose.randrange(each) + index // each * each for index in range(len(ids))]
            ids = ids[order]
        if choose.random() < 0.2 and ids.shape[1] > prompt + 1:  # drafts that were not taken
            ids = ids[:, : choose.randint(prompt + 1, ids.shape[1])]
        now = [fresh(constraints[index // each], ids[index, prompt:].tolist()) for index in range(len(ids))]
        ids = np.column_stack([ids, [next_token(row, choose) for row in now]])
        agree(rows.at(ids), ids, prompt, constraints)


@pytest.mark.parametrize("prompts", [[[0]], [[0, 1]], [[1, 1, 2]], [[0, 1, 2, 0, 2]], [[0, 1], [0, 1]]])
def test_another_call_begins_anew(prompts: list[list[int]]) -> None:
    rows = Rows([WORDS])
    rows.at(np.array([[0, 1]]))
    rows.at(np.array([[0, 1, 2]]))
    assert [mask(row) for row in rows.at(np.array(prompts))] == [mask(fresh(WORDS, []))] * len(prompts)


def test_rows_that_do_not_divide() -> None:
    with pytest.raises(InputError) as caught:
        Rows([WORDS, NESTED]).at(np.array([[0], [0], [0]]))
    assert caught.value.code == "rows_invalid"
