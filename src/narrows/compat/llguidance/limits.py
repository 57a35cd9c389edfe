"""`LLParserLimits`: llguidance's bounds, as narrows' limits.

The units differ, so a bound counts by how it compares with llguidance's default: ten times the default raises narrows'
limit tenfold.
"""

from __future__ import annotations

from dataclasses import replace

from narrows.arguments import FLAG
from narrows.compat.llguidance import misuse
from narrows.limits import DEFAULT_LIMITS, Limits

_DEFAULTS = {
    "max_items_in_row": (2_000, "live_items"),
    "initial_lexer_fuel": (1_000_000, "reading_work"),
    "step_lexer_fuel": (200_000, "step_work"),
    "step_max_items": (50_000, "step_work"),
    "max_lexer_states": (250_000, "constraint_bytes"),
    "max_grammar_size": (500_000, "ir_nodes"),
}
"""Name -> llguidance's default, and the limit of narrows that goes with it."""
_LARGEST = (1 << 60) - 1


class LLParserLimits:
    """`precompute_large_lexemes` and `verbose_errors` are kept. The first has no effect; without the second, errors
    leave out what was expected instead of a token."""

    def __init__(
        self,
        max_items_in_row: int | None = None,
        initial_lexer_fuel: int | None = None,
        step_lexer_fuel: int | None = None,
        step_max_items: int | None = None,
        max_lexer_states: int | None = None,
        max_grammar_size: int | None = None,
        precompute_large_lexemes: bool | None = None,
        verbose_errors: bool | None = None,
    ) -> None:
        given = (
            max_items_in_row,
            initial_lexer_fuel,
            step_lexer_fuel,
            step_max_items,
            max_lexer_states,
            max_grammar_size,
        )
        self._values = {
            name: default if value is None else misuse.count(name, value)
            for (name, (default, _)), value in zip(_DEFAULTS.items(), given, strict=True)
        }
        for name, flag in (("precompute_large_lexemes", precompute_large_lexemes), ("verbose_errors", verbose_errors)):
            if flag is not None and not FLAG.fits(flag):
                raise misuse.wrong_type(name, "True or False", flag)
        self._precompute_large_lexemes = precompute_large_lexemes is not False
        self._verbose_errors = verbose_errors is not False

    @property
    def max_items_in_row(self) -> int:
        """llguidance's bound on the parser's items at one place."""
        return self._values["max_items_in_row"]

    @property
    def initial_lexer_fuel(self) -> int:
        """llguidance's bound on the work of compiling."""
        return self._values["initial_lexer_fuel"]

    @property
    def step_lexer_fuel(self) -> int:
        """llguidance's bound on the lexer's work for one mask."""
        return self._values["step_lexer_fuel"]

    @property
    def step_max_items(self) -> int:
        """llguidance's bound on the parser's work for one mask."""
        return self._values["step_max_items"]

    @property
    def max_lexer_states(self) -> int:
        """llguidance's bound on the states of the lexer."""
        return self._values["max_lexer_states"]

    @property
    def max_grammar_size(self) -> int:
        """llguidance's bound on the symbols of a grammar."""
        return self._values["max_grammar_size"]

    @property
    def precompute_large_lexemes(self) -> bool:
        """Kept, without effect."""
        return self._precompute_large_lexemes

    @property
    def verbose_errors(self) -> bool:
        """Whether errors say what was expected."""
        return self._verbose_errors


def of_narrows(limits: LLParserLimits | None) -> Limits:
    """narrows' limits. Where two bounds go with one limit, the smaller one counts."""
    if limits is None:
        return DEFAULT_LIMITS
    if not isinstance(limits, LLParserLimits):
        raise misuse.wrong_type("limits", "an LLParserLimits", limits)
    changed: dict[str, int] = {}
    for name, (default, limit) in _DEFAULTS.items():
        value = limits._values[name]
        if value != default:
            scaled = min(max(getattr(DEFAULT_LIMITS, limit) * value // default, 1), _LARGEST)
            changed[limit] = min(scaled, changed.get(limit, _LARGEST))
    return replace(DEFAULT_LIMITS, **changed)
