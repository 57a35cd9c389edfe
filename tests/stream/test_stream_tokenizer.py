"""Token ids of a real tokenizer, trained here on the transcripts, with the markers as special tokens and without."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transcripts import NAMES, begins_in_a_marker, cases_of, check_stream, like_tokens, load, naming

import narrows
from narrows import formats
from narrows.events import Event


@cache
def tokenizer(markers: tuple[str, ...]) -> tuple[Any, narrows.Vocabulary]:
    made = Tokenizer.from_str(_trained())
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in (*markers, "<|im_end|>")])
    return made, narrows.Vocabulary.from_tokenizers(made, eos="<|im_end|>")


@cache
def _trained() -> str:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=900, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator([case.text for case in load()], trainer)
    text: str = made.to_str()
    return text


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_token_by_token(name: str, special: bool) -> None:
    fmt = formats.get(name)
    made, vocab = tokenizer(tuple(like_tokens(fmt.markers(fmt.reasoning))) if special else ())
    for case in cases_of(name):
        if special and begins_in_a_marker(case):
            continue
        with naming(case):
            parser = case.parser(vocab=vocab)
            events: list[Event] = []
            for token in made.encode(case.text).ids:
                events += parser.feed_tokens([token])
            assert check_stream(events + parser.finish(), len(case.text)) == case.parse()
