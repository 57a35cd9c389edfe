"""Small tokenizers of each kind, trained on the spot in a fraction of a second."""

from __future__ import annotations

import functools
import json

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

TEXT = [
    "The quick brown fox jumps over the lazy dog. It's a test, isn't it? We've seen {\"key\": [1, 2.5, null]} before!",
    "def main():\n    return '<b>été</b>'  # façade, naïve, 東京, 🎉🎉, \u00e9\n\n\n\tx = 1\n",
    "aaaa bbbb abab baba    four    blanks, do not stop . . . it 's they 're ' n't",
] * 3
ADDED = [
    AddedToken("<|im_end|>", special=True),
    AddedToken("<tool_call>", special=False, normalized=False),
    AddedToken("</tool_call>", special=False, normalized=False),
    AddedToken("    ", special=False, normalized=False),
    AddedToken("naïveword", special=False, normalized=False),
    AddedToken("x" * 1500, special=False, normalized=False),
]


@functools.cache
def byte_level() -> Tokenizer:
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<s>"]
    )
    return _train(tok, trainer)


@functools.cache
def unigram() -> Tokenizer:
    """Unigram with blanks as U+2581, as T5 and many SentencePiece models."""
    tok = Tokenizer(models.Unigram())
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tok.decoder = decoders.Metaspace(prepend_scheme="always")
    return _train(tok, trainers.UnigramTrainer(vocab_size=200, special_tokens=["<unk>", "</s>"], unk_token="<unk>"))


@functools.cache
def byte_fallback() -> Tokenizer:
    """BPE with U+2581 and byte fallback, decoded as Llama 2, Mistral and Gemma do."""
    tok = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tok = _train(
        tok,
        trainers.BpeTrainer(vocab_size=600, special_tokens=["<unk>", "<s>", "</s>"], initial_alphabet=["▁"]),
        add=False,
    )
    plain = json.loads(tok.to_str())
    vocab = plain["model"]["vocab"]
    for b in range(256):
        vocab[f"<0x{b:02X}>"] = len(vocab)
    return _add(Tokenizer.from_str(json.dumps(plain)))


@functools.cache
def word_piece() -> Tokenizer:
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.pre_tokenizer = pre_tokenizers.Whitespace()
    tok.decoder = decoders.WordPiece(cleanup=True)
    return _train(tok, trainers.WordPieceTrainer(vocab_size=300, special_tokens=["[UNK]", "[SEP]"]), add=False)


def _train(tok: Tokenizer, trainer: object, add: bool = True) -> Tokenizer:
    trainer.show_progress = False  # type: ignore[attr-defined]
    tok.train_from_iterator(TEXT, trainer)
    return _add(tok) if add else tok


def _add(tok: Tokenizer) -> Tokenizer:
    tok.add_special_tokens([t for t in ADDED if t.special])
    tok.add_tokens([t for t in ADDED if not t.special])
    return tok
