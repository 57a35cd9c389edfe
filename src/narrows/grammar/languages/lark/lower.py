"""A Lark grammar as rules of the intermediate form.

The language is that of the context-free grammar over characters, in all readings: a text is accepted if there is any
way to cut it into terminals, with what `%ignore` names before, between and after them. Lark's own lexers take the
longest match, so they refuse some of these texts. Priorities and aliases choose between the readings of a text. They do
not change which texts there are.

Cost: linear in the text, but for templates and patterns.
"""

from __future__ import annotations

from collections.abc import Mapping

from narrows.errors import NarrowsError
from narrows.grammar import ir
from narrows.grammar.embed import embedded
from narrows.grammar.json_schema import schema_module
from narrows.grammar.json_schema.report import Status
from narrows.grammar.languages.lark import tree
from narrows.grammar.languages.lark.definitions import Definitions
from narrows.grammar.languages.lark.special import special_token
from narrows.grammar.languages.lark.syntax import read_tokens
from narrows.grammar.languages.lark.terminals import Terminals
from narrows.grammar.languages.lark.tree import Definition, Tree
from narrows.grammar.languages.text import GrammarText

_SKIPPED, _FIRST = "%ignore", "%start"
"""Rules that no text can name."""
_SETTINGS = ("no_forcing",)
"""Of `%llguidance`: those that change no language."""
_REFUSED = {
    "stop": ("stop takes text away from what the model has written", 'Write suffix="...", or a rule that goes on'),
    "stop_capture": ("stop_capture goes with stop", None),
    "max_tokens": ("max_tokens counts tokens", "Bound the characters, as in /.{0,100}/"),
}
_TERMINAL = (tree.Text, tree.Range, tree.Pattern)


class Lowering:
    """A grammar, and those that stand in it (`%lark`)."""

    def __init__(self, text: GrammarText, given: Mapping[str, ir.Module]) -> None:
        """`given`: grammars by the names that they have in the text."""
        self.text = text
        self.given = given
        self.rules: dict[str, ir.Node] = {}
        self.sources: dict[str, str] = {}
        self.report: dict[str, Status] = {}
        self.nested: list[tuple[str, tree.Embedded]] = []
        """Grammars that stand in this one, and the prefixes of their rules."""

    def run(self, grammar: tree.Grammar, start: str) -> ir.Module:
        first = _One(self, grammar, "", start, 0).run()
        while self.nested:
            prefix, found = self.nested.pop()
            _One(self, read_tokens(self.text, found.value), prefix, "start", found.offset).run()
        return ir.Module(self.rules, first, self.sources)

    def embed(self, module: ir.Module, prefix: str) -> ir.Ref:
        rules, start, sources = embedded(module, prefix)
        self.rules.update(rules)
        self.sources.update({name: self.sources.get(prefix, "") for name in sources})
        return start


