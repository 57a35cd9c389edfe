"""Reads a regular expression into a syntax tree, in the dialect of Python's `re`, ECMA-262 or Rust's `regex` crate.

A pattern means what it means to the dialect's engine. A pattern that the engine refuses is refused (code
`regex_invalid`, with the offset in characters). Back-references, conditions on groups, atomic groups and possessive
quantifiers are refused too (`regex_unsupported`), because no automaton can express them. (An atomic group matches fewer
texts than a plain group with the same content.)

There is one exception. "ecma" is ECMA-262 with the u flag, but many JSON Schemas are written for JavaScript without it.
The flag forbids an escaped punctuation mark (`\\-`), a lone `{`, `}` or `]`, and a class in a range (`[\\w-.]`).
Without the flag each has one meaning, and they are read with that meaning.

Cost: about 2 us per character, plus time linear in the ranges of the sets of characters, plus the first use of Unicode
sets (classes.py). `Limits.reading_work` bounds the work, `Limits.regex_bytes` the pattern, and `Limits.nesting` the
open groups. Open groups are kept on a list, never on the call stack.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

from narrows.errors import InputError, LimitError
from narrows.grammar import utf8
from narrows.grammar.options import Dialect
from narrows.grammar.regex import classes, escapes, tree
from narrows.grammar.regex.escapes import Atom, Source
from narrows.grammar.regex.rust_class import rust_class
from narrows.grammar.regex.tree import Behind, Chars, Choice, Concat, Edge, Look, Repeat, Tree
from narrows.grammar.utf8 import Ranges
from narrows.grammar.work import Work
from narrows.limits import DEFAULT_LIMITS, Limits

DIALECTS = get_args(Dialect)

_FLAGS = {"python": "aiLmsux", "ecma": "ims", "rust": "imsRUux"}
_VERBOSE_SPACE = {"python": " \t\n\r\v\f", "rust": " \t\n\v\f\r\x85\u200e\u200f\u2028\u2029", "ecma": ""}
_RAISE = "Simplify the pattern, or raise this field of Limits if it is trusted"
_UNITS = 2
"""Units of work for a part of the pattern. Sets of characters cost more."""
_MAX_COUNT = {"python": 2**32 - 2, "ecma": 2**53, "rust": 2**32 - 1}


def parse(pattern: str, dialect: Dialect = "python", limits: Limits | Work = DEFAULT_LIMITS) -> Tree:
    """The syntax tree of a pattern. Raises `GrammarError` (`regex_invalid`), `UnsupportedError` (`regex_unsupported`)
    or `LimitError`."""
    if dialect not in DIALECTS:
        raise InputError(f"no regex dialect {dialect!r}: there are {', '.join(DIALECTS)}", code="invalid_dialect")
    if not isinstance(pattern, str):
        raise InputError(f"a regular expression is a str, not {type(pattern).__name__}", code="regex_invalid")
    work = Work.of(limits)
    bound = work.limits.regex_bytes
    if len(pattern.encode("utf-8", "surrogatepass")) > bound:
        raise LimitError(f"the regular expression has more than {bound:,} bytes", limit="regex_bytes", hint=_RAISE)
    return _Parser(pattern, dialect, work).parse()


@dataclass(slots=True)
class _Group:
    """An open group, and the parts of it that have been read."""

    offset: int
    flags: frozenset[str]
    """The flags outside the group: they hold again when it closes."""
    look: str = ""
    """"", "=", "!", "<=" or "<!"."""
    branches: list[Tree] = field(default_factory=list)
    items: list[Tree] = field(default_factory=list)
    repeatable: str = ""
    """Why the last item must not be repeated; "" if it may be repeated."""
    suffixes: int = 0
    """Quantifiers on quantifiers at the end of `items`."""

    def add(self, item: Tree, repeatable: str = "") -> None:
        self.items.append(item)
        self.repeatable = repeatable
        self.suffixes = 0

    def tree(self) -> Tree:
        last = self.items[0] if len(self.items) == 1 else Concat(tuple(self.items))
        return Choice((*self.branches, last)) if self.branches else last


class _Parser:
    def __init__(self, pattern: str, dialect: Dialect, work: Work) -> None:
        self.source = Source(pattern, work)
        self.dialect = dialect
        self.work = work
        self.limits = work.limits
        self.flags: frozenset[str] = frozenset()
        self.names: set[str] = set()
        self.groups = [_Group(0, self.flags)]
        self.widths: dict[int, tuple[Tree, int, int | None]] = {}
        """id of a tree -> (the tree, least width, greatest width). The tree is held so that its id is not reused."""
        self.letters: dict[tuple[str, frozenset[str]], Ranges] = {}
        """(character, flags) -> the set: one object for each."""
        self.classes: dict[tuple[str, frozenset[str]], Ranges] = {}
        """The same for the text of a class. The patterns of formats have some classes hundreds of times."""

    def parse(self) -> Tree:
        try:
            return self._parse()
        except LimitError as error:
            if error.offset is None:
                error.offset = min(self.source.pos, len(self.source.text))
            raise

    def _parse(self) -> Tree:
        source, spend = self.source, self.work.spend
        while not source.at_end:
            spend(_UNITS)
            offset = source.pos
            char = source.take()
            if "x" in self.flags and self._skip_verbose(char):
                continue
            group = self.groups[-1]
            if char == "(":
                self._open(offset)
            elif char == ")":
                self._close(offset)
            elif char == "|":
                group.branches.append(group.items[0] if len(group.items) == 1 else Concat(tuple(group.items)))
                group.items = []
            elif char in "*+?" or char == "{":
                self._quantifier(char, offset)
            elif char == "[":
                group.add(Chars(self._known_class(offset)))
            elif char == ".":
                group.add(Chars(self._dot()))
            elif char == "^":
                newlines = self._newlines()
                start = tree.line_start(newlines, offset) if "m" in self.flags else tree.text_start(offset)
                group.add(start, self._not_repeatable())
            elif char == "$":
                group.add(self._dollar(offset), self._not_repeatable())
            elif char == "\\":
                self._escape()
            else:
                group.add(Chars(self._letter(char)))
        if len(self.groups) > 1:
            source.fail("missing ), unterminated group", self.groups[-1].offset)
        return self.groups[0].tree()

    # Single characters.

    def _letter(self, char: str) -> Ranges:
        key = (char, self.flags)
        ranges = self.letters.get(key)
        if ranges is None:
            ranges = self.letters[key] = self._cased(utf8.code_points(char))
        return ranges

    def _cased(self, ranges: Ranges) -> Ranges:
        if "i" not in self.flags:
            return ranges
        return self.source.fold(ranges, "ascii" if "a" in self.flags else self.dialect)

    def _dot(self) -> Ranges:
        return utf8.ANY if "s" in self.flags else self.source.complement(self._newlines())

    def _newlines(self) -> Ranges:
        return classes.ECMA_NEWLINES if self.dialect == "ecma" else classes.NEWLINE

    def _dollar(self, offset: int) -> Tree:
        if "m" in self.flags:
            return tree.line_end(self._newlines(), offset)
        if self.dialect == "python":  # at the end of the text, or before a newline that ends the text
            newline = Repeat(Chars(classes.NEWLINE), 0, 1, offset)
            return Look(Concat((newline, tree.text_end(offset))), False, offset)
        return tree.text_end(offset)

    def _not_repeatable(self) -> str:
        return "" if self.dialect == "rust" else "nothing to repeat"

    def _escape(self) -> None:
        item = escapes.read(self.source, self.dialect, self.flags, in_class=False)
        if isinstance(item, Edge):
            self.groups[-1].add(item, self._not_repeatable())
        else:
            self.groups[-1].add(Chars(item.ranges if item.folded else self._cased(item.ranges)))

    def _skip_verbose(self, char: str) -> bool:
        if char in _VERBOSE_SPACE[self.dialect]:
            return True
        if char != "#":
            return False
        source = self.source
        end = source.text.find("\n", source.pos)
        source.pos = len(source.text) if end < 0 else end + 1
        return True

    # Groups.

    def _open(self, offset: int) -> None:
        source = self.source
        group = _Group(offset, self.flags)
        if source.skip("?"):
            if self.dialect == "python" and source.skip("#"):
                source.until(")", "missing ), unterminated comment", offset)
                return
            look = next((mark for mark in ("=", "!", "<=", "<!") if source.skip(mark)), "")
            if look:
                if self.dialect == "rust":
                    source.fail("the rust dialect has no look-around", offset, 'Use dialect="python" or "ecma"')
                group.look = look
            elif not self._open_special(offset):
                return
        elif self.dialect == "python" and source.at("*"):
            source.fail("nothing to repeat", source.pos)
        if len(self.groups) > self.limits.nesting:
            raise LimitError(f"{len(self.groups)} groups are open", limit="nesting", offset=offset, hint=_RAISE)
        self.groups.append(group)

    def _open_special(self, offset: int) -> bool:
        """Reads what follows `(?`, except comments and look-around. False if it opens no group."""
        source = self.source
        if source.skip(":"):
            return True
        if source.skip(">"):
            self.source.unsupported("an atomic group", offset)
        if self.dialect == "python" and source.skip("P"):
            if source.skip("="):
                self.source.unsupported("a back-reference", offset)
            if not source.skip("<"):
                source.fail("unknown extension ?P", offset)
            self._name(">", offset)
            return True
        if self.dialect == "python" and source.skip("("):
            self.source.unsupported("a condition on a group", offset)
        if self.dialect == "rust" and (source.skip("P<") or source.skip("<")):
            self._name(">", offset)
            return True
        if self.dialect == "ecma" and source.skip("<"):
            self._name(">", offset)
            return True
        return self._inline_flags(offset)

    def _name(self, end: str, offset: int) -> None:
        name = self.source.until(end, f"missing {end}, unterminated name", offset)
        body = name.replace(".", "_").replace("[", "_").replace("]", "_") if self.dialect == "rust" else name
        if self.dialect == "ecma":
            body = body.replace("$", "_").replace("\u200c", "_").replace("\u200d", "_")
        if not body.isidentifier():
            self.source.fail(f"bad group name {name!r}", offset)
        if (
            name in self.names and self.dialect != "ecma"
        ):  # ECMA allows it in separate alternatives; names have no effect here
            self.source.fail(f"the group name {name!r} is used twice", offset)
        self.names.add(name)

    def _inline_flags(self, offset: int) -> bool:
        on, off, scoped = self._read_flags(offset)
        group = self.groups[-1]
        if not scoped and self.dialect == "ecma":
            self.source.fail("flags need a group, as in (?i:a)", offset)
        if not scoped and self.dialect == "python":
            if len(self.groups) > 1 or group.branches or group.items:
                self.source.fail("global flags not at the start of the expression", offset)
            if off:
                self.source.fail("bad inline flags: cannot turn off global flag", offset)
        if "u" in on:
            self.flags -= {"a"}
        self.flags = (self.flags | on) - off
        if not scoped:
            group.repeatable = "nothing to repeat"
        return scoped

    def _read_flags(self, offset: int) -> tuple[frozenset[str], frozenset[str], bool]:
        """Flags to set, flags to clear, and whether a group follows."""
        source = self.source
        on: set[str] = set()
        off: set[str] = set()
        target = on
        while True:
            flag = source.take() if not source.at_end else ""
            if flag == "-" and target is on:
                target = off
            elif flag and flag in _FLAGS[self.dialect]:
                if flag in on | off and self.dialect != "python":
                    source.fail(f"the flag {flag!r} is given twice", offset)
                target.add(flag)
            elif flag in (":", ")") and flag:
                break
            else:
                source.fail(f"unknown extension ?{flag}" if not on | off else f"unknown flag {flag!r}", offset)
        if target is off and not off and not (self.dialect == "ecma" and on):
            source.fail("missing flag after -", offset)
        if not on | off and self.dialect != "rust":
            source.fail("missing flag", offset)
        if self.dialect == "python":
            self._check_python_flags(on, off, offset)
        if "R" in on:
            self.source.unsupported("the flag R (line ends of CRLF)", offset)
        if self.dialect == "rust" and "u" in off:
            self.source.unsupported("the flag -u (bytes that are not characters)", offset)
        return frozenset(on), frozenset(off), flag == ":"

    def _check_python_flags(self, on: set[str], off: set[str], offset: int) -> None:
        if "L" in on:
            self.source.fail("bad inline flags: cannot use 'L' flag with a str pattern", offset)
        if {"a", "u"} <= on:
            self.source.fail("bad inline flags: flags 'a', 'u' and 'L' are incompatible", offset)
        if off & set("auL"):
            self.source.fail("bad inline flags: cannot turn off flags 'a', 'u' and 'L'", offset)
        if on & off:
            self.source.fail("bad inline flags: flag turned on and off", offset)

    def _close(self, offset: int) -> None:
        if len(self.groups) == 1:
            self.source.fail("unbalanced parenthesis", offset)
        group = self.groups.pop()
        self.flags = group.flags
        inner = group.tree()
        outer = self.groups[-1]
        if not group.look:
            outer.add(inner)
        elif group.look in ("=", "!"):
            outer.add(
                Look(inner, group.look == "!", group.offset),
                "" if self.dialect == "python" else "a condition cannot be repeated",
            )
        else:
            outer.add(
                self._behind(inner, group.look == "<!", group.offset),
                "" if self.dialect == "python" else "a condition cannot be repeated",
            )

    def _behind(self, inner: Tree, negate: bool, offset: int) -> Tree:
        """A look-behind. If one character decides, it becomes a condition on the left side of a place."""
        if self.dialect == "python":
            low, high = self._width(inner)
            if low != high:
                self.source.fail("look-behind requires fixed-width pattern", offset)
        sets: list[Ranges] = []
        edge = False
        todo = [inner]
        while todo:
            item = todo.pop()
            if isinstance(item, Chars):
                sets.append(item.ranges)
            elif isinstance(item, Choice):
                todo.extend(item.items)
            elif isinstance(item, Concat) and not item.items:
                sets.append(utf8.ANY)
                edge = True
            elif isinstance(item, Edge) and all(right.is_anything for _, right in item.pairs):
                for left, _ in item.pairs:
                    sets.append(left.chars)
                    edge = edge or left.edge
            else:
                return Behind(inner, negate, offset)
        side = tree.Side(self.source.union(sets), edge)
        if negate:
            side = tree.Side(self.source.complement(side.chars), not side.edge)
        return Edge(((side, tree.ANYTHING),), offset)

    def _width(self, root: Tree) -> tuple[int, int | None]:
        """How many characters a part matches: (least, greatest or None)."""
        stack = [root]
        while stack:
            part = stack[-1]
            missing = [c for c in tree.children(part) if id(c) not in self.widths]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            inner = [self.widths[id(c)][1:] for c in tree.children(part)]
            self.widths[id(part)] = (part, *_width(part, inner))
        return self.widths[id(root)][1:]

    # Quantifiers.

    def _quantifier(self, char: str, offset: int) -> None:
        source = self.source
        group = self.groups[-1]
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1), "{": (0, 0)}[char]
        if char == "{":
            counts = self._counts(offset)
            if counts is None:  # not a quantifier: the brace stands for itself
                group.add(Chars(utf8.code_points("{")))
                return
            low, high = counts
        if not group.items:
            source.fail("nothing to repeat", offset)
        if group.repeatable:
            source.fail(group.repeatable, offset)
        if "x" in self.flags and self.dialect == "rust":
            self._skip_space()
        if self.dialect == "python" and source.at("+"):
            self.source.unsupported("a possessive quantifier", offset)
        lazy = source.skip("?")
        if group.suffixes >= self.limits.nesting:
            raise LimitError("too many quantifiers on quantifiers", limit="nesting", offset=offset, hint=_RAISE)
        suffixes = group.suffixes + 1
        group.items[-1] = Repeat(group.items[-1], low, high, offset, lazy)
        group.suffixes = suffixes
        if self.dialect != "rust":
            group.repeatable = "multiple repeat"

    def _skip_space(self) -> None:
        while not self.source.at_end and self.source.peek() in _VERBOSE_SPACE["rust"]:
            self.source.pos += 1

    def _counts(self, offset: int) -> tuple[int, int | None] | None:
        """After `{`: the bounds, or None if the dialect takes the brace as a character."""
        source = self.source
        start = source.pos
        spaced = "x" in self.flags and self.dialect == "rust"
        low = self._count(spaced)
        comma = source.skip(",")
        high = self._count(spaced) if comma else low
        closed = source.skip("}")
        if not closed or (not low and not comma) or (not low and self.dialect != "python"):
            if self.dialect == "rust":
                source.fail("bad repetition count", offset)
            source.pos = start
            return None
        least = int(low or 0)
        most = int(high) if high else None
        if max(least, most or 0) > _MAX_COUNT[self.dialect]:
            source.fail("the repetition number is too large", offset)
        if most is not None and most < least:
            source.fail("min repeat greater than max repeat", offset)
        return least, most

    def _count(self, spaced: bool) -> str:
        if spaced:
            self._skip_space()
        digits = self.source.run("0123456789", 20)
        if spaced:
            self._skip_space()
        return digits

    # Classes.

    def _known_class(self, offset: int) -> Ranges:
        source = self.source
        end = source.text.find("]", offset) + 1  # where the class ends, if it was read before
        known = self.classes.get((source.text[offset:end], self.flags))
        if known is not None:
            source.pos = end
            return known
        made = self._class(offset)
        self.classes[source.text[offset : source.pos], self.flags] = made
        return made

    def _class(self, offset: int) -> Ranges:
        if self.dialect == "rust":
            return rust_class(self.source, self.flags, offset)
        source = self.source
        negate = source.skip("^")
        open_ended: list[Ranges] = []
        folded: list[Ranges] = []
        first = True
        while first or not source.at("]"):
            if self.dialect == "ecma" and source.at("]"):
                break
            first = False
            self.work.spend(_UNITS)
            at = source.pos
            low = self._class_atom(offset)
            if source.at("-") and source.peek(1) not in ("]", ""):
                source.pos += 1
                high = self._class_atom(offset)
                open_ended.append(self._range(low, high, at))
            else:
                (folded if low.folded else open_ended).append(low.ranges)
        source.pos += 1
        ranges = self._cased(source.union(open_ended))
        if folded:
            ranges = source.union((ranges, *folded))
        return source.complement(ranges) if negate else ranges

    def _class_atom(self, offset: int) -> Atom:
        if self.source.at_end:
            self.source.fail("unterminated character set", offset)
        char = self.source.take()
        if char != "\\":
            return Atom(utf8.code_points(char), ord(char))
        atom = escapes.read(self.source, self.dialect, self.flags, in_class=True)
        assert isinstance(atom, Atom)
        return atom

    def _range(self, low: Atom, high: Atom, at: int) -> Ranges:
        if low.point is None or high.point is None:
            if self.dialect == "ecma":  # a class in a range: the hyphen stands for itself
                return self.source.union((low.ranges, utf8.code_points("-"), high.ranges))
            self.source.fail("bad character range: an end is not one character", at)
        if low.point > high.point:
            self.source.fail("bad character range: the ends are out of order", at)
        return utf8.code_points((low.point, high.point))


def _width(part: Tree, inner: list[tuple[int, int | None]]) -> tuple[int, int | None]:
    if isinstance(part, Chars):
        return 1, 1
    if isinstance(part, Repeat):
        low, high = inner[0]
        if high == 0 or part.max == 0:
            return 0, 0
        return low * part.min, None if high is None or part.max is None else high * part.max
    lows = [low for low, _ in inner]
    highs = [high for _, high in inner if high is not None]
    bounded = len(highs) == len(inner)
    if isinstance(part, Concat):
        return sum(lows), sum(highs) if bounded else None
    if isinstance(part, Choice):
        return min(lows), max(highs) if bounded else None
    return 0, 0
