"""Checks the types of arguments at the public functions, so that a wrong type fails there and not deep inside.

    wants(TEXT, pattern=pattern, dialect=dialect)
    wants(optional(INTEGER), size=size)

Raises `InputError` code `wrong_type`. The error has the parameter (`pointer`: "/pattern"), the expected kind and the
given type. Cost: some 300 ns for each argument. So functions that are called per token do not use it: there the core
makes the same checks (core/bind/wrong_types.cpp).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from narrows.errors import InputError


@dataclass(frozen=True, slots=True)
class Kind:
    says: str
    """The words after "must be" in a message."""
    fits: Callable[[object], bool]


@cache  # bounded by the number of kinds in the code
def of(says: str, *types: type) -> Kind:
    """The kind of all instances of these types."""
    return Kind(says, lambda value: isinstance(value, types))


@cache
def optional(kind: Kind) -> Kind:
    return Kind(f"{kind.says}, or None", lambda value: value is None or kind.fits(value))


def _is_list(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1
    return isinstance(value, Sequence) and not isinstance(value, _TEXTS)


def _is_iterable(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Iterable) and not isinstance(value, _TEXTS)


_TEXTS = (str, bytes, bytearray, memoryview)

TEXT = of("a str", str)
TEXT_OR_PATH = of("a str or a path", str, os.PathLike)
FLAG = of("True or False", bool, np.bool_)
INTEGER = Kind("an int", lambda value: isinstance(value, (int, np.integer)) and not isinstance(value, bool))
NUMBER = Kind("a number", lambda value: isinstance(value, (int, float)) and not isinstance(value, bool))
MAPPING = of("a mapping", Mapping)
FUNCTION = Kind("callable", callable)
LIST = Kind("a list", _is_list)
ITERABLE = Kind("a list", _is_iterable)
"""A list, or anything else that can be iterated over once."""


def wants(kind: Kind, /, **arguments: object) -> None:
    """Raises `InputError` code `wrong_type` for the first argument that is not of this kind."""
    for name, value in arguments.items():
        if not kind.fits(value):
            raise wrong(name, kind, value)


def integer(name: str, value: object) -> int:
    """The value as an int, also from numpy's integers. Raises `InputError` code `wrong_type` for other types."""
    wants(INTEGER, **{name: value})
    return int(value)  # type: ignore[call-overload, no-any-return]


def file_path(value: object) -> Path:
    """A path that the system can look up. The file need not exist. An int is refused, because it would be an open file.
    Raises `InputError` code `wrong_type` or `path_invalid`."""
    if not isinstance(value, (str, os.PathLike)):
        raise InputError(
            f"path must be a str or a path, not {type(value).__name__}", code="wrong_type", pointer="/path"
        )
    try:
        path = Path(value)
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return path
    except (OSError, ValueError, TypeError) as error:  # too long, or with NUL or a lone surrogate
        raise InputError(f"{quoted(value)} is not a path: {error}", code="path_invalid", pointer="/path") from None
    return path


def wrong(name: str, kind: Kind, value: object) -> InputError:
    return InputError(f"{name} must be {kind.says}, not {type(value).__name__}", code="wrong_type", pointer=f"/{name}")


def quoted(value: object, most: int = 80) -> str:
    """An untrusted value for a message: texts and numbers as they are, shortened if they are long. Of other values
    only the type."""
    if isinstance(value, (str, bytes)):
        return repr(value) if len(value) <= most else f"{value[:most]!r}..."
    if isinstance(value, int) and value.bit_length() > 4 * most:
        return f"an int of {value.bit_length()} bits"
    if value is None or isinstance(value, (int, float)):
        return repr(value)
    return type(value).__name__
