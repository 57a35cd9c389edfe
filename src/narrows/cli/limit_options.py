"""`--limit NAME=N` of the commands that read grammars: another value for a bound of `narrows.Limits`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Annotated

import typer

from narrows.grammar.near_miss import NearMisses
from narrows.limits import Limits

NAMES = tuple(field.name for field in fields(Limits))
_MEANT = NearMisses(NAMES)

LimitOption = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=N",
        help="Another value for a bound of narrows.Limits, such as reading_work=5000000; may be repeated.",
    ),
]


def limits_of(given: Sequence[str] | None) -> Limits:
    """The limits, with the values that were given. Raises `BadParameter`."""
    values: dict[str, int] = {}
    for text in given or ():
        name, _, number = text.partition("=")
        if name not in NAMES:
            near = _MEANT.of(name)
            meant = f", did you mean {near}?" if near else ": they are the fields of narrows.Limits"
            raise typer.BadParameter(f"{name!r} is no limit{meant}", param_hint="--limit")
        try:
            values[name] = int(number)
        except ValueError:
            values[name] = 0
        if not 0 < values[name] < 1 << 60:
            raise typer.BadParameter(f"{text!r} is not NAME=N with a positive whole number N", param_hint="--limit")
    return Limits(**values)