class _One:
    def __init__(self, whole: Lowering, grammar: tree.Grammar, prefix: str, start: str, offset: int) -> None:
        """`prefix`: before the names of its rules. `offset`: where the grammar begins."""
        self._whole = whole
        self._text = whole.text
        self._grammar = grammar
        self._prefix = prefix
        self._start = start
        self._offset = offset
        self._definitions = Definitions(self._text, grammar)
        self._terminals = Terminals(self._text, self._definitions)
        self._skip: ir.Node = ir.EMPTY
        self._todo: list[tuple[str, int]] = []
        """Names that are used, and where."""

    def run(self) -> str:
        """Adds the rules; returns the name of the first one."""
        rules, first = self._whole.rules, self._prefix + _FIRST
        rules[first] = ir.EMPTY  # takes its place before the others
        self._settings()
        if self._start not in self._definitions.by_name:
            hint = f"Define it: {self._start}: ..."
            self._text.fail(f"there is no rule {self._start!r} to start from", self._offset, hint)
        self._ignore()
        start = self._used(self._start, self._offset)
        while self._todo:
            name, offset = self._todo.pop()
            if self._prefix + name not in rules:
                self._define(name, offset)
        rules[first] = ir.seq(self._skip, start)
        for offset in self._terminals.looks_around:
            self._note(offset, "what looks around sees the text of the terminal alone")
        return first

    def _note(self, offset: int, reason: str) -> None:
        self._whole.report[self._text.source(offset)] = Status("exact", reason)

    def _settings(self) -> None:
        for settings, offset in self._grammar.settings:
            if not isinstance(settings, dict):
                self._text.fail("expected an object after %llguidance", offset)
            for name in settings:
                if name not in _SETTINGS:
                    self._text.unsupported(f"the setting {str(name)[:64]!r}", offset)

    def _ignore(self) -> None:
        if not self._grammar.ignored:
            return
        nodes = [self._terminals.of(body, offset) for body, offset in self._grammar.ignored]
        name = self._prefix + _SKIPPED
        self._whole.rules[name] = ir.Lexeme(ir.Repeat(ir.alt(*nodes)))
        self._whole.sources[name] = self._text.source(self._grammar.ignored[0][1])
        self._skip = ir.Ref(name)

    def _define(self, name: str, offset: int) -> None:
        definition = self._definitions.by_name.get(name)
        if definition is None:
            self._given(name, offset)
            return
        key = self._prefix + name
        self._whole.sources[key] = self._text.source(definition.offset)
        if definition.is_terminal:
            self._whole.rules[key] = ir.Lexeme(self._terminals.named(name, offset))
            return
        if definition.parameters:
            self._text.fail(f"the template {name} needs arguments", offset)
        body = self._definitions.closed(definition.body)
        if definition.options:
            self._whole.rules[key] = self._with_options(definition, body)
        else:
            self._whole.rules[key] = self._lowered(body)

    def _given(self, name: str, offset: int) -> None:
        """A grammar that was given beside the text."""
        module = self._whole.given.get(name.removeprefix("@"))
        key = self._prefix + name
        if module is not None:
            self._whole.sources[key] = self._text.source(offset)
            self._whole.rules[key] = self._whole.embed(module, f"{key}/")
            return
        hint = "Give it beside the text: rules={...}" if name.startswith("@") else None
        if name in self._grammar.declared:
            hint = "%declare says that a program reads it; give it a definition, or a grammar beside the text"
        kind = "terminal" if tree.is_terminal(name) else "grammar" if name.startswith("@") else "rule"
        self._text.fail(f"the {kind} {name} is not defined", offset, hint)

    # Options.

    def _with_options(self, definition: Definition, body: Tree) -> ir.Node:
        options, offset = definition.options, definition.offset
        for name, (reason, hint) in _REFUSED.items():
            if name in options:
                self._text.unsupported(reason, offset, hint)
        if "capture" in options:
            self._note(offset, "an annotation: what a rule captures is not reported")
        if "temperature" in options:
            self._note(offset, "an annotation: the sampler is not told of temperature")
        suffix = options.get("suffix")
        if suffix is None and "lazy" not in options:
            return self._lowered(body)
        node = self._terminals.of(body, offset)
        if isinstance(suffix, str) or suffix is None:
            shortest = self._terminals.shortest(node)
        else:
            shortest = self._terminals.shortest(ir.seq(node, self._terminals.of(suffix, offset)))
        return ir.seq(ir.Lexeme(shortest), self._skip)

    # Right sides.

    def _lowered(self, body: Tree) -> ir.Node:
        done: dict[int, ir.Node] = {}
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
            self._text.work.spend(3)
            done[id(node)] = self._made(node, [done[id(child)] for child in inner])
        return done[id(body)]

    def _made(self, node: Tree, inner: list[ir.Node]) -> ir.Node:
        if isinstance(node, tree.Seq):
            return ir.seq(*inner)
        if isinstance(node, tree.Choice):
            return ir.alt(*inner)
        if isinstance(node, tree.Repeat):
            return ir.Repeat(inner[0], node.low, node.high)
        if isinstance(node, tree.Name):
            return self._used(node.name, node.offset)
        if isinstance(node, (tree.Both, tree.Negated)):
            sign = "&" if isinstance(node, tree.Both) else "~"
            self._text.fail(f"{sign} stands in terminals only", node.offset, "Make it a terminal, in upper case")
        if isinstance(node, tree.Special):
            return ir.seq(special_token(self._text, node), self._skip)
        if isinstance(node, tree.Embedded):
            return ir.seq(self._embedded(node), self._skip)
        if isinstance(node, tree.Text) and not node.text:
            return ir.EMPTY
        made = self._terminals.of(node, node.offset)
        return ir.seq(ir.Lexeme(made) if not isinstance(node, tree.Text) or node.folded else made, self._skip)

    def _used(self, name: str, offset: int) -> ir.Node:
        """A rule, or a terminal with what may be ignored after it."""
        self._todo.append((name, offset))
        ref = ir.Ref(self._prefix + name)
        is_rule = name in self._definitions.by_name and not tree.is_terminal(name)
        return ref if is_rule else ir.seq(ref, self._skip)

    def _embedded(self, node: tree.Embedded) -> ir.Node:
        source = self._text.source(node.offset)
        prefix = f"{self._prefix}{source}/"
        if node.kind == "%lark":
            self._whole.nested.append((prefix, node))
            return ir.Ref(prefix + _FIRST)
        if node.kind == "%regex":
            self._text.unsupported("%regex", node.offset)
        try:
            result = schema_module(node.value, limits=self._text.work)
        except NarrowsError as error:
            error.line, error.column = self._text.place(node.offset)
            raise
        self._whole.report.update({source + pointer: status for pointer, status in result.report.items()})
        return self._whole.embed(result.module, prefix)
