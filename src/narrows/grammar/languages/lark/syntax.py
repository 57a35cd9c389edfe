"""Reads the text of a Lark grammar into its syntax tree.

Open groups are kept on a list, never on the call stack. Cost: linear, about 2 us per token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from narrows.grammar.languages.lark import tree
from narrows.grammar.languages.lark.tokens import Token, characters, tokens_of
from narrows.grammar.languages.lark.tree import Definition, Embedded, Grammar, Import, Name, Tree
from narrows.grammar.languages.text import GrammarText

_MAX_COUNT = 2**31 - 1
_END_OF_GROUP = {"(": ")", "[": "]", "{": "}"}
_OPTIONS = {
    "lazy": "flag",
    "capture": "name",
    "stop_capture": "name",
    "suffix": "text",
    "stop": "text",
    "max_tokens": "number",
    "temperature": "number",
}
"""llguidance's options of a rule, and what their values are. `capture` may stand without a value."""


def read(text: GrammarText) -> Grammar:
    """The whole text. Raises `GrammarError` (`lark_invalid`), `UnsupportedError` (`lark_unsupported`), and `LimitError`
    (`grammar_bytes`, `nesting`, `reading_work`)."""
    return read_tokens(text, tokens_of(text))


def read_tokens(text: GrammarText, tokens: list[Token]) -> Grammar:
    """A grammar whose tokens are known, the last one of kind "end"."""
    return _Reader(text, tokens).read()


@dataclass(slots=True)
class _Group:
    """An open bracket, or the body of a definition itself."""

    kind: str
    offset: int
    branches: list[Tree] = field(default_factory=list)
    conjuncts: list[Tree] = field(default_factory=list)
    conjunction: int = 0
    """Offset of the last `&`."""
    items: list[Tree] = field(default_factory=list)
    negations: list[int] = field(default_factory=list)
    """Offsets of the `~` that stand before the next item."""
    can_repeat: bool = False
    """Whether the last item may be repeated: a quantifier stands behind an item without one."""
    template: Name | None = None
    arguments: list[Tree] = field(default_factory=list)

    def add(self, item: Tree) -> None:
        while self.negations:
            item = tree.Negated(item, self.negations.pop())
        self.items.append(item)
        self.can_repeat = True

    def end_conjunct(self) -> None:
        self.conjuncts.append(_one_of_all(self.items, tree.Seq))
        self.items = []
        self.can_repeat = False

    def end_branch(self) -> None:
        self.end_conjunct()
        offset = self.conjunction
        self.branches.append(_one_of_all(self.conjuncts, lambda items: tree.Both(items, offset)))
        self.conjuncts = []

    def tree(self) -> Tree:
        self.end_branch()
        return _one_of_all(self.branches, tree.Choice)


def _one_of_all(items: list[Tree], of: Callable[[tuple[Tree, ...]], Tree]) -> Tree:
    return items[0] if len(items) == 1 else of(tuple(items))


