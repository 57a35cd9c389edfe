"""Read a format's TOML file, and say plainly what is wrong with it.

Every key is checked against the data model: a key that is missing, misspelled or of the wrong type is a `FormatError` that
names the file, the place and what is allowed. Nothing is executed.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import MISSING, fields
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib import resources
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows.arguments import file_path, quoted
from narrows.errors import FormatError, InputError
from narrows.formats.families import FAMILIES
from narrows.formats.families.base import Head
from narrows.formats.families.json_messages import JsonMessagesShape
from narrows.formats.format import Detect, Format, ReasoningStyle
from narrows.stream.ids import STYLES
from narrows.tools.request import UNTYPED

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from importlib.abc import Traversable
    from os import PathLike

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
        "overflow",
        "detect",
        "tokens",
        "turns",
        "strip",
        "untyped",
        "ends",
        "verified",
    )
)
_RULES = {
    "anywhere", "calls", "calls_in_content", "close_alone", "content", "content_bare", "message_start", "opened", "shown",
}  # fmt: skip
_ENDS = ("end", "data")
_DECLARED = dict.fromkeys(
    ("hf", "response_template"),
    "Where others have this name, they read what a checkpoint declares: formats.from_response_template(declaration)",
)
_OVERFLOW = {"opening": "content", "value": "string"}
_AROUND = ("after_open", "before_close", "after_close")


def _files(folder: str) -> dict[str, Traversable]:
    root = resources.files("narrows.formats").joinpath("definitions")
    place = root.joinpath(folder) if folder else root
    return {item.name[: -len(".toml")]: item for item in place.iterdir() if item.name.endswith(".toml")}


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """The canonical names of the formats that narrows brings, in alphabetical order."""
    return tuple(sorted(_files("")))


@lru_cache(maxsize=1)
def aliases() -> dict[str, str]:
    """The names that other servers use for narrows' own formats, and which format each is. Reads them all: 20 ms, once."""
    return {alias: name for name in names() for alias in get(name).aliases}


@cache  # bounded: only names of files that exist are kept, errors are not
def _brought(name: str) -> Format:
    file = _files("")[name]
    return _read(file.read_bytes(), file.name)


def get(name: str) -> Format:
    """The format of this canonical name, of a name that other servers use for it, or one of your own: see `installed`."""
    if not isinstance(name, str):
        raise InputError(f"a format's name is a str, not {type(name).__name__}", code="format_unknown")
    if name in names():
        if name in _listed():
            raise FormatError(
                f"NARROWS_FORMATS has a file {name}.toml, and {name} is a format of narrows' own",
                code="format_name_taken",
                hint="Give the file another name; it may extend the format",
            )
        return _brought(name)
    if name in aliases():
        return _brought(aliases()[name])
    if name in (listed := _listed()):
        return _from_list(listed[name])
    if name in _entry_points():
        return _installed(name)
    raise FormatError(
        f"there is no format {quoted(name)}",
        code="format_unknown",
        hint=_DECLARED.get(name)
        or f"{_meant(name)}`narrows formats` lists them. A format of your own: load('FILE.toml'), or NARROWS_FORMATS",
    )


def _meant(name: str) -> str:
    """The names that come near, and those of one's own, which are few."""
    close = get_close_matches(name[:100], (*known(), *aliases()), n=3)
    own = installed()[:10]
    return (f"Did you mean {' or '.join(close)}? " if close else "") + (
        f"Of your own: {', '.join(own)}. " if own else ""
    )


def load(path: str | PathLike[str]) -> Format:
    """The format that a TOML file of one's own describes; or, where the name ends in `.json`, the `response_template` that the file is
    or holds (a tokenizer_config.json)."""
    file = file_path(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise FormatError(f"cannot read {file}: {error.strerror or error}", code="format_unreadable") from None
    if file.suffix != ".json":
        return _read(data, file.name)
    from narrows.formats.response_template import from_response_template

    try:
        declared = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{file.name} is not JSON: {error}") from None
    if isinstance(declared, dict) and "fields" not in declared and "response_template" in declared:
        declared = declared["response_template"]
    return from_response_template(declared, file.stem)


def from_table(table: dict[str, Any], name: str, source: str) -> Format:
    """The format that a table describes, as a TOML file would. `source`: what it was made from."""
    return _format(table, name, source)


def installed() -> tuple[str, ...]:
    """The names of the formats that are not narrows' own, in alphabetical order: entry points of the group `narrows.formats`, and the TOML
    files that the environment variable NARROWS_FORMATS lists (parted as in PATH), each by its name without `.toml`. The latter come first."""
    return tuple(sorted({*_entry_points(), *_listed()}))


def known() -> tuple[str, ...]:
    """All names that `get` takes, but for aliases: narrows' own, then the others. Reads no format."""
    return tuple(dict.fromkeys((*names(), *installed())))


def _listed() -> dict[str, str]:
    paths = [path for path in os.environ.get("NARROWS_FORMATS", "").split(os.pathsep) if path]
    return {Path(path).name.removesuffix(".toml"): path for path in reversed(paths)}


@lru_cache(maxsize=256)  # errors are not kept
def _from_list(path: str) -> Format:
    return load(path)


@lru_cache(maxsize=1)
def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group="narrows.formats")}


