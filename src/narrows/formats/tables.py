"""TOML tables, checked against a dataclass: its fields are the keys, their defaults the defaults.

A key that is missing, misspelled or of the wrong type is a `FormatError` that names the file, the place and what is
allowed.
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields
from importlib import resources
from typing import TYPE_CHECKING, Any

from narrows.errors import FormatError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from importlib.abc import Traversable


def definitions(folder: str = "") -> dict[str, Traversable]:
    root = resources.files("narrows.formats").joinpath("definitions")
    place = root.joinpath(folder) if folder else root
    return {item.name[: -len(".toml")]: item for item in place.iterdir() if item.name.endswith(".toml")}


def parse(data: bytes, file: str) -> dict[str, Any]:
    try:
        table: dict[str, Any] = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise FormatError(f"{file} is not TOML: {error}") from None
    return table


def pairs_of(
    table: dict[str, Any], key: str, file: str, more: set[str] | frozenset[str] = frozenset()
) -> tuple[tuple[str, str], ...]:
    """The (open, close) of each table of this name."""
    tables = table.get(key, [])
    if not isinstance(tables, list):
        raise wrong(file, f"/{key}", f"must be [[{key}]] tables")
    pairs: list[tuple[str, str]] = []
    for i, pair in enumerate(tables):
        where = f"/{key}/{i}"
        only(pair, {"open", "close"} | more, file, where)
        pairs.append((text_of(pair, "open", file, where), text_of(pair, "close", file, where)))
        if not all(pairs[-1]):
            raise wrong(file, where, "neither open nor close may be empty")
    return tuple(pairs)


def record(kind: type[Any], table: Any, file: str, pointer: str) -> Any:
    if not isinstance(table, dict):
        raise wrong(file, pointer, "a table is needed")
    only(table, {field.name for field in fields(kind) if field.init}, file, pointer)
    return kind(**checked(kind, table, file, pointer, complete=True))


_TYPES: dict[str, tuple[type[Any], str]] = {
    "str": (str, "a string"),
    "bool": (bool, "true or false"),
    "tuple[str, ...]": (list, "a list of strings"),
}


def checked(kind: type[Any], table: dict[str, Any], file: str, pointer: str, complete: bool = False) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in fields(kind):
        where = f"{pointer}/{field.name}"
        if field.name not in table:
            if complete and field.default is MISSING:
                raise wrong(file, where, "is missing")
            continue
        expected, words = _TYPES[str(field.type)]
        value = table[field.name]
        if not isinstance(value, expected) or (expected is list and not all(isinstance(v, str) for v in value)):
            raise wrong(file, where, f"must be {words}")
        values[field.name] = tuple(value) if isinstance(value, list) else value
    return values


def only(table: Any, allowed: set[str] | frozenset[str], file: str, pointer: str) -> None:
    if not isinstance(table, dict):
        raise wrong(file, pointer, "a table is needed")
    for key in table:
        if key not in allowed:
            raise wrong(file, f"{pointer}/{key}", f"is not known; allowed: {', '.join(sorted(allowed))}")


def subtable(table: dict[str, Any], key: str, file: str, pointer: str = "") -> dict[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise wrong(file, f"{pointer}/{key}", "a table is needed")
    return value


def text_of(table: dict[str, Any], key: str, file: str, pointer: str, default: str | None = None) -> str:
    value = table.get(key, default)
    if not isinstance(value, str):
        raise wrong(file, f"{pointer}/{key}", "is missing" if value is None else "must be a string")
    return value


def flag(table: dict[str, Any], key: str, file: str, default: bool) -> bool:
    value = table.get(key, default)
    if not isinstance(value, bool):
        raise wrong(file, f"/{key}", "must be true or false")
    return value


def texts(table: dict[str, Any], key: str, file: str, pointer: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise wrong(file, f"{pointer}/{key}", "must be a list of strings")
    return tuple(value)


def wrong(file: str, pointer: str, message: str) -> FormatError:
    return FormatError(f"{file}: {message}", pointer=pointer)
