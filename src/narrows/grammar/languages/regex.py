"""Regular expressions: the whole text matches. The reader is narrows.grammar.regex."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from narrows.arguments import TEXT
from narrows.grammar import ir
from narrows.grammar.languages.base import FrontEnd
from narrows.grammar.regex import Dialect, regex_module
from narrows.grammar.work import Work


def _read(source: str, work: Work, dialect: str = "python") -> tuple[ir.Module, Mapping[str, Any]]:
    return regex_module(source, cast("Dialect", dialect), work), {}


REGEX = FrontEnd("regex", TEXT, _read, options=("dialect",), one_line=True)
