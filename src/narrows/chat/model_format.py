"""Which wire format and which reasoning style a model has, by a name that the user gives or by its chat template."""

from __future__ import annotations

from narrows import formats
from narrows.errors import InputError


def find_format(name: str | None, template: str | None, hint: str) -> tuple[formats.Format, bool]:
    """The wire format for a name, a TOML file or a chat template, and whether it is known to be the model's.

    Without a name, and with a template that fits no format, the format is `hermes_json`. Small models whose template
    has no tools are asked to write it. Raises `FormatError` or `InputError`, also for a template that fits several
    formats: a wrong guess would show nowhere. `hint`: how a user gives the name.
    """
    if name is not None:
        return formats.find(name), True
    detected = formats.detect(template or "")
    if len(detected.candidates) > 1:
        raise InputError(f"the wire format is not clear: {detected.reason}", code="format_ambiguous", hint=hint)
    return detected.format or formats.get("hermes_json"), detected.format is not None


def find_reasoning(name: str | None, fmt: formats.Format, template: str) -> str | None:
    """The reasoning style to use. Raises for an unknown name.

    "auto" is the format's own style where the template has its markers, else the style whose markers it has. Where it
    has no style's markers, None: a model that never reasons should not be offered reasoning.
    """
    style = fmt.style(name)
    if name == "auto" and not any(marker in template for pair in (style.pairs if style else ()) for marker in pair):
        return formats.detect(template).reasoning
    return name
