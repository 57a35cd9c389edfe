"""The languages that a grammar can be written in, by name: one front end is one file beside this one, and one line
here.

`Grammar.from_language`, the server's `structured_outputs`, `narrows check` and `narrows generate`, and the plug-in for
vLLM offer what stands here. The names are those of vLLM's structured outputs, where it has the language.
"""

from __future__ import annotations

from narrows.arguments import TEXT, quoted, wants
from narrows.errors import InputError
from narrows.grammar.languages.base import FrontEnd
from narrows.grammar.languages.choice import CHOICE
from narrows.grammar.languages.gbnf import GBNF
from narrows.grammar.languages.json_schema import JSON_SCHEMA
from narrows.grammar.languages.regex import REGEX

__all__ = ["LANGUAGES", "FrontEnd", "front_end"]

LANGUAGES: dict[str, FrontEnd] = {
    language.name: language
    for language in (
        JSON_SCHEMA,
        REGEX,
        CHOICE,
        GBNF,
    )
}


def front_end(name: str) -> FrontEnd:
    """The front end of this name. Raises InputError, code `language_unknown`."""
    wants(TEXT, language=name)
    if name not in LANGUAGES:
        raise InputError(
            f"there is no language {quoted(name)}",
            code="language_unknown",
            hint=f"There are {', '.join(LANGUAGES)}",
            pointer="/language",
        )
    return LANGUAGES[name]
