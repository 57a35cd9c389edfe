"""Writes a compiled grammar as the text of another language, for a program that reads such texts."""

from narrows.grammar.export.gbnf import Dialect, Written, write

__all__ = ["Dialect", "Written", "write"]
