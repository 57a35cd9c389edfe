"""A grammar: what may be said, independent of any vocabulary.

One constructor per language; each lowers to narrows.grammar.ir and refuses what it cannot express exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from narrows.arguments import INTEGER, MAPPING, TEXT, of, optional, wants
from narrows.grammar import ir
from narrows.grammar.work import Work
from narrows.limits import DEFAULT_LIMITS, LIMITS, Limits


class Grammar:
    """Immutable. `report` says, per JSON pointer of a schema's keywords, how exactly each is enforced; empty for other languages,
    which are always exact. `module` is the intermediate form."""

    __slots__ = ("_module", "_report", "_work")

    def __init__(self, module: ir.Module, report: Mapping[str, Any] | None = None, work: int = 0) -> None:
        wants(of("a narrows.grammar.ir.Module", ir.Module), module=module)
        wants(optional(MAPPING), report=report)
        wants(INTEGER, work=work)
        self._module = module
        self._work = work
        self._report = dict(report or {})

    @property
    def module(self) -> ir.Module:
        """The rules, as narrows.grammar.ir."""
        return self._module

    @property
    def report(self) -> dict[str, Any]:
        """JSON pointer -> status (`exact`, `over`, `under`, `ignored`) with its reason."""
        return dict(self._report)

    @property
    def work(self) -> int:
        """What reading has taken, in units of `Limits.reading_work`: `Vocabulary.compile` goes on from there."""
        return self._work

    @classmethod
    def from_json_schema(
        cls,
        schema: Mapping[str, Any] | bool | str,
        whitespace: str = "bounded",
        key_order: str = "declared",
        escapes: str = "all",
        on_unsupported: str = "error",
        additional: str = "standard",
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Grammar:
        """JSON texts whose value the schema allows; docs/json_schema.md lists the keywords.

        additional: "standard" allows any key beside `properties` where the schema does not say `additionalProperties`; "declared" allows
        only the keys that the schema names there, and the report says `under` for that `properties`.
        Raises UnsupportedError with the JSON pointer of a keyword that is not enforced, unless `on_unsupported` is "warn" or "ignore".
        """
        from narrows.grammar.json_schema import schema_module

        wants(TEXT, whitespace=whitespace, key_order=key_order, escapes=escapes)
        wants(TEXT, on_unsupported=on_unsupported, additional=additional)
        wants(LIMITS, limits=limits)
        work = Work(limits)
        made = schema_module(
            schema,
            whitespace=whitespace,
            key_order=key_order,
            escapes=escapes,
            on_unsupported=on_unsupported,
            additional=additional,
            limits=work,
        )
        return cls(made.module, made.report, work.spent)

    @classmethod
    def from_regex(cls, pattern: str, dialect: str = "python", *, limits: Limits = DEFAULT_LIMITS) -> Grammar:
        """Texts that the pattern matches as a whole. `dialect` is "python", "ecma" or "rust"."""
        from narrows.grammar.regex import Dialect, regex_module

        wants(TEXT, pattern=pattern, dialect=dialect)
        wants(LIMITS, limits=limits)
        work = Work(limits)
        module = regex_module(pattern, dialect=cast("Dialect", dialect), limits=work)
        return cls(module, work=work.spent)

    @classmethod
    def from_gbnf(cls, text: str, *, limits: Limits = DEFAULT_LIMITS) -> Grammar:
        """llama.cpp's GBNF, or plain BNF with `<name> ::=`; the text starts at rule `root`."""
        from narrows.grammar.languages.gbnf import gbnf_module

        wants(TEXT, text=text)
        wants(LIMITS, limits=limits)
        work = Work(limits)
        module = gbnf_module(text, limits=work)
        return cls(module, work=work.spent)

    @classmethod
    def choice(cls, strings: Sequence[str], *, limits: Limits = DEFAULT_LIMITS) -> Grammar:
        """Exactly one of the strings."""
        from narrows.grammar.languages.choice import choice_module

        wants(LIMITS, limits=limits)
        work = Work(limits)
        module = choice_module(strings, work)
        return cls(module, work=work.spent)

    def __repr__(self) -> str:
        return f"<narrows.Grammar of {len(self._module.rules)} rules>"
