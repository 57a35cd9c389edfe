"""A grammar as llguidance takes it, read into narrows' rules and compiled.

It is a Lark text, or JSON: `{"grammars": [{"name": "..", "lark_grammar": "..."}, {"json_schema": {...}}],
"max_tokens": 100}`, as text or as a dict. The first grammar is the one that counts; a Lark text refers to others as
`@name`. `gbnf_grammar` is narrows' own: a text in GBNF, which is what `grammar_from("gbnf", ...)` makes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from narrows.compat.llguidance.json_options import read_schema
from narrows.constraint import Constraint
from narrows.errors import GrammarError, LimitError, UnsupportedError
from narrows.grammar import ir
from narrows.grammar.captures import has_captures
from narrows.grammar.fuse import children
from narrows.grammar.grammar import Grammar
from narrows.grammar.json_schema.report import Status
from narrows.grammar.languages import LANGUAGES
from narrows.grammar.languages.lark.syntax import read as read_lark
from narrows.grammar.languages.text import GrammarText
from narrows.grammar.work import Work
from narrows.limits import Limits
from narrows.vocabulary.vocabulary import Vocabulary

LARK_OPTIONS: Mapping[str, Any] = {}
"""The options with which Lark texts are read."""
REGEX_NAME = "regex"
"""The name of the grammars that `regex_grammar` makes. Their pattern is one of Rust's `regex`."""
_REGEX_START = "start: /"
_KINDS = ("lark_grammar", "json_schema", "gbnf_grammar")


