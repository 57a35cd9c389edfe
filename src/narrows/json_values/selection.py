"""Which values of a JSON text are reported: those down to a level, or those that some patterns name.

A pattern is a JSON pointer (RFC 6901). A step `*` in it stands for any item of an array and any member of an object.

A selection gives each value marks: what the selection knows at this place. `below(marks, step)` are the marks of an
item or member. Cost: one operation a value with levels; with patterns at most one for each pattern.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from narrows.errors import InputError

ANY = "*"
_NO_BOUND = 1 << 60

Marks = Any
"""An int of `Levels`, or a tuple of nodes of `Patterns`. Only the selection that made them reads them."""


class Selection(Protocol):
    root: Marks
    """The marks of the whole text's value."""

    def below(self, marks: Marks, step: str | int) -> Marks: ...

    def holds(self, marks: Marks) -> bool:
        """Whether the value with these marks is reported."""

    def reaches(self, marks: Marks) -> bool:
        """Whether the value with these marks, or one in it, may be reported."""


class Levels:
    """All values down to level `depth`. The whole text's value is at level 0. None: all values."""

    __slots__ = ("root",)

    def __init__(self, depth: int | None) -> None:
        self.root: Marks = _NO_BOUND if depth is None else depth

    def below(self, marks: Marks, step: str | int) -> Marks:
        return marks - 1

    def holds(self, marks: Marks) -> bool:
        return bool(marks >= 0)

    reaches = holds


class _Node:
    """A step of some patterns: the patterns' next steps, and whether a pattern ends here."""

    __slots__ = ("ends", "steps")

    def __init__(self) -> None:
        self.steps: dict[str, _Node] = {}
        self.ends = False


class Patterns:
    """The values that the patterns name. Raises `InputError` code `pointer_invalid`."""

    __slots__ = ("root",)

    def __init__(self, pointers: Iterable[str]) -> None:
        top = _Node()
        for pointer in pointers:
            node = top
            for step in steps_of(pointer):
                node = node.steps.setdefault(step, _Node())
            node.ends = True
        self.root: Marks = (top,)

    def below(self, marks: Marks, step: str | int) -> Marks:
        if not marks:
            return marks
        name = str(step)
        next_nodes = []
        for node in marks:
            if name in node.steps:
                next_nodes.append(node.steps[name])
            if name != ANY and ANY in node.steps:
                next_nodes.append(node.steps[ANY])
        return tuple(next_nodes)

    def holds(self, marks: Marks) -> bool:
        return any(node.ends for node in marks)

    def reaches(self, marks: Marks) -> bool:
        return bool(marks)


def escaped(step: str) -> str:
    """A member's name as a step of a pointer."""
    return step.replace("~", "~0").replace("/", "~1") if "~" in step or "/" in step else step


def steps_of(pointer: str) -> list[str]:
    """The steps of a pointer, without their escapes. Raises `InputError` code `pointer_invalid`."""
    if not isinstance(pointer, str):
        raise InputError(f"a pointer must be a str, not {type(pointer).__name__}", code="wrong_type")
    if pointer and not pointer.startswith("/"):
        raise InputError(
            f"{pointer[:80]!r} is not a JSON pointer",
            code="pointer_invalid",
            hint='A pointer is empty or begins with "/", as in /items/0/name or /items/*',
        )
    steps = pointer.split("/")[1:]
    for step in steps:
        if step.count("~") != step.count("~0") + step.count("~1"):
            raise InputError(
                f"{pointer[:80]!r} has a ~ that is no escape", code="pointer_invalid", hint="~0 is ~, and ~1 is /"
            )
    return [step.replace("~1", "/").replace("~0", "~") for step in steps]
