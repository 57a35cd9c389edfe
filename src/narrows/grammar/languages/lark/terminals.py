"""Terminals of a Lark grammar as regular nodes.

A terminal is every text that it matches as a whole. So where Lark would take the longest match, shorter ones count
here, too. What looks around (`\\b`, `(?!...)`) sees the text of the terminal alone (beyond.py). An alternative with
lazy quantifiers (`.*?`) matches no text of which it matches a beginning already.

Cost: that of the patterns, once for each terminal.
"""

from __future__ import annotations

from dataclasses import dataclass

from narrows.errors import GrammarError, NarrowsError
from narrows.grammar import ir, utf8
from narrows.grammar.fuse import children
from narrows.grammar.json_schema.report import Status
from narrows.grammar.languages.lark import tree
from narrows.grammar.languages.lark.beyond import LooksBeyond, beyond
from narrows.grammar.languages.lark.definitions import Definitions
from narrows.grammar.languages.lark.structured import structured
from narrows.grammar.languages.lark.tree import Tree
from narrows.grammar.languages.text import GrammarText
from narrows.grammar.regex import lower, parse
from narrows.grammar.regex import tree as regex
from narrows.grammar.work import Work

_ANY_TEXT = ir.Repeat(utf8.node(utf8.ANY))
SOME_BYTES = ir.Repeat(ir.ANY_BYTE, 1, None)
_LOOKING = (regex.Edge, regex.Look, regex.Behind)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A part of a terminal: a regular expression, or a regular node where there is none."""

    pattern: regex.Tree | None = None
    node: ir.Node | None = None
    is_lazy: bool = False
    """Of a node: whether there are lazy quantifiers in it."""


class Terminals:
    def __init__(self, text: GrammarText, definitions: Definitions) -> None:
        self._text = text
        self._work = text.work
        self._definitions = definitions
        self._parts: dict[str, Part] = {}
        self._nodes: dict[int, tuple[Part, ir.Node]] = {}
        self.looks_beyond: dict[int, Status] = {}
        """Offset of a terminal that looks at what stands beside it -> how it differs from Lark's."""

    def named(self, name: str, offset: int) -> ir.Node:
        """What a terminal matches. Raises `GrammarError` if it is not defined, or refers to itself or to a rule."""
        part = self._named(name, offset)
        return self._token(part, self._definitions.by_name[name].offset)

    def of(self, body: Tree, offset: int) -> ir.Node:
        """What a terminal without a name matches."""
        return self._token(self._part(body), offset)

    def shortest(self, node: ir.Node) -> ir.Node:
        """The texts that it matches of which it matches no beginning."""
        return ir.And((node, ir.Not(ir.seq(node, SOME_BYTES))))

    def _token(self, part: Part, offset: int) -> ir.Node:
        if part.pattern is None:
            if part.is_lazy:
                self._text.unsupported("a lazy quantifier beside & or ~", offset, "Write what it may not contain")
            return self._node(part, offset)
        habit = _habit(part.pattern)
        if habit.looks:
            self._look_beyond(part.pattern, offset)
        if not habit.lazy:
            return self._node(part, offset)
        branches = _branches(part.pattern, self._work)
        return ir.alt(*[self._branch(branch, offset) for branch in branches])

    def _branch(self, pattern: regex.Tree, offset: int) -> ir.Node:
        """An alternative of a terminal: each matches what it matches alone."""
        habit = _habit(pattern)
        if habit.is_mixed:
            self._text.unsupported(
                "a terminal in which a greedy quantifier follows a lazy one, or holds it",
                offset,
                "Make them all lazy, or write what it may not contain",
            )
        node = self._node(Part(pattern), offset)
        return self.shortest(node) if habit.lazy else node

    def _look_beyond(self, pattern: regex.Tree, offset: int) -> None:
        self._work.spend(4 * _written_out(pattern))  # terminals that it is made of are read again at each use
        try:
            status = beyond(pattern)
        except LooksBeyond:
            hint = "Write a rule that names what stands there"
            self._text.unsupported("a terminal that looks for text which is not its own", offset, hint)
        if status is not None:
            self.looks_beyond[offset] = status

    def _named(self, name: str, offset: int) -> Part:
        """Terminals that it refers to come first."""
        todo = [(name, offset)]
        open_names: set[str] = set()
        while todo:
            here, used_at = todo[-1]
            if here in self._parts:
                todo.pop()
                continue
            definition = self._definitions.by_name.get(here)
            if definition is None:
                self._text.fail(f"the terminal {here} is not defined", used_at)
            if definition.options:
                hint = "Make it a rule, in lower case: only rules have options"
                self._text.fail(f"the terminal {here} has options", definition.offset, hint)
            body = definition.body
            missing = [used for used in tree.names(body) if used.name not in self._parts]
            for used in missing:
                if not tree.is_terminal(used.name):
                    self._text.fail(f"the terminal {here} refers to the rule {used.name}", used.offset)
                if used.name == here or used.name in open_names:
                    self._text.fail(f"the terminal {used.name} refers to itself", used.offset, "Make it a rule")
            if missing:
                open_names.add(here)
                todo += [(used.name, used.offset) for used in missing]
            else:
                todo.pop()
                open_names.discard(here)
                self._parts[here] = self._part(body)
        return self._parts[name]

    def _part(self, body: Tree) -> Part:
        done: dict[int, Part] = {}
        todo: list[tuple[Tree, bool]] = [(body, False)]
        while todo:
            node, is_ready = todo.pop()
            if id(node) in done:
                continue
            inner = tree.children(node)
            if inner and not is_ready:
                todo.append((node, True))
                todo += [(child, False) for child in inner]
                continue
            self._work.spend(2)
            done[id(node)] = self._made(node, [done[id(child)] for child in inner])
        return done[id(body)]

    def _made(self, node: Tree, inner: list[Part]) -> Part:
        if isinstance(node, tree.Name):
            if node.arguments or node.parameter or not tree.is_terminal(node.name):
                self._text.fail(f"a terminal refers to the rule {node.name}", node.offset)
            return self._named(node.name, node.offset)
        if isinstance(node, tree.Text):
            return Part(pattern=self._characters(node))
        if isinstance(node, tree.Range):
            return Part(pattern=regex.Chars(utf8.code_points((ord(node.low), ord(node.high)))))
        if isinstance(node, tree.Pattern):
            flags = "".join(sorted(set(node.flags)))
            before = f"(?{flags})" if flags else ""
            return Part(pattern=self._pattern(before + node.source, node.offset + 1, len(before)))
        if isinstance(node, tree.Special):
            self._text.fail("a special token in a terminal", node.offset, "It can stand in a rule, in lower case")
        if isinstance(node, tree.Embedded) and node.kind == "%regex":
            return Part(node=structured(self._text, node))
        if isinstance(node, tree.Embedded):
            self._text.unsupported(f"{node.kind} in a terminal", node.offset, "It can stand in a rule, in lower case")
        return self._combined(node, inner)

    def _combined(self, node: Tree, inner: list[Part]) -> Part:
        patterns = [part.pattern for part in inner if part.pattern is not None]
        if len(patterns) == len(inner):
            if isinstance(node, tree.Seq):
                return Part(pattern=regex.Concat(tuple(patterns)))
            if isinstance(node, tree.Choice):
                return Part(pattern=regex.Choice(tuple(patterns)))
            if isinstance(node, tree.Repeat):
                return Part(pattern=regex.Repeat(patterns[0], node.low, node.high, 0))
        offset = getattr(node, "offset", 0)
        if isinstance(node, tree.When):
            self._text.fail("%if in a terminal", offset, "Make it a rule, in lower case")
        nodes = [self._node(part, offset) for part in inner]
        is_lazy = any(part.is_lazy or (part.pattern is not None and _habit(part.pattern).lazy) for part in inner)
        return Part(node=_joined(node, nodes), is_lazy=is_lazy)

    def _node(self, part: Part, offset: int) -> ir.Node:
        if part.node is not None:
            return part.node
        known = self._nodes.get(id(part))
        if known is None:
            assert part.pattern is not None
            try:
                node = lower(part.pattern, utf8.node, self._work)
            except NarrowsError as error:
                error.line, error.column = self._text.place(offset)
                error.offset = None
                raise
            known = self._nodes[id(part)] = part, node
        return known[1]

    def _characters(self, node: tree.Text) -> regex.Tree:
        if node.folded:
            escaped = "".join([char if char.isalnum() or not char.isascii() else f"\\{char}" for char in node.text])
            return self._pattern(f"(?i){escaped}", node.offset, 0)
        self._work.spend(len(node.text))
        return regex.Concat(tuple([regex.Chars(utf8.code_points(char)) for char in node.text]))

    def _pattern(self, source: str, offset: int, skipped: int) -> regex.Tree:
        """`skipped`: so many characters of `source` are not in the text."""
        try:
            try:
                pattern = parse(source, "python", self._work)
            except GrammarError as error:
                if error.code != "regex_invalid":
                    raise
                return self._in_rust(source, error)
            if _may_be_set_operation(source) and self._is_rust(source):
                self._text.unsupported(
                    "a class of characters that means one thing to Python and another to Rust (llguidance)",
                    offset,
                    "Write \\ before [, &, - and ~ if they stand for themselves, or give the characters one by one",
                )
            return pattern
        except NarrowsError as error:
            error.line, error.column = self._text.place(offset + max((error.offset or 0) - skipped, 0))
            error.offset = None
            raise

    def _is_rust(self, source: str) -> bool:
        try:
            parse(source, "rust", self._work)
        except GrammarError:
            return False
        return True

    def _in_rust(self, source: str, error: GrammarError) -> regex.Tree:
        """What Python's `re` refuses may be a pattern of Rust's `regex`, which llguidance reads."""
        try:
            return parse(source, "rust", self._work)
        except GrammarError:
            raise error from None


