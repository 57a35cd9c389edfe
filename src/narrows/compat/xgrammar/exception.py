"""The errors. Each is a `NarrowsError` with a code, a place and a hint, and also what xgrammar raises there.

xgrammar raises RuntimeError for a grammar that it cannot read and ValueError for some arguments. Callers catch either,
so each error here is both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from narrows.errors import NarrowsError


class CompatError(NarrowsError, RuntimeError, ValueError):
    """Base of what `narrows.compat.xgrammar` raises. The code is that of the error of narrows behind it, or one of

    `compat_unsupported`    xgrammar has it, narrows does not
    `wrong_type`            an argument of another type (also a TypeError)
    `argument_invalid`      an argument of another value
    `bitmask_invalid`       a bitmask or logits of another shape, type or place
    `matcher_terminated`    a mask or text is asked for after the stop token
    `rollback_too_far`      more steps are to be taken back than there are
    `draft_tree_invalid`    indices that are no tree
    `token_rejected`        a text that the logits processor follows does not fit its grammar
    """

    default_code = "compat_invalid"


class WrongTypeError(CompatError, TypeError):
    """An argument has the wrong type."""

    default_code = "wrong_type"


class InvalidJSONError(CompatError):
    """A text is no JSON."""

    default_code = "json_invalid"


class InvalidStructuralTagError(CompatError):
    """What is no structural tag, or one that narrows does not enforce exactly."""

    default_code = "structural_tag_invalid"


class DeserializeFormatError(CompatError):
    """A text is JSON, but not what `serialize_json` writes, or it belongs to another tokenizer."""

    default_code = "serialized_invalid"


class DeserializeVersionError(CompatError):
    """A text was written by another version, or by xgrammar itself."""

    default_code = "serialized_version"


def theirs(error: NarrowsError, kind: type[CompatError] = CompatError) -> CompatError:
    """The same error, as one that xgrammar's callers catch."""
    if isinstance(error, CompatError):
        return error
    return kind(
        error.message,
        code=error.code,
        pointer=error.pointer,
        line=error.line,
        column=error.column,
        offset=error.offset,
        limit=error.limit,
        hint=error.hint,
    )


@contextmanager
def as_theirs(kind: type[CompatError] = CompatError) -> Iterator[None]:
    """Errors of narrows that leave the block are `kind`."""
    try:
        yield
    except CompatError:
        raise
    except NarrowsError as error:
        raise theirs(error, kind) from error


def unsupported(what: str, hint: str) -> NoReturn:
    """Raises CompatError `compat_unsupported`."""
    raise CompatError(f"narrows has no {what}", code="compat_unsupported", hint=hint)
