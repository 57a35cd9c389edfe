"""Writes a compiled grammar as the text of another language, for a program that reads such texts."""

from narrows.grammar.export.gbnf import NO_NAMES, Dialect, Written, write

__all__ = ["NO_NAMES", "Dialect", "Written", "write"]
