"""Writes a compiled grammar as GBNF, the language of llama.cpp's `grammar` field, or as xgrammar's EBNF.

The text allows what the grammar allows, exactly, as far as it is UTF-8. Rules stay rules. A regular part with a
complement or an intersection becomes an automaton over characters, one rule for each state. What no context-free text
can say is refused: names that must not come again (`ir.Distinct`, `ir.Guard`), and terminals that are cut by the
longest match. With `loose`, names may come again, and the result says so.

Cost: linear in the nodes and the states of these automata, charged to `Limits.reading_work`. `Limits.grammar_bytes`
bounds the text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from narrows.errors import LimitError, UnsupportedError
from narrows.grammar import ir
from narrows.grammar.export.characters import Alignment, Characters
from narrows.grammar.export.unflatten import unflatten
from narrows.grammar.fuse import children
from narrows.grammar.regular import EMPTY, Regular
from narrows.grammar.utf8 import Ranges
from narrows.grammar.work import Work
from narrows.limits import DEFAULT_LIMITS, Limits


class Dialect(Enum):
    """How a token is written that is meant by its id."""

    GBNF = "<[{}]>"
    XGRAMMAR = "Token({})"


@dataclass(frozen=True, slots=True)
class Written:
    """A grammar as text, whose start rule is `root`."""

    text: str
    tokens: frozenset[int]
    """The ids that it names."""
    is_loose: bool
    """Whether it allows more than the grammar: names that come again."""


NO_NAMES: Mapping[str, int] = {}
MOST_TOKENS = 1_000
"""Most ids of one set of tokens. Each is written out."""
MOST_STATES = 2_000
"""Most states of a part that is an automaton only because of the names that it leaves out."""
_NOTHING = "[^\\u0000-\\U0010FFFF]"
"""A class that no character is in."""


def write(
    arrays: Mapping[str, Any],
    dialect: Dialect = Dialect.GBNF,
    *,
    end_tokens: Collection[int] = (),
    names: Mapping[str, int] = NO_NAMES,
    loose: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Written:
    """The text of a grammar that was flattened (narrows.grammar.flatten).

    end_tokens: ids that the reader of the text takes for the end, wherever they come, and so knows no rules for.
    names: special tokens, of a reader that takes a token for the characters of its name, too. Regular parts then leave
      out the names of those that the grammar names by id: else such a marker could stand inside a string. So the text
      allows a little less than the grammar. (A part whose automaton would be large keeps them.)
    loose: leave out that names must not come again.

    Raises `UnsupportedError` code `not_context_free` for what a text cannot say, code `token_not_writable` for end
    tokens that the grammar names and for large sets of tokens; `LimitError` (`reading_work`, `grammar_bytes`).
    """
    return _Writer(arrays, dialect, frozenset(end_tokens), names, loose, limits).written()


class _Writer:
    def __init__(
        self,
        arrays: Mapping[str, Any],
        dialect: Dialect,
        ends: frozenset[int],
        names: Mapping[str, int],
        loose: bool,
        limits: Limits,
    ) -> None:
        self._module = unflatten(arrays)
        self._dialect = dialect
        self._ends = ends
        self._loose = loose
        self._limits = limits
        self._work = Work(limits)
        self._regular = Regular(self._work)
        self._alignment = Alignment(self._work)
        self._characters = Characters(self._regular)
        self._symbols: dict[int, str] = {}
        """By the id of a node: what stands for it, a rule's name or something as short."""
        self._names: dict[str, str] = {}
        """By the right side of a rule: its name."""
        self._states: set[int] = set()
        """The terms that have their rule."""
        self._lines: list[str] = []
        self._size = 0
        self._held: list[ir.Node] = []
        """Nodes that are known by their id."""
        self._tokens: set[int] = set()
        named = set(arrays["tokens"].tolist())
        self._without = [name.encode() for name, token in names.items() if name and token in named]
        """Texts that regular parts leave out."""
        self._lengths: dict[int, int] = {}
        self._is_loose = False

    def written(self) -> Written:
        if self._module.longest:
            raise UnsupportedError(
                "the grammar cuts its terminals by the longest match, which a context-free text cannot say",
                code="not_context_free",
            )
        self._line("root", f"g{self._module.start}")
        todo = [self._module.start]
        seen = {self._module.start}
        while todo:
            name = todo.pop()
            self._work.source = self._module.sources.get(name)
            used: set[str] = set()
            self._line(f"g{name}", self._symbol(self._module.rules[name], used))
            todo += sorted(used - seen)
            seen |= used
        return Written("\n".join(self._lines) + "\n", frozenset(self._tokens), self._is_loose)

    def _line(self, name: str, body: str) -> None:
        line = f"{name} ::= {body}"
        self._size += len(line) + 1
        if self._size > self._limits.grammar_bytes:
            raise LimitError(
                f"written as a text, the grammar has more than {self._limits.grammar_bytes:,} bytes",
                limit="grammar_bytes",
            )
        self._lines.append(line)

    def _named(self, body: str) -> str:
        """The name of the rule with this right side."""
        name = self._names.get(body)
        if name is None:
            name = self._names[body] = f"n{len(self._names)}"
            self._line(name, body)
        return name

    # Nodes.

    def _symbol(self, root: ir.Node, used: set[str]) -> str:
        """What stands for a node. Adds the rules that it refers to to `used`."""
        symbols = self._symbols
        todo: list[tuple[ir.Node, tuple[ir.Node, ...] | None]] = [(root, None)]
        while todo:
            node, parts = todo.pop()
            if id(node) in symbols:
                continue
            if parts is None:
                self._work.spend(1)
                if isinstance(node, ir.Ref):
                    used.add(node.name)
                apart = self._without_names(node) if isinstance(node, ir.Lexeme) and self._without else None
                if apart is not None:
                    symbols[id(node)] = apart
                    self._held.append(node)
                    continue
                parts = self._parts(node)
                if parts:
                    todo.append((node, parts))
                    todo += [(part, None) for part in parts]
                    continue
            symbols[id(node)] = self._of(node, [symbols[id(part)] for part in parts])
            self._held.append(node)
        return symbols[id(root)]

    def _parts(self, node: ir.Node) -> tuple[ir.Node, ...]:
        """The parts that are written by themselves; none where the whole node is."""
        if isinstance(node, (ir.Lexeme, ir.Distinct)):
            return (node.item,)
        if isinstance(node, ir.Repeat):
            whole = node.max is None and self._may_be_empty(node.item)
            return (node.item,) if self._alignment.holds(node.item) and not whole else ()
        if isinstance(node, ir.Alt):
            whole = self._longest(node) <= _CHARACTER and self._is_regular(node)
            return node.items if not whole and all(map(self._alignment.holds, node.items)) else ()
        if isinstance(node, ir.Seq):
            return self._groups(node)
        return ()

    def _groups(self, node: ir.Seq) -> tuple[ir.Node, ...]:
        """The items; those that divide a character together are one. None where all are one."""
        groups: list[ir.Node] = []
        open_items: list[ir.Node] = []
        for item in node.items:
            open_items.append(item)
            if len(open_items) == 1 and self._alignment.holds(item):
                groups.append(item)
                open_items = []
                continue
            group = ir.Seq(tuple(open_items))
            self._held.append(group)
            if len(open_items) > 1 and self._alignment.holds(group):
                groups.append(group)
                open_items = []
        if open_items or (len(groups) == 1 and len(node.items) > 1):
            return ()
        return tuple(groups)

    def _of(self, node: ir.Node, parts: list[str]) -> str:
        if isinstance(node, ir.Ref):
            return f"g{node.name}"
        if isinstance(node, ir.Token):
            return self._token(node)
        if isinstance(node, (ir.Distinct, ir.Guard)):
            if not self._loose:
                raise self._refusal("that a name must not come again", "not_context_free")
            self._is_loose = True
            return parts[0] if parts else '""'
        if isinstance(node, ir.Lexeme):
            return parts[0]
        if isinstance(node, ir.Seq) and (parts or not node.items):
            kept = [part for part in parts if part != '""']
            return kept[0] if len(kept) == 1 else self._named(" ".join(kept)) if kept else '""'
        if isinstance(node, ir.Alt) and (parts or not node.items):
            distinct = list(dict.fromkeys(parts))
            return distinct[0] if len(distinct) == 1 else self._named(" | ".join(distinct)) if distinct else _NOTHING
        if isinstance(node, ir.Repeat) and parts:
            return self._repeat(parts[0], node.min, node.max)
        if isinstance(node, (ir.Bytes, ir.Literals)) and self._alignment.holds(node):
            texts = (node.data,) if isinstance(node, ir.Bytes) else node.options
            written = [_literal(text.decode()) for text in dict.fromkeys(texts)]
            return written[0] if len(written) == 1 else self._named(" | ".join(written)) if written else _NOTHING
        return self._automaton(node)

    def _repeat(self, part: str, least: int, most: int | None) -> str:
        if most == 0 or part == '""':
            return '""'
        if (least, most) == (1, 1):
            return part
        if part.startswith('"'):
            part = self._named(part)  # some readers bind a count to the last character
        marks = {(0, None): "*", (1, None): "+", (0, 1): "?"}
        count = f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"
        return self._named(part + marks.get((least, most), count))

    def _token(self, node: ir.Token) -> str:
        ids = sorted(node.ids)
        if self._ends.intersection(ids):
            raise self._refusal("an end token inside the text", "token_not_writable")
        if len(ids) > MOST_TOKENS:
            raise self._refusal(f"a set of {len(ids):,} tokens", "token_not_writable")
        self._tokens.update(ids)
        if not ids:
            return _NOTHING
        return self._named(" | ".join(self._dialect.value.format(token) for token in ids))

    def _refusal(self, what: str, code: str) -> UnsupportedError:
        source = self._work.source
        where = f", in {source}" if source else ""
        return UnsupportedError(f"a grammar as a text cannot say: {what}{where}", code=code)

    # Regular parts.

    def _automaton(self, node: ir.Node) -> str:
        """A rule for each state."""
        if not self._is_regular(node) or not self._alignment.holds(node):
            raise self._refusal("a part that does not end between two characters", "not_context_free")
        return self._states_of(self._regular.of(node))

    def _without_names(self, node: ir.Lexeme) -> str | None:
        """The part as an automaton without the names. None if it holds none of them, or would have too many states."""
        if not self._alignment.holds(node):
            return None
        regular, term = self._regular, self._regular.of(node)
        anything = regular.repeat(regular.byte_set((1 << 256) - 1), 0, None)
        names = regular.literals(self._without)
        holding = regular.seq(anything, regular.seq(names, anything))
        if regular.is_never(regular.both([term, holding])):
            return None
        start = regular.both([term, regular.complement(holding)])
        found, todo = {start}, [start]
        while todo:
            for _, after in self._characters.place(todo.pop()).moves:
                if after not in found:
                    found.add(after)
                    todo.append(after)
            if len(found) > MOST_STATES:
                return None
        return self._states_of(start)

    def _states_of(self, start: int) -> str:
        place = self._characters.place(start)
        if not place.moves:
            return '""' if place.may_end else _NOTHING
        if not place.may_end and [after for _, after in place.moves] == [EMPTY]:
            return _class(place.moves[0][0])
        todo = [start]
        while todo:
            term = todo.pop()
            if term not in self._states:
                self._states.add(term)
                todo += self._state(term)
        return f"t{start}"

    def _state(self, term: int) -> list[int]:
        """Writes the rule of a state. Returns the states that it leads to."""
        place = self._characters.place(term)
        self._work.spend(4 + sum(len(ranges) for ranges, _ in place.moves))
        ways = [_class(ranges) if after == EMPTY else f"{_class(ranges)} t{after}" for ranges, after in place.moves]
        self._line(f"t{term}", " | ".join(ways + (['""'] if place.may_end else [])))
        return [after for _, after in place.moves if after != EMPTY]

    def _is_regular(self, root: ir.Node) -> bool:
        todo, seen = [root], set[int]()
        while todo:
            node = todo.pop()
            if isinstance(node, (ir.Ref, ir.Token, ir.Marker, ir.Distinct, ir.Guard)):
                return False
            if id(node) not in seen:
                seen.add(id(node))
                self._work.spend(1)
                todo += children(node)
        return True

    def _may_be_empty(self, node: ir.Node) -> bool:
        return self._is_regular(node) and self._regular.matches(self._regular.of(node), b"")

    def _longest(self, root: ir.Node) -> int:
        """The bytes of the longest text of a node; more than those of a character where that is not easily said."""
        known = self._lengths
        todo: list[tuple[ir.Node, bool]] = [(root, False)]
        while todo:
            node, ready = todo.pop()
            if id(node) in known:
                continue
            inner = children(node) if isinstance(node, (ir.Seq, ir.Alt, ir.Repeat, ir.Lexeme)) else ()
            if inner and not ready:
                todo.append((node, True))
                todo += [(child, False) for child in inner]
                continue
            self._held.append(node)
            known[id(node)] = min(_length(node, [known[id(child)] for child in inner]), _LONG)
        return known[id(root)]


