"""The languages that a grammar can be written in, by name. A front end is one file in this folder, and one line here.

`Grammar.from_language`, the server's `structured_outputs`, `narrows check` and `narrows generate`, and the plug-in for
vLLM offer these languages. If vLLM's structured outputs have the language, the name is theirs.

Cost: a front end is imported when it is first used. `import narrows` loads none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module

from narrows.arguments import TEXT, quoted, wants
from narrows.errors import InputError
from narrows.grammar.languages.base import FrontEnd

__all__ = ["LANGUAGES", "FrontEnd", "front_end"]

_FRONT_ENDS = {
    "json": "json_schema:JSON_SCHEMA",
    "regex": "regex:REGEX",
    "choice": "choice:CHOICE",
    "grammar": "gbnf:GBNF",
    "lark": "lark:LARK",
    "structural_tag": "structural_tag:STRUCTURAL_TAG",
    "substring": "substring:SUBSTRING",
    "ebnf": "ebnf:EBNF",
}
"""Name -> the file in this folder, and the front end's name in that file."""


class _Languages(MutableMapping[str, FrontEnd]):
    """Front ends by name, in the order of the lines above."""

    def __init__(self, places: dict[str, str]) -> None:
        self._known: dict[str, FrontEnd | str] = {**places}
        """Name -> the front end, or its place before it is imported."""

    def __getitem__(self, name: str) -> FrontEnd:
        known = self._known[name]
        if isinstance(known, str):
            file, _, variable = known.partition(":")
            front: FrontEnd = getattr(import_module(f"{__name__}.{file}"), variable)
            known = self._known[name] = front
        return known

    def __setitem__(self, name: str, front: FrontEnd) -> None:
        self._known[name] = front

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


LANGUAGES = _Languages(_FRONT_ENDS)


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
