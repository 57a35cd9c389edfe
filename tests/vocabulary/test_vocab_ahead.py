"""What is made while a vocabulary is loaded, and what is left where it is too much."""

from __future__ import annotations

from narrows import Grammar, Limits, Vocabulary
from narrows.limits import DEFAULT_LIMITS
from narrows.vocabulary import ahead


def vocabulary_of(count: int, limits: Limits = DEFAULT_LIMITS) -> Vocabulary:
    tokens = [*(bytes([b]) for b in range(256)), *(b"%05d" % n for n in range(count - 257))]
    return Vocabulary([*tokens, None], eos=[count - 1], limits=limits)


def made(vocabulary: Vocabulary) -> int:
    """Masks of terminals that a compilation finds."""
    return vocabulary.compile(Grammar.from_regex("a")).stats()["shared_masks"]


def test_a_large_vocabulary_has_masks_of_strings_before_the_first_schema() -> None:
    assert made(vocabulary_of(ahead.FEW_TOKENS - 1)) == 0
    assert made(vocabulary_of(ahead.FEW_TOKENS)) > 10


def test_what_is_made_ahead_has_all_of_its_text_before_it() -> None:
    vocabulary = vocabulary_of(300)
    matcher = vocabulary.compile(Grammar.from_json_schema(ahead.schema())).matcher()
    assert matcher.accept_bytes(ahead.text())


def test_nothing_is_made_ahead_where_memory_is_short() -> None:
    assert made(vocabulary_of(ahead.FEW_TOKENS, Limits(vocabulary_bytes=1_000_000))) == 0


def test_a_limit_ends_it_and_not_the_loading() -> None:
    vocabulary = vocabulary_of(1_000)
    for work in (10, 1_000, 10_000, 100_000):
        ahead.prepare(lambda grammar, work=work: vocabulary.compile(grammar, Limits(step_work=work)), vocabulary.size)
