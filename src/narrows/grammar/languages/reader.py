"""What readers of BNF-like notations share: GBNF, BNF and the notations of EBNF.

A `Reader` has the text and the place in it (scanner.py), the rules so far, and the right side of a rule with its open
groups, which are kept on a list. A notation is a subclass: it says where a rule begins and ends, and what a symbol is.

Cost: linear, about 1 us per character. `Limits.nesting` bounds the open groups, and `Limits.reading_work` the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from narrows.errors import LimitError
from narrows.grammar import ir, utf8
from narrows.grammar.embed import embedded
from narrows.grammar.json_schema.report import Status
from narrows.grammar.languages.regular_parts import NotRegular, Nullable, RegularParts
from narrows.grammar.languages.scanner import DIGITS, Scanner
from narrows.grammar.languages.text import RAISE, GrammarText

ANY = utf8.node(utf8.ANY)
"""Any character."""
MAX_COUNT = MAX_TOKEN = 2**31 - 1
PER_RULE, PER_SYMBOL = 3, 2
"""Units of work. Sets of characters cost more units, and so does every eighth character of names, whitespace and
comments."""
_QUANTIFIERS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


@dataclass(slots=True)
class Group:
    """An open bracket, or the right side itself."""

    offset: int
    close: str = ""
    branches: list[ir.Node] = field(default_factory=list)
    items: list[ir.Node] = field(default_factory=list)
    suffixes: int = 0
    """Quantifiers on quantifiers at the end of `items`."""
    minus: int | None = None
    """The offset of a `-` whose right operand is the last item, or comes next."""
    operands: int = 0
    """With `minus`: the number of items when it was read."""

    def add(self, item: ir.Node) -> None:
        self.items.append(item)
        self.suffixes = 0

    def next_branch(self) -> None:
        self.branches.append(ir.seq(*self.items))
        self.items = []
        self.suffixes = 0

    def node(self) -> ir.Node:
        self.next_branch()
        return ir.alt(*self.branches)


class Reader(Scanner):
    """One text. A subclass has `_rule`, `_symbol`, `_ends` and, where it differs, `_skip_space` and `_pass_space`."""

    assign = "::="
    """Stands after the name of a rule."""
    has_exceptions = False
    """Whether `A - B` is read."""
    has_empty_branches = True
    most_suffixes: int | None = None
    """Quantifiers on one item. None: as many as `Limits.nesting`."""
    first_count_optional = False
    """Whether `{,n}` is read."""

    def __init__(self, source: GrammarText, given: Mapping[str, ir.Module] | None = None) -> None:
        """`given`: grammars by the names that they have in the text."""
        super().__init__(source)
        self.rules: dict[str, ir.Node] = {}
        self.sources: dict[str, str] = {}
        self.refs: dict[str, int] = {}
        """Rule name -> where it was first used."""
        self.report: dict[str, Status] = {}
        self._start_place = 0
        """Where the text says what it starts from, if it does."""
        self._given = given or {}
        self._regular: dict[str, tuple[int, str, int | None]] = {}
        """Rules that must be regular -> where they stand, and what for."""

    def module(self, start: str | None = None) -> ir.Module:
        """Reads the text. `start`: the rule to start from, if it is not the notation's own."""
        try:
            self._read()
            return self._module(start or self._default_start())
        except LimitError as error:
            if error.line is None:
                error.line, error.column = self.source.place(min(self.pos, len(self.text)))
            raise

    def _read(self) -> None:
        self._skip_space(newlines=True)
        while self.pos < len(self.text):
            self.work.spend(PER_RULE)
            self._rule()
            self._skip_space(newlines=True)

    def _default_start(self) -> str:
        """The rule to start from: the first one."""
        return next(iter(self.rules), "root")

    def _module(self, start: str) -> ir.Module:
        if start not in self.rules:
            hint = f"Define it: {start} {self.assign} ..."
            self.source.fail(f"there is no rule {start!r} to start from", self._start_place, hint)
        for name, offset in self.refs.items():
            if name not in self.rules:
                self._missing(name, offset)
        self._settle_regular()
        return ir.Module(self.rules, start, self.sources)

    # Rules.

    def _rule(self) -> None:
        raise NotImplementedError

    def _begin(self, name: str, offset: int) -> None:
        """A rule of this name begins. Raises `GrammarError` if there is one already."""
        if name in self.rules:
            self.source.fail(f"the rule {name!r} is defined twice", offset, f"First at {self.sources[name]}")
        self.sources[name] = self.source.source(offset)
        self.rules[name] = ir.NEVER

    def ref(self, name: str, offset: int) -> ir.Node:
        self.refs.setdefault(name, offset)
        return ir.Ref(name)

    def _missing(self, name: str, offset: int) -> None:
        """A rule that the text does not define."""
        module = self._given.get(name)
        if module is None:
            self.source.fail(f"the rule {name!r} is not defined", offset, self._missing_hint(name))
        self.sources[name] = self.source.source(offset)
        self.rules[name] = self._embed(name, module)

    def _missing_hint(self, name: str) -> str | None:
        return None

    def _embed(self, name: str, module: ir.Module) -> ir.Node:
        rules, start, _ = embedded(module, f"{name}>")  # no notation has ">" in a name
        self.work.spend(len(rules))
        self.rules.update(rules)
        self.sources.update(dict.fromkeys(rules, self.sources[name]))
        return start

    def _note(self, offset: int, status: Status) -> None:
        self.report[self.source.source(offset)] = status

    # What must be regular: exceptions, and the like.

    def _regular_rule(self, node: ir.Node, offset: int, what: str, most_tokens: int | None = None) -> ir.Node:
        """A rule without a name. When all rules are known, it becomes a lexeme, of at most so many tokens, or `what` is
        refused at `offset`."""
        ref = self.hidden_rule(node, offset)
        self._regular[ref.name] = (offset, what, most_tokens)
        return ref

    def hidden_rule(self, node: ir.Node, offset: int) -> ir.Ref:
        """A rule that no text can name."""
        name = f"%{len(self.rules)}"
        self.rules[name] = node
        self.sources[name] = self.source.source(offset)
        return ir.Ref(name)

    def _difference(self, left: ir.Node, right: ir.Node, offset: int) -> ir.Node:
        """The texts of `left` that are not texts of `right`."""
        return self._regular_rule(ir.And((left, ir.Not(right))), offset, "an exception")

    def _settle_regular(self) -> None:
        if not self._regular:
            return
        parts = RegularParts(self.rules, self.work)
        nullable: Nullable | None = None
        settled: dict[str, ir.Node] = {}
        for name, (offset, what, most_tokens) in self._regular.items():
            try:
                lexeme = ir.Lexeme(parts.of_rule(name))
                settled[name] = lexeme if most_tokens is None else ir.Counted(lexeme, most_tokens)
            except NotRegular as error:
                nullable = nullable or Nullable(self.rules, self.work)
                settled[name] = _without_empty(self.rules[name], nullable) or self._not_regular(what, error, offset)
        self.rules.update(settled)

    def _not_regular(self, what: str, error: NotRegular, offset: int) -> ir.Node:
        self.source.unsupported(
            f"{what} of what is not regular: {error}", offset, "Write out the texts that are allowed, without recursion"
        )

    # The right side of a rule.

    def _right_side(self, close: str = "") -> ir.Node:
        """To its end, or before the bracket that closes what it stands in."""
        groups = [Group(self.pos)]
        spend = self.work.spend
        while True:
            spend(PER_SYMBOL)
            nested = len(groups) > 1
            self._pass_space(nested)
            offset = self.pos
            char = self.text[offset : offset + 1]
            group = groups[-1]
            if group.minus is not None and (char == "" or char not in "*+?{"):
                self._settle_minus(group, offset)
            if self._ends(char, offset):
                if nested:
                    self.source.fail(f"missing {group.close}", group.offset)
                self._check_branch(group, offset)
                return group.node()
            if char == "|":
                self._check_branch(group, offset)
                self.pos += 1
                self._skip_space(newlines=True)
                group.next_branch()
            elif char == "(":
                self._open(groups, Group(offset, ")"))
            elif char == ")":
                if char == close and not nested:
                    self._check_branch(group, offset)
                    return group.node()
                if not nested:
                    self.source.fail("unbalanced )", offset)
                if group.branches:
                    self._check_branch(group, offset)
                self.pos += 1
                groups.pop()
                groups[-1].add(group.node())
            elif char in "*+?{":
                self._quantifier(group, char, offset)
            elif char == "-" and self.has_exceptions:
                self._minus(group, offset)
            else:
                group.add(self._symbol(char, offset))

    def _pass_space(self, nested: bool) -> None:
        """To the next symbol of a right side, or its end. `nested`: inside a group."""
        self._skip_space(newlines=True)

    def _ends(self, char: str, offset: int) -> bool:
        """Whether the right side ends here, before this character."""
        raise NotImplementedError

    def _symbol(self, char: str, offset: int) -> ir.Node:
        raise NotImplementedError

    def _open(self, groups: list[Group], group: Group, length: int = 1) -> None:
        if len(groups) > self.limits.nesting:
            self.source.too_nested(len(groups), group.offset)
        self.pos += length
        groups.append(group)

    def _check_branch(self, group: Group, offset: int) -> None:
        if not group.items and not self.has_empty_branches:
            self.source.fail("an alternative is empty", offset, 'Write "" for the empty text')

    # Exceptions.

    def _minus(self, group: Group, offset: int) -> None:
        if not group.items:
            self.source.fail("nothing stands before -", offset)
        self.pos += 1
        group.minus, group.operands = offset, len(group.items)

    def _settle_minus(self, group: Group, offset: int) -> None:
        """What comes next is no quantifier: if the right operand is there, it is complete."""
        assert group.minus is not None
        if len(group.items) > group.operands:
            right = group.items.pop()
            left = group.items.pop()
            group.add(self._difference(left, right, group.minus))
            group.minus = None
        elif self.text[offset : offset + 1] in ("", "|", ")", "-"):
            self.source.fail("nothing stands after -", group.minus)

    # Quantifiers.

    def _quantifier(self, group: Group, char: str, offset: int) -> None:
        if not group.items or (group.minus is not None and len(group.items) == group.operands):
            self.source.fail(f"nothing to repeat before {char!r}", offset)
        if self.most_suffixes is not None and group.suffixes >= self.most_suffixes:
            self.source.fail("a quantifier on a quantifier", offset, 'Write a group between them: ("a"*)+')
        if group.suffixes >= self.limits.nesting:
            line, column = self.source.place(offset)
            raise LimitError(
                "too many quantifiers on quantifiers", limit="nesting", line=line, column=column, hint=RAISE
            )
        self.pos += 1
        low, high = self._counts(offset) if char == "{" else _QUANTIFIERS[char]
        group.items[-1] = ir.Repeat(group.items[-1], low, high)
        group.suffixes += 1

    def _counts(self, offset: int) -> tuple[int, int | None]:
        low = high = self._count(offset)
        if self._skip(","):
            high = self._count(offset)
            if self.first_count_optional:
                low = low or 0
        if low is None or not self._skip("}"):
            self.source.fail("expected {m}, {m,} or {m,n}", offset)
        if high is not None and high < low:
            self.source.fail(f"{{{low},{high}}}: the bounds are out of order", offset)
        return low, high

    def _count(self, offset: int) -> int | None:
        self._skip_space(newlines=False)
        digits = self._run(DIGITS)
        self._skip_space(newlines=False)
        return self._number(digits, offset) if digits else None

    def _number(self, digits: str, offset: int) -> int:
        if len(digits) > 10 or int(digits) > MAX_COUNT:
            self.source.fail("the repetition number is too large", offset)
        return int(digits)


def _without_empty(node: ir.Node, nullable: Nullable) -> ir.Node | None:
    """For all texts of a node but the empty one: how to write that without a difference. None if there is no such
    way."""
    if not isinstance(node, ir.And) or node.items[1:] != (ir.Not(ir.EMPTY),):
        return None
    left = node.items[0]
    if not nullable.of(left):
        return left
    if isinstance(left, ir.Repeat) and not nullable.of(left.item):
        return ir.Repeat(left.item, 1, left.max)
    return None