@cache  # bounded by what is installed; errors are not kept
def _installed(name: str) -> Format:
    """An entry point is a `Format`, or the path of a TOML file."""
    point = _entry_points()[name]
    try:
        found = point.load()
    except Exception as error:
        raise FormatError(
            f"the format {name!r} of an installed package cannot be loaded: {error}",
            code="format_unreadable",
            hint=f"Its entry point is {point.value}",
        ) from error
    if isinstance(found, Format):
        return found
    if isinstance(found, (str, Path)):
        return load(found)
    raise FormatError(f"the entry point {point.value} is no Format and no path, but {type(found).__name__}")


def _read(data: bytes, file: str) -> Format:
    return _format(_parse(data, file), file, data.decode("utf-8"))


@cache  # bounded by the files that exist
def _style(name: str) -> ReasoningStyle:
    file = _files("reasoning")[name]
    return _reasoning(_parse(file.read_bytes(), file.name), file.name)


def reasoning_style(name: str) -> ReasoningStyle:
    """The reasoning style of this name, or of a name that other servers use for it."""
    known = _files("reasoning")
    if isinstance(name, str) and name not in known:
        name = style_aliases().get(name, name)
    if not isinstance(name, str) or name not in known:
        hint = _DECLARED.get(name) if isinstance(name, str) else None
        hint = hint or f"Known: auto, {', '.join(sorted(known))}"
        raise FormatError(f"there is no reasoning style {quoted(name)}", code="reasoning_unknown", hint=hint)
    return _style(name)


def styles() -> tuple[str, ...]:
    """The names of the reasoning styles that narrows brings, in alphabetical order."""
    return tuple(sorted(_files("reasoning")))


@lru_cache(maxsize=1)
def style_aliases() -> dict[str, str]:
    """The names that other servers use for narrows' reasoning styles, and which style each is."""
    return {alias: name for name in styles() for alias in _style(name).aliases}


def reasoning_names() -> tuple[str, ...]:
    """The names that say how an answer reasons: of formats, for their own style, of styles, and what others call them."""
    return tuple(sorted({*known(), *styles(), *aliases(), *style_aliases()}))


def reasoning_of(name: str) -> tuple[Format | None, ReasoningStyle | None]:
    """What one of `reasoning_names` stands for: (the format and its own style), or (None, the style). Names come before what others call them,
    and formats before styles."""
    if name in known() or (name not in styles() and name in aliases()):
        found = get(name)
        return found, found.reasoning
    return None, reasoning_style(name)


def _parse(data: bytes, file: str) -> dict[str, Any]:
    try:
        table: dict[str, Any] = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise FormatError(f"{file} is not TOML: {error}") from None
    return table


def _format(table: dict[str, Any], file: str, source: str) -> Format:
    _only(table, _KEYS, file, "")
    if "extends" in table:
        table = _extended(table, file)
    shapes = table.get("call")
    if not isinstance(shapes, list) or not shapes:
        raise _wrong(file, "/call", "at least one [[call]] table is needed")
    layout = _table(table, "layout", file)
    _only(layout, {"before", "between", "reasoning"}, file, "/layout")
    around = _table(layout, "reasoning", file, "/layout")
    _only(around, set(_AROUND), file, "/layout/reasoning")
    overflow = _table(table, "overflow", file)
    for key, value in overflow.items():
        if _OVERFLOW.get(key) != value:
            raise _wrong(file, f"/overflow/{key}", f"only {', '.join(f'{k} = {v!r}' for k, v in _OVERFLOW.items())}")
    style = table.get("reasoning")
    ids = _text(table, "ids", file, "", "openai")
    if ids not in STYLES:
        raise _wrong(file, "/ids", f"one of {', '.join(STYLES)}")
    untyped = _text(table, "untyped", file, "", "string")
    if untyped not in UNTYPED:
        raise _wrong(file, "/untyped", f"one of {', '.join(UNTYPED)}")
    detect = table.get("detect")
    calls = tuple(_shape(shape, file, f"/call/{i}") for i, shape in enumerate(shapes))
    forms = [shape.form for shape in calls]
    if len(set(forms)) < len(forms):
        raise _wrong(file, "/call", "two [[call]] tables have the same form")
    headed = [i for i, shape in enumerate(calls) if isinstance(shape, JsonMessagesShape)]
    own_style = _style_of(style, file)
    if headed and (own_style is None or own_style.head is None):
        raise _wrong(file, f"/call/{headed[0]}/family", "json_messages goes with a reasoning style that has a [head]")
    read_only = frozenset(shape.form for shape, t in zip(calls, shapes, strict=True) if t.get("read_only", False))
    if calls[0].form in read_only:
        raise _wrong(file, "/call/0/read_only", "the first form is the one that is written")
    return Format(
        name=_text(table, "name", file, ""),
        title=_text(table, "title", file, ""),
        models=_texts(table, "models", file, ""),
        aliases=_texts(table, "aliases", file, ""),
        reasoning=own_style,
        ids=ids,
        calls=calls,
        read_only=read_only,
        before=_text(layout, "before", file, "/layout", ""),
        between=_text(layout, "between", file, "/layout", ""),
        around_reasoning=tuple(_around(around, key, own_style, file) for key in _AROUND),
        detect=_record(Detect, detect, file, "/detect") if detect is not None else None,
        source=source,
        tokens=_texts(table, "tokens", file, ""),
        turns=_texts(table, "turns", file, ""),
        ends=_texts(table, "ends", file, ""),
        strip=_flag(table, "strip", file, False),
        untyped=untyped,
        verified=_flag(table, "verified", file, True),
    )


