"""Vocabularies of models: the bytes of each token id, and the special tokens. `loaders` reads tokenizer files and
tokenizer objects."""

from narrows.vocabulary.vocabulary import Vocabulary

__all__ = ["Vocabulary"]
