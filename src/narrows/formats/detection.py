"""Which format a model writes, told from its chat template. Says so when it cannot tell; never guesses in silence."""

from __future__ import annotations

from dataclasses import dataclass

from narrows.errors import InputError
from narrows.formats.loader import get, names
from narrows.formats.model import Format


@dataclass(frozen=True, slots=True)
class Detection:
    """What a template gives away. False where nothing was detected; `reason` says why, either way."""

    format: Format | None
    confidence: float
    """0 to 1: 1 where the template shows each of the format's tell-tale literals and no other format fits; 0 where none was found."""
    reason: str
    candidates: tuple[str, ...] = ()
    """Formats that fit, where there are several."""

    @property
    def name(self) -> str | None:
        return self.format.name if self.format is not None else None

    def __bool__(self) -> bool:
        return self.format is not None


def detect(template: str) -> Detection:
    """The format of a chat template (its Jinja source). Cost: a few dozen substring searches."""
    if not isinstance(template, str):
        raise InputError(f"a template is a str, not {type(template).__name__}", code="template_invalid")
    fits: list[tuple[Format, str]] = []
    for name in names():
        fmt = get(name)
        clues = fmt.detect
        if clues is None or not all(clue in template for clue in clues.all):
            continue
        if any(clue in template for clue in clues.none) or (clues.any and not any(c in template for c in clues.any)):
            continue
        fits.append((fmt, ", ".join(repr(clue) for clue in clues.all)))
    if not fits:
        return Detection(None, 0.0, "the template shows the markers of no known format")
    if len(fits) > 1:
        found = tuple(fmt.name for fmt, _ in fits)
        return Detection(None, 0.0, f"the template fits {' and '.join(found)}: name one", found)
    fmt, shown = fits[0]
    return Detection(fmt, 1.0, f"the template writes {shown}", (fmt.name,))
