"""Texts that have to hold a word of each of some lists, with a length: every mask, by an oracle that knows no automata.

The lists are long, so that a text has too many states to be compared with plain text, or to be multiplied with a count.
"""

from __future__ import annotations

from functools import cache
from random import Random

import numpy as np
import pytest

from narrows import Grammar, NarrowsError, Vocabulary

LETTERS = "abcd"
OTHER = "e"  # stands for all characters that no word has
LONGEST = 7


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    choose = Random(0)
    texts = {*LETTERS, OTHER, '"', "\\", "u0061"}
    while len(texts) < 200:
        text = "".join(choose.choices(LETTERS + OTHER, k=choose.randrange(2, 12)))
        texts.add(text + choose.choice(("", "", "", '"')))
    tokens = [text.encode() for text in sorted(texts)]
    return Vocabulary([*tokens, b""], special={"<eos>": len(tokens)}, eos=len(tokens))


def words(choose: Random, count: int) -> frozenset[str]:
    return frozenset("".join(choose.choices(LETTERS, k=choose.randrange(4, LONGEST + 1))) for _ in range(count))


class Oracle:
    """Which numbers of characters end a text, by what it ends with, the lists that it has a word of, and how many
    characters it has before its first other one (`head`: at least 1 and at most so many; -1 after that)."""

    def __init__(
        self, wanted: list[frozenset[str]], unwanted: frozenset[str], least: int, most: int, head: int = 0
    ) -> None:
        self.wanted, self.unwanted, self.least, self.most, self.head = wanted, unwanted, least, most, head
        self.begin: tuple[str, int, int] = ("", 0, 0 if head else -1)
        self.lengths = cache(self._lengths)

    def step(self, state: tuple[str, int, int] | None, letter: str) -> tuple[str, int, int] | None:
        if state is None:
            return None
        before = state[2]
        if before >= 0:
            before = before + 1 if letter != OTHER else -1 if before > 0 else self.head + 1
        if before > self.head:
            return None
        text = state[0] + letter
        ends = {text[n:] for n in range(len(text))}
        if ends & self.unwanted:
            return None
        found = state[1]
        for n, one in enumerate(self.wanted):
            found |= bool(ends & one) << n
        return text[-(LONGEST - 1) :].rpartition(OTHER)[2], found, before

    def _lengths(self, state: tuple[str, int, int] | None, left: int) -> int:
        """As bits."""
        if state is None:
            return 0
        bits = int(state[1] == 2 ** len(self.wanted) - 1 and state[2] < 0)
        if left > 0:
            for letter in LETTERS + OTHER:
                bits |= self.lengths(self.step(state, letter), left - 1) << 1
        return bits

    def allows(self, text: str) -> bool:
        """A text without escapes, that begins with a quote."""
        body, quote, more = text[1:].partition('"')
        state: tuple[str, int, int] | None = self.begin
        for letter in body:
            state = self.step(state, letter)
        if len(body) > self.most or more:
            return False
        lengths = self.lengths(state, self.most - len(body))
        if quote:
            return len(body) >= self.least and bool(lengths & 1)
        return lengths >> max(self.least - len(body), 0) != 0


@pytest.mark.parametrize("seed", [*range(7), *(pytest.param(n, marks=pytest.mark.soak) for n in range(7, 300))])
@pytest.mark.parametrize("has_head", [False, True])
def test_masks(vocabulary: Vocabulary, has_head: bool, seed: int) -> None:
    """With a head, as an e-mail address has one: a count within the text, beside that of the whole text."""
    choose = Random(seed)
    wanted = [words(choose, choose.choice((40, 120))) for _ in range(choose.choice((1, 2, 2)))]
    unwanted = words(choose, 100) if len(wanted) == 1 or choose.random() < 0.3 else frozenset()
    most = choose.randrange(9, 16)
    least = choose.choice((0, 0, 5, most))
    patterns = [{"pattern": "|".join(sorted(one))} for one in wanted]
    schema = {"type": "string", "allOf": patterns, "minLength": least, "maxLength": most}
    if choose.random() < 0.4:  # a second counter, of most characters
        fewer = most - choose.choice((0, 1))
        patterns.append({"pattern": f"^.{{{min(least, 3)},{fewer}}}$"})
        most = fewer
    if unwanted:
        schema["not"] = {"pattern": "|".join(sorted(unwanted))}
    head = most + choose.choice((-4, -2, -1, 0, 1, 3)) if has_head else 0
    if has_head:
        patterns.append({"pattern": f"^[^{OTHER}]{{1,{head}}}{OTHER}[{LETTERS}{OTHER}]*$"})
    oracle = Oracle(wanted, unwanted, least, most, head)
    if most < least:
        with pytest.raises(NarrowsError) as caught:
            vocabulary.compile(Grammar.from_json_schema(schema))
        assert caught.value.code == "unsatisfiable"
        return
    constraint = vocabulary.compile(Grammar.from_json_schema(schema))
    row = np.zeros((vocabulary.size + 31) // 32, np.int32)
    tokens = {n: vocabulary.token_bytes(n).decode() for n in range(vocabulary.size - 1)}
    plain = {n: text for n, text in tokens.items() if "\\" not in text and text != "u0061"}
    for _ in range(6):
        matcher, text = constraint.matcher(), '"'
        assert matcher.accept_bytes(b'"')
        while not text.endswith('"') or text == '"':
            matcher.fill_mask(row)
            mask = {int(n) for n in np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))}
            assert {n for n in plain if n in mask} == {n for n in plain if oracle.allows(text + plain[n])}, text
            token = choose.choice(sorted(mask & plain.keys()))
            assert matcher.accept(token)
            text += plain[token]
        assert matcher.is_accepting
