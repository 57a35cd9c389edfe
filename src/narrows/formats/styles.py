"""Reasoning styles: `definitions/reasoning/NAME.toml`, read. See reasoning.py for what they say."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import cache, lru_cache
from typing import Any

from narrows.arguments import quoted
from narrows.errors import FormatError
from narrows.formats.reasoning import Head, ReasoningStyle
from narrows.formats.tables import (
    checked,
    definitions,
    flag,
    only,
    pairs_of,
    parse,
    record,
    subtable,
    text_of,
    texts,
    wrong,
)

_RULES = {
    "anywhere", "calls", "calls_in_content", "close_alone", "content", "content_bare", "message_start", "opened",
    "shown",
}  # fmt: skip
_ENDS = ("end", "data")
DECLARED = dict.fromkeys(
    ("hf", "response_template"),
    "Where others have this name, they read what a checkpoint declares: formats.from_response_template(declaration)",
)


@cache  # bounded by the files that exist
def _style(name: str) -> ReasoningStyle:
    file = definitions("reasoning")[name]
    return style_from(parse(file.read_bytes(), file.name), file.name)


def reasoning_style(name: str) -> ReasoningStyle:
    """The reasoning style of this name, or of a name that other servers use for it. Raises FormatError
    `reasoning_unknown`."""
    known = definitions("reasoning")
    if isinstance(name, str) and name not in known:
        name = style_aliases().get(name, name)
    if not isinstance(name, str) or name not in known:
        hint = DECLARED.get(name) if isinstance(name, str) else None
        hint = hint or f"Known: auto, {', '.join(sorted(known))}"
        raise FormatError(f"there is no reasoning style {quoted(name)}", code="reasoning_unknown", hint=hint)
    return _style(name)


def styles() -> tuple[str, ...]:
    """The names of the reasoning styles that narrows brings, in alphabetical order."""
    return tuple(sorted(definitions("reasoning")))


@lru_cache(maxsize=1)
def style_aliases() -> dict[str, str]:
    """The names that other servers use for narrows' reasoning styles, and which style each is."""
    return {alias: name for name in styles() for alias in _style(name).aliases}


def style_from(table: dict[str, Any], file: str) -> ReasoningStyle:
    only(table, {"name", "aliases", "tokens", "pair", "content", "head", "layout", "rules"}, file, "")
    pairs = pairs_of(table, "pair", file)
    if not pairs:
        raise wrong(file, "/pair", "at least one [[pair]] table is needed")
    rules, layout = subtable(table, "rules", file), subtable(table, "layout", file)
    only(rules, _RULES, file, "/rules")
    only(layout, {"before_open", "after_open", "before_close", "after_close", "inside_content"}, file, "/layout")
    for key, allowed in (("calls", _ENDS), ("calls_in_content", _ENDS), ("content", ("end", "line", "data"))):
        if rules.get(key, "end") not in allowed:
            raise wrong(file, f"/rules/{key}", f"one of {', '.join(json.dumps(word) for word in allowed)}")
    values = checked(ReasoningStyle, {**rules, **layout}, file, "/rules")
    wraps = pairs_of(table, "content", file, {"before_calls"})
    marked = [i for i, t in enumerate(table.get("content", ())) if flag(t, "before_calls", file, False)]
    if len(marked) > 1:
        raise wrong(file, f"/content/{marked[1]}/before_calls", "at most one [[content]] table is written before calls")
    return ReasoningStyle(
        name=text_of(table, "name", file, ""),
        pairs=pairs,
        aliases=texts(table, "aliases", file, ""),
        wraps=wraps,
        before_calls=marked[0] if marked else 0,
        tokens=texts(table, "tokens", file, ""),
        head=_head(table["head"], file) if "head" in table else None,
        **values,
    )


def _head(table: Any, file: str) -> Head:
    head: Head = record(Head, table, file, "/head")
    for field in fields(Head):
        if field.name != "namespace" and not getattr(head, field.name):
            raise wrong(file, f"/head/{field.name}", "must not be empty")
    return head


def style_of(style: Any, file: str) -> ReasoningStyle | None:
    """A format's reasoning: the name of a style, or a table that is one."""
    if isinstance(style, dict):
        return style_from(style, f"{file}/reasoning")
    if style is None or isinstance(style, str):
        return reasoning_style(style) if style is not None else None
    raise wrong(file, "/reasoning", "must be the name of a style, or a table that describes one")
