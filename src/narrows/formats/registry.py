"""Formats by name: those that narrows brings, those of installed packages, and files of one's own."""

from __future__ import annotations

import json
import os
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from narrows.arguments import file_path, quoted
from narrows.errors import FormatError, InputError
from narrows.formats.format import Format
from narrows.formats.from_toml import format_of_table
from narrows.formats.response_template import from_response_template
from narrows.formats.styles import DECLARED, reasoning_style, style_aliases, styles
from narrows.formats.tables import definitions, parse

if TYPE_CHECKING:
    from os import PathLike

    from narrows.formats.reasoning import ReasoningStyle


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """The canonical names of the formats that narrows brings, in alphabetical order."""
    return tuple(sorted(definitions()))


@lru_cache(maxsize=1)
def aliases() -> dict[str, str]:
    """The names that other servers use for narrows' own formats, and which format each is. Reads them all: 20 ms,
    once."""
    return {alias: name for name in names() for alias in get(name).aliases}


@cache  # bounded: only names of files that exist are kept, errors are not
def _brought(name: str) -> Format:
    file = definitions()[name]
    return _read(file.read_bytes(), file.name)


def get(name: str) -> Format:
    """The format of this canonical name, of a name that other servers use for it, or one of your own: see
    `installed`. Raises FormatError `format_unknown` with names that come near. Cost: some milliseconds, once for each
    format."""
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
        hint=DECLARED.get(name)
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
    """The format that a TOML file of one's own describes; or, where the name ends in `.json`, the `response_template`
    that the file is or holds (a tokenizer_config.json).

    Raises FormatError `format_unreadable`, and with the place in the file for what it does not understand. The file is
    data: nothing in it is run.
    """
    file = file_path(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise FormatError(f"cannot read {file}: {error.strerror or error}", code="format_unreadable") from None
    if file.suffix != ".json":
        return _read(data, file.name)
    try:
        declared = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{file.name} is not JSON: {error}") from None
    if isinstance(declared, dict) and "fields" not in declared and "response_template" in declared:
        declared = declared["response_template"]
    return from_response_template(declared, file.stem)


def find(name: str) -> Format:
    """What an option of a command names: the path of a `.toml` or `.json` file, or the name of a format. Raises what
    `load` and `get` raise."""
    return load(name) if isinstance(name, str) and name.endswith((".toml", ".json")) else get(name)


def installed() -> tuple[str, ...]:
    """The names of the formats that are not narrows' own, in alphabetical order: entry points of the group
    `narrows.formats`, and the TOML files that the environment variable NARROWS_FORMATS lists, separated as in PATH. The
    name of a file is without `.toml`. Where both have a name, the file counts."""
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
        loaded = point.load()
    except Exception as error:
        raise FormatError(
            f"the format {name!r} of an installed package cannot be loaded: {error}",
            code="format_unreadable",
            hint=f"Its entry point is {point.value}",
        ) from error
    if isinstance(loaded, Format):
        return loaded
    if isinstance(loaded, (str, Path)):
        return load(loaded)
    raise FormatError(f"the entry point {point.value} is no Format and no path, but {type(loaded).__name__}")


def _read(data: bytes, file: str) -> Format:
    return format_of_table(parse(data, file), file, data.decode("utf-8"))


def reasoning_names() -> tuple[str, ...]:
    """The names that say how an answer reasons: of formats, for their own style, of styles, and what others call
    them."""
    return tuple(sorted({*known(), *styles(), *aliases(), *style_aliases()}))


def reasoning_of(name: str) -> tuple[Format | None, ReasoningStyle | None]:
    """What one of `reasoning_names` stands for: (the format and its own style), or (None, the style). Names come before
    what others call them, and formats before styles."""
    if name in known() or (name not in styles() and name in aliases()):
        fmt = get(name)
        return fmt, fmt.reasoning
    return None, reasoning_style(name)