_CHARACTER = 4
"""Most bytes of a character."""
_LONG = 1 << 20


def _length(node: ir.Node, inner: list[int]) -> int:
    if isinstance(node, ir.Bytes):
        return len(node.data)
    if isinstance(node, ir.Literals):
        return max(map(len, node.options), default=0)
    if isinstance(node, ir.ByteSet):
        return 1
    if isinstance(node, ir.Seq):
        return sum(inner)
    if isinstance(node, (ir.Alt, ir.Lexeme)):
        return max(inner, default=0)
    if isinstance(node, ir.Repeat):
        return 0 if not inner[0] else _LONG if node.max is None else inner[0] * node.max
    return _LONG


# Texts.


def _literal(text: str) -> str:
    return '"' + "".join([_IN_STRINGS.get(char) or _escaped(ord(char)) for char in text]) + '"'


def _class(ranges: Ranges) -> str:
    parts = [_escaped(low) if low == high else f"{_escaped(low)}-{_escaped(high)}" for low, high in ranges]
    return f"[{''.join(parts)}]"


_PLAIN = frozenset(b" !#$%&'()*+,./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ_`abcdefghijklmnopqrstuvwxyz{|}~")
"""Characters that mean themselves, in strings and in classes, for every reader."""
_IN_STRINGS = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def _escaped(code_point: int) -> str:
    if code_point in _PLAIN:
        return chr(code_point)
    # Not \x, which takes two digits for some readers and more for others.
    return f"\\u{code_point:04X}" if code_point < 0x10000 else f"\\U{code_point:08X}"
