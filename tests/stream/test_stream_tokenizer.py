"""Token ids of a real tokenizer, trained here on the transcripts, with the markers as special tokens and without."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transcripts import Case, check_stream, load

import narrows
from narrows.events import Event

CASES = load()


@cache
def tokenizer(markers: tuple[str, ...]) -> tuple[Any, narrows.Vocabulary]:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator([case.text for case in CASES], trainer)
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in (*markers, "<|im_end|>")])
    return made, narrows.Vocabulary.from_tokenizers(made, eos="<|im_end|>")


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_token_by_token(case: Case, special: bool) -> None:
    markers = tuple(m for m in case.fmt.markers(case.fmt.reasoning) if "=" not in m) if special else ()
    made, vocab = tokenizer(markers)
    parser = case.parser(vocab=vocab)
    events: list[Event] = []
    for token in made.encode(case.text).ids:
        events += parser.feed_tokens([token])
    assert check_stream(events + parser.finish(), len(case.text)) == case.parse()
