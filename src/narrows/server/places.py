"""Where the fields of a request stood in the body that the client sent.

A request may come by another API than our own, or under another server's names. It is then translated to our names.
Errors are found in the translation, but must name what the client sent. `Places` leads back: it maps a JSON pointer
into the translation to one into the body.

Cost: a look-up for each level of a pointer.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from narrows.errors import NarrowsError


class Places:
    """`moved`: pointer into the translation -> pointer into the body. All that is below moves along. The longest
    pointer counts. What is not in it stands at the same place in both."""

    def __init__(self, moved: Mapping[str, str] | None = None) -> None:
        self._moved = moved or {}

    def outer(self, pointer: str) -> str:
        """The pointer into the body for one into the translation."""
        head = pointer if self._moved else ""
        while head and head not in self._moved:
            head = head.rpartition("/")[0]
        moved = self._moved.get(head)
        return pointer if moved is None else moved + pointer[len(head) :]

    def after(self, inner: Places) -> Places:
        """Both, for a translation of a translation: `inner` leads to where `self` begins."""
        if not inner._moved or not self._moved:
            return inner if inner._moved else self
        return Places({**self._moved, **{new: self.outer(old) for new, old in inner._moved.items()}})

    @contextmanager
    def located(self) -> Iterator[None]:
        """Errors that leave the block have their pointers mapped."""
        try:
            yield
        except NarrowsError as error:
            if not self._moved or error.pointer is None:
                raise
            located = copy.copy(error)  # requests that share a compilation share one error object
            located.pointer = self.outer(error.pointer)
            raise located from error


UNMOVED = Places()