def _around(table: dict[str, Any], key: str, style: ReasoningStyle | None, file: str) -> str:
    """Layout around reasoning as it is written: the style's, or less of that, which the parser reads as layout, too."""
    read = getattr(style, key, "")
    written = _text(table, key, file, "/layout/reasoning", read)
    if not read.startswith(written):
        raise _wrong(file, f"/layout/reasoning/{key}", f"must begin what the style reads as layout there, {read!r}")
    return written


def _extended(table: dict[str, Any], file: str) -> dict[str, Any]:
    """The table, with what it leaves out taken from one of narrows' own formats. Not its name, aliases and detection, which tell formats apart."""
    name = _text(table, "extends", file, "")
    if name not in names():
        raise _wrong(file, "/extends", f"one of narrows' own formats, not {name!r}: {', '.join(names())}")
    base = _parse(_files("")[name].read_bytes(), f"{name}.toml")
    return {
        "aliases": [],
        **{key: value for key, value in base.items() if key not in ("name", "aliases", "detect")},
        **table,
    }


def _style_of(style: Any, file: str) -> ReasoningStyle | None:
    """A format's reasoning: the name of a style, or a table that is one."""
    if isinstance(style, dict):
        return _reasoning(style, f"{file}/reasoning")
    if style is None or isinstance(style, str):
        return reasoning_style(style) if style is not None else None
    raise _wrong(file, "/reasoning", "must be the name of a style, or a table that describes one")


def _shape(table: Any, file: str, pointer: str) -> Any:
    if not isinstance(table, dict):
        raise _wrong(file, pointer, "a table is needed")
    family = table.get("family")
    if not isinstance(family, str) or family not in FAMILIES:
        raise _wrong(file, f"{pointer}/family", f"one of {', '.join(FAMILIES)}")
    _flag(table, "read_only", file, False)
    keys = {k: v for k, v in table.items() if k not in ("family", "read_only")}
    shape = _record(FAMILIES[family], keys, file, pointer)
    for field in fields(FAMILIES[family]):
        must = field.default is MISSING or (
            field.name.endswith("_keys") and field.name in ("name_keys", "arguments_keys")
        )
        if must and not getattr(shape, field.name):
            raise _wrong(file, f"{pointer}/{field.name}", "must not be empty")
        if field.name.endswith("_also") and "" in getattr(shape, field.name):
            raise _wrong(file, f"{pointer}/{field.name}", "must not hold an empty string")
    for key, message in shape.problems() if hasattr(shape, "problems") else ():
        raise _wrong(file, f"{pointer}/{key}", message)
    behind_values = shape.markers_behind_values() if hasattr(shape, "markers_behind_values") else shape.markers()
    for marker in behind_values:
        if _overlaps(marker):
            raise _wrong(file, pointer, f"{marker!r} ends as it begins, so text before it cannot be told from it")
    return shape


def _overlaps(marker: str) -> bool:
    """Whether a proper suffix of the marker is a prefix of it."""
    return any(marker.startswith(marker[n:]) for n in range(1, len(marker)))


