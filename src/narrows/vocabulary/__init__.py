"""Vocabularies of models: a token's bytes by its id, and which tokens are special. `loaders` reads tokenizers' files
and objects."""

from narrows.vocabulary.vocabulary import Vocabulary

__all__ = ["Vocabulary"]