def _may_be_set_operation(source: str) -> bool:
    """Whether some class holds what begins a class, or joins two, in Rust."""
    in_class = False
    at = 0
    while at < len(source):
        char = source[at]
        if char == "\\":
            at += 2
            continue
        if not in_class:
            if char == "[":
                in_class = True
                at += 1 + source.startswith("^", at + 1)
                at += source.startswith("]", at)
                continue
        elif char == "]":
            in_class = False
        elif char == "[" or source[at : at + 2] in ("&&", "--", "~~"):
            return True
        at += 1
    return False


def _branches(root: regex.Tree, work: Work) -> list[regex.Tree]:
    """The alternatives of a pattern, and those in them."""
    found: list[regex.Tree] = []
    todo = [root]
    while todo:
        node = todo.pop()
        work.spend(1)
        if isinstance(node, regex.Choice):
            todo += reversed(node.items)
        else:
            found.append(node)
    return found


def _written_out(root: regex.Tree) -> int:
    """The number of nodes, each as often as it is used."""
    sizes: dict[int, int] = {}
    for node in regex.children_first(root):
        sizes[id(node)] = 1 + sum([sizes[id(child)] for child in regex.children(node)])
    return sizes[id(root)]


def matches_empty(root: ir.Node) -> bool:
    """Whether a regular node matches the empty text."""
    done: dict[int, bool] = {}
    todo: list[tuple[ir.Node, bool]] = [(root, False)]
    while todo:
        node, is_ready = todo.pop()
        if id(node) in done:
            continue
        inner = children(node)
        if inner and not is_ready:
            todo.append((node, True))
            todo += [(child, False) for child in inner]
            continue
        if isinstance(node, (ir.Seq, ir.And)):
            done[id(node)] = all(done[id(child)] for child in inner)
        elif isinstance(node, ir.Alt):
            done[id(node)] = any(done[id(child)] for child in inner)
        elif isinstance(node, ir.Repeat):
            done[id(node)] = node.min == 0 or done[id(node.item)]
        elif isinstance(node, ir.Not):
            done[id(node)] = not done[id(node.item)]
        else:
            done[id(node)] = node == ir.EMPTY or (isinstance(node, ir.Literals) and b"" in node.options)
    return done[id(root)]