def _reasoning(table: dict[str, Any], file: str) -> ReasoningStyle:
    _only(table, {"name", "aliases", "tokens", "pair", "content", "head", "layout", "rules"}, file, "")
    pairs = _pairs(table, "pair", file)
    if not pairs:
        raise _wrong(file, "/pair", "at least one [[pair]] table is needed")
    rules, layout = _table(table, "rules", file), _table(table, "layout", file)
    _only(rules, _RULES, file, "/rules")
    _only(layout, {"before_open", "after_open", "before_close", "after_close", "inside_content"}, file, "/layout")
    for key, allowed in (("calls", _ENDS), ("calls_in_content", _ENDS), ("content", ("end", "line", "data"))):
        if rules.get(key, "end") not in allowed:
            raise _wrong(file, f"/rules/{key}", f"one of {', '.join(json.dumps(word) for word in allowed)}")
    checked = _checked(ReasoningStyle, {**rules, **layout}, file, "/rules")
    wraps = _pairs(table, "content", file, {"before_calls"})
    marked = [i for i, t in enumerate(table.get("content", ())) if _flag(t, "before_calls", file, False)]
    if len(marked) > 1:
        raise _wrong(
            file, f"/content/{marked[1]}/before_calls", "at most one [[content]] table is written before calls"
        )
    return ReasoningStyle(
        name=_text(table, "name", file, ""),
        pairs=pairs,
        aliases=_texts(table, "aliases", file, ""),
        wraps=wraps,
        before_calls=marked[0] if marked else 0,
        tokens=_texts(table, "tokens", file, ""),
        head=_head(table["head"], file) if "head" in table else None,
        **checked,
    )


def _head(table: Any, file: str) -> Head:
    head: Head = _record(Head, table, file, "/head")
    for field in fields(Head):
        if field.name != "namespace" and not getattr(head, field.name):
            raise _wrong(file, f"/head/{field.name}", "must not be empty")
    return head


def _pairs(
    table: dict[str, Any], key: str, file: str, more: set[str] | frozenset[str] = frozenset()
) -> tuple[tuple[str, str], ...]:
    """The (open, close) of each table of this name."""
    tables = table.get(key, [])
    if not isinstance(tables, list):
        raise _wrong(file, f"/{key}", f"must be [[{key}]] tables")
    found: list[tuple[str, str]] = []
    for i, pair in enumerate(tables):
        where = f"/{key}/{i}"
        _only(pair, {"open", "close"} | more, file, where)
        found.append((_text(pair, "open", file, where), _text(pair, "close", file, where)))
        if not all(found[-1]):
            raise _wrong(file, where, "neither open nor close may be empty")
    return tuple(found)


# Checking one table against a dataclass: its fields are the keys, their defaults the defaults.


def _record(kind: type[Any], table: Any, file: str, pointer: str) -> Any:
    if not isinstance(table, dict):
        raise _wrong(file, pointer, "a table is needed")
    _only(table, {field.name for field in fields(kind)}, file, pointer)
    return kind(**_checked(kind, table, file, pointer, complete=True))


_TYPES: dict[str, tuple[type[Any], str]] = {
    "str": (str, "a string"),
    "bool": (bool, "true or false"),
    "tuple[str, ...]": (list, "a list of strings"),
}


def _checked(kind: type[Any], table: dict[str, Any], file: str, pointer: str, complete: bool = False) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in fields(kind):
        where = f"{pointer}/{field.name}"
        if field.name not in table:
            if complete and field.default is MISSING:
                raise _wrong(file, where, "is missing")
            continue
        expected, words = _TYPES[str(field.type)]
        value = table[field.name]
        if not isinstance(value, expected) or (expected is list and not all(isinstance(v, str) for v in value)):
            raise _wrong(file, where, f"must be {words}")
        values[field.name] = tuple(value) if isinstance(value, list) else value
    return values


def _only(table: Any, allowed: set[str] | frozenset[str], file: str, pointer: str) -> None:
    if not isinstance(table, dict):
        raise _wrong(file, pointer, "a table is needed")
    for key in table:
        if key not in allowed:
            raise _wrong(file, f"{pointer}/{key}", f"is not known; allowed: {', '.join(sorted(allowed))}")


def _table(table: dict[str, Any], key: str, file: str, pointer: str = "") -> dict[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise _wrong(file, f"{pointer}/{key}", "a table is needed")
    return value


def _text(table: dict[str, Any], key: str, file: str, pointer: str, default: str | None = None) -> str:
    value = table.get(key, default)
    if not isinstance(value, str):
        raise _wrong(file, f"{pointer}/{key}", "is missing" if value is None else "must be a string")
    return value


def _flag(table: dict[str, Any], key: str, file: str, default: bool) -> bool:
    value = table.get(key, default)
    if not isinstance(value, bool):
        raise _wrong(file, f"/{key}", "must be true or false")
    return value


def _texts(table: dict[str, Any], key: str, file: str, pointer: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise _wrong(file, f"{pointer}/{key}", "must be a list of strings")
    return tuple(value)


def _wrong(file: str, pointer: str, message: str) -> FormatError:
    return FormatError(f"{file}: {message}", pointer=pointer)
