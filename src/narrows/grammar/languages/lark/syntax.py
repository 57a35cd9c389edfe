"""Reads the text of a Lark grammar into its syntax tree.

Open groups are kept on a list, never on the call stack. Cost: linear, about 2 us per token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from narrows.grammar.languages.lark import tree
from narrows.grammar.languages.lark.cursor import Cursor, shown
from narrows.grammar.languages.lark.parameters import condition_at, expression_at
from narrows.grammar.languages.lark.parametric import Condition
from narrows.grammar.languages.lark.tokens import Token, characters, tokens_of
from narrows.grammar.languages.lark.tree import Definition, Embedded, Grammar, Import, Name, Tree
from narrows.grammar.languages.text import GrammarText

_IF = "%if"
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
    condition: tuple[Condition, int] | None = None
    """That of the branch, and where it stands."""
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
        branch = _one_of_all(self.conjuncts, lambda items: tree.Both(items, offset))
        if self.condition is not None:
            branch = tree.When(branch, *self.condition)
        self.branches.append(branch)
        self.conjuncts = []
        self.condition = None

    def tree(self) -> Tree:
        self.end_branch()
        return _one_of_all(self.branches, tree.Choice)


def _one_of_all(items: list[Tree], of: Callable[[tuple[Tree, ...]], Tree]) -> Tree:
    return items[0] if len(items) == 1 else of(tuple(items))


class _Reader(Cursor):
    def __init__(self, text: GrammarText, tokens: list[Token]) -> None:
        super().__init__(text, tokens)
        self._grammar = Grammar()

    def read(self) -> Grammar:
        while True:
            while self.now.kind == "newline":
                self.at += 1
            token = self.now
            self.text.work.spend(4)
            if token.kind == "end":
                return self._grammar
            if token.kind == "keyword":
                self._statement(token)
            else:
                self._grammar.definitions.append(self._definition())
            if self.now.kind not in ("newline", "end"):
                self.fail(f"unexpected {shown(self.now)}", self.now, "A line that goes on a rule begins with |")

    # Statements.

    def _statement(self, token: Token) -> None:
        self.at += 1
        grammar = self._grammar
        if token.text == "%ignore":
            grammar.ignored.append((self._body(), token.offset))
        elif token.text == "%import":
            self._import(token)
        elif token.text == "%declare":
            while self.now.kind == "name":
                grammar.declared[self.now.text] = self.now.offset
                self.at += 1
        elif token.text == "%override":
            grammar.overrides.append(self._definition())
        elif token.text == "%extend":
            grammar.extensions.append(self._definition())
        elif token.text == "%llguidance":
            grammar.settings.append((token.value, token.offset))
        else:
            hint = "There are %ignore, %import, %declare, %override, %extend and %llguidance"
            self.fail(f"unknown statement {token.text}", token, hint)

    def _import(self, token: Token) -> None:
        if self.now.kind == ".":
            self.text.unsupported(
                "%import of another file: narrows reads no files", token.offset, "Copy its definitions into this text"
            )
        path = [self.take("name", "the name of a module")]
        while self.skip("."):
            path.append(self.take("name", "a name"))
        if self.skip("("):
            module = ".".join(part.text for part in path)
            while not self.skip(")"):
                name = self.take("name", "a name")
                self._grammar.imports.append(Import(module, name.text, name.text, name.offset))
                if not self.skip(",") and self.now.kind != ")":
                    self.fail("expected , or )", self.now)
            return
        if len(path) < 2:
            self.fail("expected what to import", self.now, "Write %import common.NUMBER")
        module = ".".join(part.text for part in path[:-1])
        name = path[-1]
        alias = self.take("name", "a name").text if self.skip("->") else name.text
        if tree.is_terminal(alias) != tree.is_terminal(name.text):
            self.fail("the new name must be of the same kind: upper case for a terminal", name)
        self._grammar.imports.append(Import(module, name.text, alias, name.offset))

    # Definitions.

    def _definition(self) -> Definition:
        while self.now.kind in ("?", "!"):
            self.at += 1
        name = self.take("name", "the name of a rule or terminal, or a statement")
        if not (name.text.islower() or name.text.isupper()):
            self.fail(
                f"the name {name.text!r} mixes upper and lower case", name, "Rules are lower case, terminals upper case"
            )
        is_parametric = self._is_parametric(name)
        parameters = self._parameters(name) if self.skip("{") else ()
        if self.skip("."):
            self.take("number", "a priority")
        options = self._options() if self.skip("[") else {}
        if "stop" in options and "suffix" in options:
            self.fail("stop and suffix exclude each other", name)
        if is_parametric and (parameters or options.keys() - {"capture"}):
            self.text.unsupported("a rule with a parameter that has other options than capture", name.offset)
        self.take(":", ":")
        return Definition(name.text, name.offset, self._body(), parameters, is_parametric, options)

    def _is_parametric(self, of: Token) -> bool:
        if not self.skip("::"):
            return False
        if tree.is_terminal(of.text):
            self.fail("a terminal has no parameter", of, "Make it a rule, in lower case")
        if self.now.text.startswith("="):
            self.fail("expected : after the name of the rule", of, "`::=` is GBNF's notation: Grammar.from_gbnf")
        if self.now.kind != "name" or self.now.text != "_":
            self.fail("expected _ after ::", self.now, "A rule with a parameter begins with name::_:")
        self.at += 1
        return True

    def _parameters(self, of: Token) -> tuple[str, ...]:
        if tree.is_terminal(of.text):
            self.fail("a terminal has no parameters", of, "Make it a rule, in lower case")
        found: dict[str, None] = {}
        while not self.skip("}"):
            name = self.take("name", "the name of a parameter")
            if name.text in found:
                self.fail(f"the parameter {name.text} is given twice", name)
            found[name.text] = None
            if not self.skip(",") and self.now.kind != "}":
                self.fail("expected , or }", self.now)
        return tuple(found)

    def _options(self) -> dict[str, Tree | str | None]:
        found: dict[str, Tree | str | None] = {}
        while not self.skip("]"):
            name = self.take("name", "the name of an option")
            kind = _OPTIONS.get(name.text, "")
            if not kind:
                self.fail(f"unknown option {name.text!r}", name, f"There are {', '.join(_OPTIONS)}")
            value: Tree | str | None = None
            if self.skip("="):
                value = self._option(kind)
            elif kind not in ("flag", "name"):
                self.fail(f"expected = after {name.text}", self.now)
            found[name.text] = value
            if not self.skip(",") and self.now.kind != "]":
                self.fail("expected , or ]", self.now)
        return found

    def _option(self, kind: str) -> Tree | str:
        token = self.now
        if kind == "number":
            return self.take("number", "a number").text
        if kind == "name":
            return characters(self.text, self.take("string", "a string"))
        if kind == "text":
            self.at += 1
            value = self._value(token)
            if value is not None:
                return value
        self.fail(f"unexpected {shown(token)}", token)

    # The right side.

    def _body(self) -> Tree:
        """To the end of the definition: a line that begins with `|` goes on."""
        groups = [_Group("", self.now.offset)]
        text = self.text
        while True:
            text.work.spend(3)
            token, group = self.now, groups[-1]
            kind = token.kind
            if kind == "newline" and (len(groups) > 1 or self._goes_on()):
                self.at += 1
            elif kind in ("newline", "end"):
                if len(groups) > 1:
                    self.fail(f"missing {_END_OF_GROUP[group.kind]}", Token("", "", group.offset))
                self._check_negation(group)
                return group.tree()
            elif kind == "|" and group.kind != "{":
                self._check_negation(group)
                group.end_branch()
                self.at += 1
            elif kind == "&" and group.kind != "{":
                self._check_negation(group)
                group.end_conjunct()
                group.conjunction = token.offset
                self.at += 1
            elif kind == "->" and group.kind != "{":
                self.at += 1
                self.take("name", "the alias of an alternative")
                if self.now.kind not in ("|", "newline", "end", ")", "]") and self.now.text != _IF:
                    self.fail("an alias stands at the end of an alternative", token)
            elif kind == "keyword" and token.text == _IF and group.kind != "{":
                self._condition(group, token)
            elif kind in ("(", "[") and group.kind != "{":
                self._open(groups, _Group(kind, token.offset))
            elif kind == "{" and not self._counts_follow() and group.can_repeat and group.items:
                template = group.items[-1]
                if not isinstance(template, Name) or template.arguments:
                    self.fail("unexpected {", token)
                group.items.pop()
                self._open(groups, _Group(kind, token.offset, template=template))
            elif kind in _END_OF_GROUP.values():
                self._close(groups, token)
            elif kind == "," and group.kind == "{":
                self._end_argument(group, token)
                self.at += 1
            elif kind in ("*", "+", "?", "{"):
                self._quantifier(group, token)
            elif kind == "~":
                self._tilde(group, token)
            else:
                group.add(self._symbol(token))

    def _condition(self, group: _Group, token: Token) -> None:
        """`%if ...` at the end of an alternative."""
        self._check_negation(group)
        self.at += 1
        group.condition = condition_at(self), token.offset
        if self.now.kind not in ("|", "newline", "end", ")", "]"):
            self.fail("a condition stands at the end of an alternative", token)

    def _goes_on(self) -> bool:
        at = self.at
        while self.tokens[at].kind == "newline":
            at += 1
        return self.tokens[at].kind == "|"

    def _check_negation(self, group: _Group) -> None:
        if group.negations:
            self.text.fail("nothing stands after ~", group.negations[-1])

    def _open(self, groups: list[_Group], group: _Group) -> None:
        if len(groups) > self.text.work.limits.nesting:
            self.text.too_nested(len(groups), group.offset)
        self.at += 1
        groups.append(group)

    def _close(self, groups: list[_Group], token: Token) -> None:
        group = groups[-1]
        if len(groups) == 1 or _END_OF_GROUP[group.kind] != token.kind:
            self.fail(f"unbalanced {token.kind}", token)
        self._check_negation(group)
        self.at += 1
        groups.pop()
        if group.template is not None:
            self._end_argument(group, token)
            used = group.template
            groups[-1].add(replace(used, arguments=tuple(group.arguments)))
            return
        inner = group.tree()
        groups[-1].add(inner if group.kind == "(" else tree.Repeat(inner, 0, 1, group.offset))

    def _end_argument(self, group: _Group, token: Token) -> None:
        if len(group.items) != 1:
            self.fail("an argument of a template is one name, string or pattern", token)
        group.arguments.append(group.items.pop())
        group.can_repeat = False

    # Quantifiers.

    def _quantifier(self, group: _Group, token: Token) -> None:
        self.at += 1
        if token.kind == "{":
            low, high = self._braces(token)
        else:
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[token.kind]
        self._repeat(group, token, low, high)

    def _repeat(self, group: _Group, token: Token, low: int, high: int | None) -> None:
        if not group.can_repeat or not group.items or group.kind == "{":
            self.fail(f"nothing to repeat before {token.kind}", token)
        if high is not None and high < low:
            self.fail(f"{low} to {high}: the bounds are out of order", token)
        group.items[-1] = tree.Repeat(group.items[-1], low, high, token.offset)
        group.can_repeat = False

    def _counts_follow(self) -> bool:
        return self.tokens[self.at + 1].kind in ("number", ",")

    def _braces(self, token: Token) -> tuple[int, int | None]:
        """`{2}`, `{2,}`, `{,3}` and `{2,3}`."""
        low = self._count() if self.now.kind == "number" else 0
        high: int | None = low
        if self.skip(","):
            high = self._count() if self.now.kind == "number" else None
        self.take("}", "} after the counts")
        return low, high

    def _count(self) -> int:
        token = self.take("number", "a number")
        if not token.text.isdecimal():
            self.fail("a count is a whole number", token)
        if len(token.text) > 10 or int(token.text) > _MAX_COUNT:
            self.fail("the count is too large", token)
        return int(token.text)

    def _tilde(self, group: _Group, token: Token) -> None:
        """`x ~ 2..3` behind an item, or the negation of the next item."""
        self.at += 1
        if self.now.kind != "number":
            if len(group.negations) >= self.text.work.limits.nesting:
                self.text.too_nested(len(group.negations), token.offset)
            group.negations.append(token.offset)
            group.can_repeat = False
            return
        low = high = self._count()
        if self.skip(".."):
            high = self._count()
        self._repeat(group, token, low, high)

    # Symbols.

    def _symbol(self, token: Token) -> Tree:
        self.at += 1
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
        self.fail(f"unexpected {shown(token)}", token, hint)

    def _value(self, token: Token) -> Tree | None:
        """A name, a string, a range or a pattern."""
        if token.kind == "name":
            parameter = expression_at(self) if self.skip("::") else None
            return Name(token.text, token.offset, parameter=parameter)
        if token.kind == "string":
            low = characters(self.text, token)
            if not self.skip(".."):
                return tree.Text(low, token.text.endswith("i"), token.offset)
            end = self.take("string", "a string")
            high = characters(self.text, end)
            if len(low) != 1 or len(high) != 1 or high < low:
                self.fail("a range goes from one character up to another", token)
            return tree.Range(low, high, token.offset)
        if token.kind == "regexp":
            source, _, flags = token.text[1:].rpartition("/")
            if set(flags) - set("imslux") or "l" in flags:
                self.fail(f"unknown flags {flags!r} of a regular expression", token, "There are i, m, s, u and x")
            if "\n" in source and "x" not in flags:
                self.fail("a regular expression ends on its line", token, "With the flag x it may go on")
            return tree.Pattern(source.replace("\\/", "/"), flags, token.offset)
        return None

    def _nested(self, keyword: Token) -> list[Token]:
        """The tokens between the braces after `%lark`."""
        while self.skip("newline"):
            pass
        opened = self.take("{", "{ after %lark")
        depth, start = 1, self.at
        while depth:
            token = self.now
            if token.kind == "end":
                self.fail("missing }", opened)
            depth += {"{": 1, "}": -1}.get(token.kind, 0)
            self.at += 1
        inner = self.tokens[start : self.at - 1]
        self.text.work.spend(1 + len(inner) // 4)
        end = self.tokens[self.at - 1].offset
        return [*inner, Token("newline", "", end), Token("end", "", end)]