def _joined(node: Tree, inner: list[ir.Node]) -> ir.Node:
    if isinstance(node, tree.Seq):
        return ir.seq(*inner)
    if isinstance(node, tree.Choice):
        return ir.alt(*inner)
    if isinstance(node, tree.Both):
        return ir.And(tuple(inner))
    if isinstance(node, tree.Repeat):
        return ir.Repeat(inner[0], node.low, node.high)
    assert isinstance(node, tree.Negated)
    return ir.And((_ANY_TEXT, ir.Not(inner[0])))


@dataclass(frozen=True, slots=True)
class _Habit:
    """How a pattern chooses among its matches."""

    lazy: bool = False
    greedy: bool = False
    is_mixed: bool = False
    """Whether a greedy choice follows a lazy one, holds it, or stands beside it."""
    looks: bool = False


def _habit(root: regex.Tree) -> _Habit:
    done: dict[int, _Habit] = {}
    for node in regex.children_first(root):
        inner = [done[id(child)] for child in regex.children(node)]
        lazy = any(one.lazy for one in inner)
        greedy = any(one.greedy for one in inner)
        mixed = any(one.is_mixed for one in inner)
        looks = isinstance(node, _LOOKING) or any(one.looks for one in inner)
        if isinstance(node, (regex.Look, regex.Behind)):
            lazy = greedy = mixed = False
        elif isinstance(node, regex.Concat):
            after_lazy = False
            for one in inner:
                mixed = mixed or (after_lazy and one.greedy)
                after_lazy = after_lazy or one.lazy
        elif isinstance(node, regex.Choice):
            mixed = mixed or (lazy and any(one.greedy and not one.lazy for one in inner))
        elif isinstance(node, regex.Repeat) and node.min != node.max:
            mixed = mixed or (lazy and not node.lazy)
            lazy, greedy = lazy or node.lazy, greedy or not node.lazy
        done[id(node)] = _Habit(lazy, greedy, mixed, looks)
    return done[id(root)]