class _Reader:
    def __init__(self, text: GrammarText, tokens: list[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0
        self._grammar = Grammar()

    def read(self) -> Grammar:
        while True:
            while self._now.kind == "newline":
                self._at += 1
            token = self._now
            self._text.work.spend(4)
            if token.kind == "end":
                return self._grammar
            if token.kind == "keyword":
                self._statement(token)
            else:
                self._grammar.definitions.append(self._definition())
            if self._now.kind not in ("newline", "end"):
                self._fail(f"unexpected {_shown(self._now)}", self._now, "A line that goes on a rule begins with |")

    @property
    def _now(self) -> Token:
        return self._tokens[self._at]

    def _take(self, kind: str, wanted: str) -> Token:
        token = self._now
        if token.kind != kind:
            self._fail(f"expected {wanted}, found {_shown(token)}", token)
        self._at += 1
        return token

    def _skip(self, kind: str) -> bool:
        if self._now.kind != kind:
            return False
        self._at += 1
        return True

    def _fail(self, message: str, token: Token, hint: str | None = None) -> NoReturn:
        self._text.fail(message, token.offset, hint)

    # Statements.

    def _statement(self, token: Token) -> None:
        self._at += 1
        grammar = self._grammar
        if token.text == "%ignore":
            grammar.ignored.append((self._body(), token.offset))
        elif token.text == "%import":
            self._import(token)
        elif token.text == "%declare":
            while self._now.kind == "name":
                grammar.declared[self._now.text] = self._now.offset
                self._at += 1
        elif token.text == "%override":
            grammar.overrides.append(self._definition())
        elif token.text == "%extend":
            grammar.extensions.append(self._definition())
        elif token.text == "%llguidance":
            grammar.settings.append((token.value, token.offset))
        else:
            hint = "There are %ignore, %import, %declare, %override, %extend and %llguidance"
            self._fail(f"unknown statement {token.text}", token, hint)

    def _import(self, token: Token) -> None:
        if self._now.kind == ".":
            self._text.unsupported(
                "%import of another file: narrows reads no files", token.offset, "Copy its definitions into this text"
            )
        path = [self._take("name", "the name of a module")]
        while self._skip("."):
            path.append(self._take("name", "a name"))
        if self._skip("("):
            module = ".".join(part.text for part in path)
            while not self._skip(")"):
                name = self._take("name", "a name")
                self._grammar.imports.append(Import(module, name.text, name.text, name.offset))
                if not self._skip(",") and self._now.kind != ")":
                    self._fail("expected , or )", self._now)
            return
        if len(path) < 2:
            self._fail("expected what to import", self._now, "Write %import common.NUMBER")
        module = ".".join(part.text for part in path[:-1])
        name = path[-1]
        alias = self._take("name", "a name").text if self._skip("->") else name.text
        if tree.is_terminal(alias) != tree.is_terminal(name.text):
            self._fail("the new name must be of the same kind: upper case for a terminal", name)
        self._grammar.imports.append(Import(module, name.text, alias, name.offset))

    # Definitions.

    def _definition(self) -> Definition:
        while self._now.kind in ("?", "!"):
            self._at += 1
        name = self._take("name", "the name of a rule or terminal, or a statement")
        if not (name.text.islower() or name.text.isupper()):
            self._fail(
                f"the name {name.text!r} mixes upper and lower case", name, "Rules are lower case, terminals upper case"
            )
        if self._now.kind == "::":
            self._text.unsupported("rules with parameters (::)", self._now.offset)
        parameters = self._parameters(name) if self._skip("{") else ()
        if self._skip("."):
            self._take("number", "a priority")
        options = self._options() if self._skip("[") else {}
        self._take(":", ":")
        return Definition(name.text, name.offset, self._body(), parameters, options)

    def _parameters(self, of: Token) -> tuple[str, ...]:
        if tree.is_terminal(of.text):
            self._fail("a terminal has no parameters", of, "Make it a rule, in lower case")
        found: dict[str, None] = {}
        while not self._skip("}"):
            name = self._take("name", "the name of a parameter")
            if name.text in found:
                self._fail(f"the parameter {name.text} is given twice", name)
            found[name.text] = None
            if not self._skip(",") and self._now.kind != "}":
                self._fail("expected , or }", self._now)
        return tuple(found)

    def _options(self) -> dict[str, Tree | str | None]:
        found: dict[str, Tree | str | None] = {}
        while not self._skip("]"):
            name = self._take("name", "the name of an option")
            kind = _OPTIONS.get(name.text, "")
            if not kind:
                self._fail(f"unknown option {name.text!r}", name, f"There are {', '.join(_OPTIONS)}")
            value: Tree | str | None = None
            if self._skip("="):
                value = self._option(kind)
            elif kind not in ("flag", "name"):
                self._fail(f"expected = after {name.text}", self._now)
            found[name.text] = value
            if not self._skip(",") and self._now.kind != "]":
                self._fail("expected , or ]", self._now)
        return found

    def _option(self, kind: str) -> Tree | str:
        token = self._now
        if kind == "number":
            return self._take("number", "a number").text
        if kind == "name":
            return characters(self._text, self._take("string", "a string"))
        if kind == "text":
            self._at += 1
            value = self._value(token)
            if value is not None:
                return value
        self._fail(f"unexpected {_shown(token)}", token)

    # The right side.

    def _body(self) -> Tree:
        """To the end of the definition: a line that begins with `|` goes on."""
        groups = [_Group("", self._now.offset)]
        text = self._text
        while True:
            text.work.spend(3)
            token, group = self._now, groups[-1]
            kind = token.kind
            if kind == "newline" and (len(groups) > 1 or self._goes_on()):
                self._at += 1
            elif kind in ("newline", "end"):
                if len(groups) > 1:
                    self._fail(f"missing {_END_OF_GROUP[group.kind]}", Token("", "", group.offset))
                self._check_negation(group)
                return group.tree()
            elif kind == "|" and group.kind != "{":
                self._check_negation(group)
                group.end_branch()
                self._at += 1
            elif kind == "&" and group.kind != "{":
                self._check_negation(group)
                group.end_conjunct()
                group.conjunction = token.offset
                self._at += 1
            elif kind == "->" and group.kind != "{":
                self._at += 1
                self._take("name", "the alias of an alternative")
                if self._now.kind not in ("|", "newline", "end", ")", "]"):
                    self._fail("an alias stands at the end of an alternative", token)
            elif kind in ("(", "[") and group.kind != "{":
                self._open(groups, _Group(kind, token.offset))
            elif kind == "{" and not self._counts_follow() and group.can_repeat and group.items:
                template = group.items[-1]
                if not isinstance(template, Name) or template.arguments:
                    self._fail("unexpected {", token)
                group.items.pop()
                self._open(groups, _Group(kind, token.offset, template=template))
            elif kind in _END_OF_GROUP.values():
                self._close(groups, token)
            elif kind == "," and group.kind == "{":
                self._end_argument(group, token)
                self._at += 1
            elif kind in ("*", "+", "?", "{"):
                self._quantifier(group, token)
            elif kind == "~":
                self._tilde(group, token)
            else:
                group.add(self._symbol(token))

    def _goes_on(self) -> bool:
        at = self._at
        while self._tokens[at].kind == "newline":
            at += 1
        return self._tokens[at].kind == "|"

    def _check_negation(self, group: _Group) -> None:
        if group.negations:
            self._text.fail("nothing stands after ~", group.negations[-1])

    def _open(self, groups: list[_Group], group: _Group) -> None:
        if len(groups) > self._text.work.limits.nesting:
            self._text.too_nested(len(groups), group.offset)
        self._at += 1
        groups.append(group)

    def _close(self, groups: list[_Group], token: Token) -> None:
        group = groups[-1]
        if len(groups) == 1 or _END_OF_GROUP[group.kind] != token.kind:
            self._fail(f"unbalanced {token.kind}", token)
        self._check_negation(group)
        self._at += 1
        groups.pop()
        if group.template is not None:
            self._end_argument(group, token)
            used = group.template
            groups[-1].add(Name(used.name, used.offset, tuple(group.arguments)))
            return
        inner = group.tree()
        groups[-1].add(inner if group.kind == "(" else tree.Repeat(inner, 0, 1, group.offset))

    def _end_argument(self, group: _Group, token: Token) -> None:
        if len(group.items) != 1:
            self._fail("an argument of a template is one name, string or pattern", token)
        group.arguments.append(group.items.pop())
        group.can_repeat = False

    # Quantifiers.

    def _quantifier(self, group: _Group, token: Token) -> None:
        self._at += 1
        if token.kind == "{":
            low, high = self._braces(token)
        else:
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[token.kind]
        self._repeat(group, token, low, high)

    def _repeat(self, group: _Group, token: Token, low: int, high: int | None) -> None:
        if not group.can_repeat or not group.items or group.kind == "{":
            self._fail(f"nothing to repeat before {token.kind}", token)
        if high is not None and high < low:
            self._fail(f"{low} to {high}: the bounds are out of order", token)
        group.items[-1] = tree.Repeat(group.items[-1], low, high, token.offset)
        group.can_repeat = False

    def _counts_follow(self) -> bool:
        return self._tokens[self._at + 1].kind in ("number", ",")

    def _braces(self, token: Token) -> tuple[int, int | None]:
        """`{2}`, `{2,}`, `{,3}` and `{2,3}`."""
        low = self._count() if self._now.kind == "number" else 0
        high: int | None = low
        if self._skip(","):
            high = self._count() if self._now.kind == "number" else None
        self._take("}", "} after the counts")
        return low, high

    def _count(self) -> int:
        token = self._take("number", "a number")
        if not token.text.isdecimal():
            self._fail("a count is a whole number", token)
        if len(token.text) > 10 or int(token.text) > _MAX_COUNT:
            self._fail("the count is too large", token)
        return int(token.text)

    def _tilde(self, group: _Group, token: Token) -> None:
        """`x ~ 2..3` behind an item, or the negation of the next item."""
        self._at += 1
        if self._now.kind != "number":
            if len(group.negations) >= self._text.work.limits.nesting:
                self._text.too_nested(len(group.negations), token.offset)
            group.negations.append(token.offset)
            group.can_repeat = False
            return
        low = high = self._count()
        if self._skip(".."):
            high = self._count()
        self._repeat(group, token, low, high)

    # Symbols.

    def _symbol(self, token: Token) -> Tree:
        self._at += 1
        value = self._value(token)
        if value is not None:
            return value
        if token.kind == "keyword" and token.text in ("%json", "%regex"):
            return Embedded(token.text, token.value, token.offset)
        if token.kind == "keyword" and token.text == "%lark":
            return Embedded(token.text, self._nested(token), token.offset)
        if token.kind == "special":
            return tree.Special(token.text, token.offset)
        if token.kind == "grammar":
            return Name(token.text, token.offset)
        hint = 'Strings and patterns stand for text: "..." or /.../' if token.kind in (":", "=", "number") else None
        self._fail(f"unexpected {_shown(token)}", token, hint)

    def _value(self, token: Token) -> Tree | None:
        """A name, a string, a range or a pattern."""
        if token.kind == "name":
            return Name(token.text, token.offset)
        if token.kind == "string":
            low = characters(self._text, token)
            if not self._skip(".."):
                return tree.Text(low, token.text.endswith("i"), token.offset)
            end = self._take("string", "a string")
            high = characters(self._text, end)
            if len(low) != 1 or len(high) != 1 or high < low:
                self._fail("a range goes from one character up to another", token)
            return tree.Range(low, high, token.offset)
        if token.kind == "regexp":
            source, _, flags = token.text[1:].rpartition("/")
            if set(flags) - set("imslux") or "l" in flags:
                self._fail(f"unknown flags {flags!r} of a regular expression", token, "There are i, m, s, u and x")
            if "\n" in source and "x" not in flags:
                self._fail("a regular expression ends on its line", token, "With the flag x it may go on")
            return tree.Pattern(source.replace("\\/", "/"), flags, token.offset)
        return None

    def _nested(self, keyword: Token) -> list[Token]:
        """The tokens between the braces after `%lark`."""
        while self._skip("newline"):
            pass
        opened = self._take("{", "{ after %lark")
        depth, start = 1, self._at
        while depth:
            token = self._now
            if token.kind == "end":
                self._fail("missing }", opened)
            depth += {"{": 1, "}": -1}.get(token.kind, 0)
            self._at += 1
        inner = self._tokens[start : self._at - 1]
        self._text.work.spend(1 + len(inner) // 4)
        end = self._tokens[self._at - 1].offset
        return [*inner, Token("newline", "", end), Token("end", "", end)]


def _shown(token: Token) -> str:
    if token.kind == "end":
        return "the end of the grammar"
    return "the end of the line" if token.kind == "newline" else repr(token.text[:40])