@dataclass(frozen=True, slots=True)
class Read:
    """A grammar, before it is compiled for a vocabulary."""

    grammar: Grammar
    max_tokens: int | None
    warnings: tuple[str, ...]
    """What is looser or tighter than the text says."""
    names_tokens: bool
    markers: tuple[str, ...]
    """The special tokens that Lark texts name."""
    no_forcing: bool
    has_captures: bool
    temperatures: tuple[str, ...]

    def compiled(self, vocabulary: Vocabulary, limits: Limits) -> Compiled:
        """Raises GrammarError, code `token_unknown`, for a special token that the vocabulary lacks."""
        for name in self.markers:
            if name not in vocabulary.special:
                known = ", ".join(list(vocabulary.special)[:20])
                raise GrammarError(f'unknown special token: "{name}"', code="token_unknown", hint=f"There are {known}")
        return Compiled(vocabulary.compile(self.grammar, limits), self, limits)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A grammar that was read and compiled, with the limits that it runs under."""

    constraint: Constraint
    read: Read
    limits: Limits


def regex_grammar(pattern: str) -> dict[str, Any]:
    """The grammar of a pattern, which stands between slashes already."""
    entry = {"name": REGEX_NAME, "json_schema": None, "lark_grammar": f"{_REGEX_START}{pattern}/"}
    return {"grammars": [entry], "max_tokens": None}


def read(source: str | Mapping[str, Any], limits: Limits) -> Read:
    """Raises GrammarError, UnsupportedError and LimitError; those of the languages have their places."""
    if not isinstance(source, str):
        return _read_grammars(source, limits)
    text = source.lstrip()
    if not text:
        raise GrammarError("Empty grammar", code="grammar_empty")
    if not text.startswith("{"):
        return _read_grammars({"grammars": [{"lark_grammar": source}]}, limits)
    if len(text) > limits.schema_bytes:
        raise LimitError("the grammar is too long", limit="schema_bytes")
    try:
        return _read_grammars(json.loads(text), limits)
    except (json.JSONDecodeError, RecursionError) as error:
        raise GrammarError(f"this is not valid JSON: {error}", code="json_invalid") from None


def _read_grammars(source: Any, limits: Limits) -> Read:
    grammars = source.get("grammars") if isinstance(source, Mapping) else None
    if not isinstance(grammars, (list, tuple)):
        raise GrammarError(
            "missing field `grammars`", code="grammar_invalid", hint='Write {"grammars": [{"lark_grammar": "..."}]}'
        )
    if not grammars:
        raise GrammarError("empty grammars array", code="grammar_invalid", pointer="/grammars")
    most = source.get("max_tokens")
    if most is not None and (type(most) is not int or most < 0):
        raise GrammarError("max_tokens must be a number of tokens", code="grammar_invalid", pointer="/max_tokens")
    return _Grammars(grammars, limits).run(most)


class _Grammars:
    """The list, in which later grammars are parts of the first one."""

    def __init__(self, grammars: Sequence[Any], limits: Limits) -> None:
        self._limits = limits
        self._entries = [_entry(item, f"/grammars/{index}") for index, item in enumerate(grammars)]
        self._places: dict[str, int] = {}
        for index, (name, _, _) in enumerate(self._entries):
            if name is not None and self._places.setdefault(name, index) != index:
                raise GrammarError(
                    f"duplicate grammar name: @{name[:64]}", code="grammar_invalid", pointer=f"/grammars/{index}/name"
                )
        self._read: dict[int, Grammar] = {}
        self._spent = 0
        self._markers: dict[str, None] = {}

    def run(self, max_tokens: int | None) -> Read:
        for index in self._in_order():
            try:
                self._read[index] = self._one(index)
            except (GrammarError, LimitError) as error:
                if len(self._entries) > 1:
                    error.pointer = f"/grammars/{index}{error.pointer or ''}"
                raise
        grammar = Grammar(self._read[0].module, self._read[0].report, self._spent)
        report = [
            (f"{f'@{self._entries[index][0]} ' if index else ''}{place}", status)
            for index, made in self._read.items()
            for place, status in made.report.items()
        ]
        texts = [content for _, kind, content in self._entries if kind == "lark_grammar"]
        return Read(
            grammar,
            max_tokens,
            tuple([_warning(place, status) for place, status in report if str(status) != "exact"]),
            any(True for _ in _named_tokens(grammar.module)),
            tuple(self._markers),
            any(self._forbids_forcing(text) for text in texts),
            has_captures(grammar.module),
            tuple([place for place, status in report if "temperature" in _reason(status)]),
        )

    def _in_order(self) -> list[int]:
        """The grammars that the first one needs, each after its parts."""
        order: dict[int, None] = {}
        open_ones: set[int] = set()
        todo = [0]
        while todo:
            index = todo[-1]
            missing = [] if index in order else [part for part in self._parts(index) if part not in order]
            cycle = [part for part in missing if part in open_ones or part == index]
            if cycle:
                raise UnsupportedError(
                    f"the grammar @{self._entries[cycle[0]][0]} is a part of itself",
                    code="grammar_recursive",
                    pointer=f"/grammars/{index}",
                    hint="Write the grammars as rules of one text",
                )
            if missing:
                open_ones.add(index)
                todo += missing
            else:
                todo.pop()
                open_ones.discard(index)
                order[index] = None
        return list(order)

    def _parts(self, index: int) -> list[int]:
        _, kind, content = self._entries[index]
        if kind != "lark_grammar" or len(self._entries) == 1:
            return []
        return [self._places[name] for name in _referred(content) if name in self._places]

    def _one(self, index: int) -> Grammar:
        name, kind, content = self._entries[index]
        left = self._limits.reading_work - self._spent
        if left <= 0:
            raise LimitError("the grammars take too much work", limit="reading_work")
        limits = replace(self._limits, reading_work=left)
        if kind == "gbnf_grammar":
            made = Grammar.from_gbnf(content, limits=limits)
        elif name == REGEX_NAME and (pattern := _pattern(content)) is not None:
            made = Grammar.from_regex(pattern, dialect="rust", limits=limits)
        else:
            work = Work(limits)
            if kind == "json_schema":
                result = read_schema(content, work)
                made = Grammar(result.module, result.report, work.spent)
            else:
                rules = {
                    self._entries[part][0]: self._read[part].module for part in self._parts(index) if part in self._read
                }
                module, report = LANGUAGES["lark"].read(
                    content, work, rules=rules, read_schema=read_schema, **LARK_OPTIONS
                )
                self._markers.update({node.text: None for node in _named_tokens(module) if isinstance(node, ir.Marker)})
                made = Grammar(module, report, work.spent)
        self._spent += made.work
        return made

    def _forbids_forcing(self, text: str) -> bool:
        if "no_forcing" not in text or _pattern(text) is not None:
            return False
        settings = read_lark(GrammarText(text, "lark", Work(self._limits))).settings
        return any(isinstance(found, dict) and found.get("no_forcing") is True for found, _ in settings)


def _entry(item: Any, pointer: str) -> tuple[str | None, str, Any]:
    """(name, kind, content) of one grammar."""
    if not isinstance(item, Mapping):
        raise GrammarError("a grammar must be an object", code="grammar_invalid", pointer=pointer)
    for field in item:
        if field != "name" and field not in _KINDS:
            raise UnsupportedError(
                f"the field {str(field)[:64]!r} of a grammar",
                code="grammar_unsupported",
                pointer=f"{pointer}/{str(field)[:64]}",
                hint=f"There are name, {', '.join(_KINDS)}",
            )
    given = [kind for kind in _KINDS if item.get(kind) is not None]
    if not given:
        raise GrammarError(
            "grammar must have either lark_grammar or json_schema", code="grammar_invalid", pointer=pointer
        )
    if len(given) > 1:
        raise GrammarError(f"cannot have both {given[0]} and {given[1]}", code="grammar_invalid", pointer=pointer)
    name, content = item.get("name"), item[given[0]]
    if name is not None and not isinstance(name, str):
        raise GrammarError("a name must be a string", code="grammar_invalid", pointer=f"{pointer}/name")
    if given[0] != "json_schema" and not isinstance(content, str):
        raise GrammarError(f"{given[0]} must be a string", code="grammar_invalid", pointer=f"{pointer}/{given[0]}")
    return name, given[0], content


def _referred(text: str) -> list[str]:
    """What stands after each `@`. In a string or a comment it refers to nothing, and does no harm."""
    names: dict[str, None] = {}
    for piece in text.split("@")[1:]:
        end = 0
        while end < len(piece) and (piece[end].isalnum() or piece[end] in "_-"):
            end += 1
        names[piece[:end]] = None
    return list(names)


def _pattern(text: str) -> str | None:
    """The pattern of a grammar that `regex_grammar` has made."""
    if not text.startswith(_REGEX_START) or not text.endswith("/"):
        return None
    pattern = text[len(_REGEX_START) : -1]
    is_escaped = False
    for c in pattern:
        if c in "/\n" and not is_escaped:
            return None
        is_escaped = c == "\\" and not is_escaped
    return None if is_escaped else pattern


def _named_tokens(module: ir.Module) -> Iterator[ir.Token | ir.Marker]:
    seen: set[int] = set()
    todo = list(module.rules.values())
    while todo:
        node = todo.pop()
        if isinstance(node, (ir.Token, ir.Marker)):
            yield node
        elif id(node) not in seen and not isinstance(node, (ir.Lexeme, ir.Distinct)):
            seen.add(id(node))
            todo += children(node)


def _warning(place: str, status: str) -> str:
    reason = _reason(status)
    return f"{place}: {status}" + (f": {reason}" if reason else "")


def _reason(status: str) -> str:
    return status.reason if isinstance(status, Status) else ""
