"""What a grammar is made of, as data: the key of a cache, and what `serialize_json` writes.

A definition is a list of steps in the order in which they can be read: the parts of a step that joins grammars stand
before it. So nothing nests, and a grammar made of a thousand others is read without recursion.

    ("regex", "[a-z]+") ("json",) ("union", "2")

Cost: reading costs what the front ends cost (narrows.grammar.languages).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from narrows.compat.xgrammar.exception import CompatError, DeserializeFormatError, InvalidStructuralTagError, as_theirs
from narrows.compat.xgrammar.schemas import read_any_json, read_schema, read_structural_tag
from narrows.compat.xgrammar.serialized import read_object, write_object
from narrows.grammar.grammar import Grammar
from narrows.limits import DEFAULT_LIMITS, Limits

Step = tuple[str, ...]
Definition = tuple[Step, ...]

_LEAVES = {"json_schema": 2, "regex": 1, "ebnf": 2, "structural_tag": 1, "json": 0}
"""Kind -> the number of texts that it has."""


def read_step(step: Step, parts: Sequence[Grammar], limits: Limits = DEFAULT_LIMITS) -> Grammar:
    """The grammar of one step. `parts`: the grammars that it joins. Raises CompatError."""
    kind, texts = step[0], step[1:]
    with as_theirs(InvalidStructuralTagError if kind == "structural_tag" else CompatError):
        if kind == "json_schema":
            return read_schema(texts[0], texts[1], limits)
        if kind == "structural_tag":
            return read_structural_tag(texts[0], limits)
        if kind == "json":
            return read_any_json(limits)
        if kind == "regex":
            return _regex(texts[0], limits)
        if kind == "ebnf":
            return Grammar.from_ebnf(texts[0], "xgrammar", texts[1], limits=limits)
        if kind == "lark":
            return Grammar.from_lark(texts[0], rules=dict(zip(texts[1:], parts, strict=True)), limits=limits)
        return Grammar.concat(*parts) if kind == "concat" else Grammar.union(*parts)


def _regex(pattern: str, limits: Limits) -> Grammar:
    """JavaScript's dialect, but `.` is any character. The pattern is first read as it is written, so that no bracket in
    it closes the group around it."""
    Grammar.from_regex(pattern, "ecma", limits=limits)
    return Grammar.from_regex(f"(?s:{pattern})", "ecma", limits=limits)


def parts_of(step: Step) -> int:
    """How many grammars before it the step joins."""
    return len(step) - 2 if step[0] == "lark" else int(step[1]) if step[0] in ("concat", "union") else 0


def read(definition: Definition, limits: Limits = DEFAULT_LIMITS) -> Grammar:
    """The grammar of a whole definition. Raises CompatError."""
    ready: list[Grammar] = []
    for step in definition:
        first = len(ready) - parts_of(step)
        ready[first:] = [read_step(step, ready[first:], limits)]
    return ready[0]


def write(definition: Definition) -> str:
    """The definition as JSON."""
    return write_object({"steps": definition})


def from_text(text: str) -> Definition:
    """What `write` has written. Raises InvalidJSONError, DeserializeVersionError and DeserializeFormatError."""
    return from_steps(read_object(text, versioned=True).get("steps"))


def from_steps(steps: Any) -> Definition:
    """A definition from JSON values. Raises DeserializeFormatError."""
    if not isinstance(steps, list):
        raise DeserializeFormatError("steps is a list", pointer="/steps")
    ready = 0
    for k, step in enumerate(steps):
        if not _is_step(step) or parts_of(tuple(step)) > ready:
            raise DeserializeFormatError("this is no step of a definition", pointer=f"/steps/{k}")
        ready += 1 - parts_of(tuple(step))
    if ready != 1:
        raise DeserializeFormatError("the steps are not those of one grammar", pointer="/steps")
    return tuple(tuple(step) for step in steps)


def _is_step(step: Any) -> bool:
    if not isinstance(step, list) or not step or not all(isinstance(text, str) for text in step):
        return False
    kind = step[0]
    if kind in ("concat", "union"):
        return len(step) == 2 and step[1].isascii() and step[1].isdigit() and 0 < len(step[1]) < 7 and int(step[1]) > 0
    if kind == "lark":
        return len(step) >= 2
    return kind in _LEAVES and len(step) == 1 + _LEAVES[kind]
