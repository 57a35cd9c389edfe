"""Where the user gave what a command reads: in which file, or after which option.

`generate` makes a request of its options, and errors point into the request (`/structured_outputs/json/properties/a`).
The user knows a file or an option: `schema.json: ... (at /properties/a)`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

from narrows.errors import NarrowsError


class Sources:
    """JSON pointers of a command's input, and the names that the user knows them by."""

    def __init__(self, whole: str | None = None) -> None:
        """`whole`: the name of all of it, if it comes from one place."""
        self._named: dict[str, tuple[str, str]] = {} if whole is None else {"": (whole, "")}

    def add(self, pointer: str, name: str, inside: str = "") -> None:
        """What stands at the pointer came from the file or the option `name`, where it stood at `inside`."""
        self._named[pointer] = name, inside

    def of(self, pointer: str) -> tuple[str | None, str]:
        """The source of what stands at the pointer, and the pointer inside it. The longest known pointer counts. None
        and the pointer itself if no source is known."""
        head = pointer
        while head and head not in self._named:
            head = head.rpartition("/")[0]
        if head not in self._named:
            return None, pointer
        name, inside = self._named[head]
        return name, inside + pointer[len(head) :]

    def located(self, error: NarrowsError) -> tuple[str | None, NarrowsError]:
        """The source of the error, and a copy of it with the place in that source."""
        name, inside = self.of(error.pointer or "")
        if name is None:
            return None, error
        located = copy.copy(error)
        located.pointer = inside or None
        return name, located


@contextmanager
def errors_at(pointer: str) -> Iterator[None]:
    """Errors that leave the block are about what stands at the pointer."""
    try:
        yield
    except NarrowsError as error:
        located = copy.copy(error)
        located.pointer = pointer + (error.pointer or "")
        raise located from None
