"""A format's TOML file as a `Format`, and plain words for what is wrong with it. Nothing is executed."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from narrows.formats.definition import Detect
from narrows.formats.families import FAMILIES, Shape
from narrows.formats.format import Format
from narrows.formats.reasoning import ReasoningStyle
from narrows.formats.styles import style_of
from narrows.formats.tables import definitions, flag, only, parse, record, subtable, text_of, texts, wrong
from narrows.stream.ids import STYLES
from narrows.tools.request import UNTYPED

_KEYS = frozenset(
    (
        "name",
        "extends",
        "title",
        "models",
        "aliases",
        "reasoning",
        "ids",
        "call",
        "layout",
        "detect",
        "tokens",
        "turns",
        "strip",
        "untyped",
        "ends",
        "verified",
    )
)
_AROUND = ("after_open", "before_close", "after_close")


def format_of_table(table: dict[str, Any], file: str, source: str) -> Format:
    """The format that a table describes, as a TOML file would. `source`: what it was made from."""
    if "overflow" in table:
        raise wrong(file, "/overflow", "says nothing any more: leave it out. What is too long for a marker is content")
    only(table, _KEYS, file, "")
    if "extends" in table:
        table = _extended(table, file)
    shapes = table.get("call")
    if not isinstance(shapes, list) or not shapes:
        raise wrong(file, "/call", "at least one [[call]] table is needed")
    layout = subtable(table, "layout", file)
    only(layout, {"before", "between", "reasoning"}, file, "/layout")
    around = subtable(layout, "reasoning", file, "/layout")
    only(around, set(_AROUND), file, "/layout/reasoning")
    style = table.get("reasoning")
    ids = text_of(table, "ids", file, "", "openai")
    if ids not in STYLES:
        raise wrong(file, "/ids", f"one of {', '.join(STYLES)}")
    untyped = text_of(table, "untyped", file, "", "string")
    if untyped not in UNTYPED:
        raise wrong(file, "/untyped", f"one of {', '.join(UNTYPED)}")
    detect = table.get("detect")
    calls = tuple(_shape(shape, file, f"/call/{i}") for i, shape in enumerate(shapes))
    forms = [shape.form for shape in calls]
    if len(set(forms)) < len(forms):
        raise wrong(file, "/call", "two [[call]] tables have the same form")
    headed = [i for i, shape in enumerate(calls) if shape.needs_head]
    own_style = style_of(style, file)
    if headed and (own_style is None or own_style.head is None):
        raise wrong(
            file,
            f"/call/{headed[0]}/family",
            f"{shapes[headed[0]]['family']} goes with a reasoning style that has a [head]",
        )
    read_only = frozenset(shape.form for shape, t in zip(calls, shapes, strict=True) if t.get("read_only", False))
    if calls[0].form in read_only:
        raise wrong(file, "/call/0/read_only", "the first form is the one that is written")
    return Format(
        name=text_of(table, "name", file, ""),
        title=text_of(table, "title", file, ""),
        models=texts(table, "models", file, ""),
        aliases=texts(table, "aliases", file, ""),
        reasoning=own_style,
        ids=ids,
        calls=calls,
        read_only=read_only,
        before=text_of(layout, "before", file, "/layout", ""),
        between=text_of(layout, "between", file, "/layout", ""),
        around_reasoning=tuple(_around(around, key, own_style, file) for key in _AROUND),
        detect=record(Detect, detect, file, "/detect") if detect is not None else None,
        source=source,
        tokens=texts(table, "tokens", file, ""),
        turns=texts(table, "turns", file, ""),
        ends=texts(table, "ends", file, ""),
        strip=flag(table, "strip", file, False),
        untyped=untyped,
        verified=flag(table, "verified", file, True),
    )


def _around(table: dict[str, Any], key: str, style: ReasoningStyle | None, file: str) -> str:
    """Layout around reasoning as it is written: the style's, or less of that, which the parser reads as layout, too."""
    read = getattr(style, key, "")
    written = text_of(table, key, file, "/layout/reasoning", read)
    if not read.startswith(written):
        raise wrong(file, f"/layout/reasoning/{key}", f"must begin what the style reads as layout there, {read!r}")
    return written


def _extended(table: dict[str, Any], file: str) -> dict[str, Any]:
    """The table, with what it leaves out taken from one of narrows' own formats. Not its name, aliases and detection,
    which tell formats apart."""
    name = text_of(table, "extends", file, "")
    if name not in definitions():
        raise wrong(file, "/extends", f"one of narrows' own formats, not {name!r}: {', '.join(sorted(definitions()))}")
    base = parse(definitions()[name].read_bytes(), f"{name}.toml")
    return {
        "aliases": [],
        **{key: value for key, value in base.items() if key not in ("name", "aliases", "detect")},
        **table,
    }


def _shape(table: Any, file: str, pointer: str) -> Shape:
    if not isinstance(table, dict):
        raise wrong(file, pointer, "a table is needed")
    family = table.get("family")
    if not isinstance(family, str) or family not in FAMILIES:
        raise wrong(file, f"{pointer}/family", f"one of {', '.join(FAMILIES)}")
    flag(table, "read_only", file, False)
    keys = {k: v for k, v in table.items() if k not in ("family", "read_only")}
    shape: Shape = record(FAMILIES[family], keys, file, pointer)
    for field in fields(FAMILIES[family]):
        if field.default is MISSING and not getattr(shape, field.name):
            raise wrong(file, f"{pointer}/{field.name}", "must not be empty")
        if field.name.endswith("_also") and "" in getattr(shape, field.name):
            raise wrong(file, f"{pointer}/{field.name}", "must not hold an empty string")
    for key, message in shape.problems():
        raise wrong(file, f"{pointer}/{key}", message)
    for marker in shape.markers_after_values():
        if _overlaps(marker):
            raise wrong(file, pointer, f"{marker!r} ends as it begins, so text before it cannot be told from it")
    return shape


def _overlaps(marker: str) -> bool:
    """Whether a proper suffix of the marker is a prefix of it."""
    return any(marker.startswith(marker[n:]) for n in range(1, len(marker)))
