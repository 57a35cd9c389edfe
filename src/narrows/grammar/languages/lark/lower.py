"""A Lark grammar as rules of the intermediate form.

The language is that of the context-free grammar over characters, in all readings: a text is accepted if there is any
way to cut it into terminals, with what `%ignore` names before, between and after them. Lark's own lexers take the
longest match, so they refuse some of these texts. Only the lazy rules of llguidance go before others (lazy.py). With
the lexer "greedy" the text is cut as llguidance does (`ir.Module.longest`): a terminal goes on as long as any terminal
that may stand at its place does.
Priorities and aliases choose between the readings of a text. They do not change which texts there are.

Cost: linear in the text, but for templates and patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

from narrows.errors import LimitError, NarrowsError
from narrows.grammar import ir
from narrows.grammar.embed import embedded
from narrows.grammar.json_schema import SchemaResult, schema_module
from narrows.grammar.json_schema.report import Status
from narrows.grammar.languages.lark import tree
from narrows.grammar.languages.lark.definitions import Definitions
from narrows.grammar.languages.lark.lazy import rivals
from narrows.grammar.languages.lark.special import special_token
from narrows.grammar.languages.lark.stops import JSON, SOMETHING, TOKEN, Bits, Stops
from narrows.grammar.languages.lark.syntax import read_tokens
from narrows.grammar.languages.lark.terminals import SOME_BYTES, Terminals, matches_empty
from narrows.grammar.languages.lark.tree import Definition, Name, Terminal, Tree
from narrows.grammar.languages.text import GrammarText
from narrows.grammar.options import Lexer
from narrows.grammar.regular import Regular
from narrows.grammar.work import Work

LEXERS = get_args(Lexer)
_MAX_TOKENS = "max_tokens"
_SKIPPED, _FIRST = "%ignore", "%start"
"""Rules that no text can name."""
_SETTINGS = ("no_forcing", "allow_initial_skip", "ignore_once", "lexer")
"""Of `%llguidance`, and our own `lexer`. Of llguidance's, only `ignore_once` changes the language: what may be ignored
is read at the beginning, too."""

ReadSchema = Callable[[Any, Work], SchemaResult]


def read_schema(value: Any, work: Work) -> SchemaResult:
    """The value after `%json`."""
    return schema_module(value, limits=work)


class Lowering:
    """A grammar, and those that stand in it (`%lark`)."""

    def __init__(
        self,
        text: GrammarText,
        given: Mapping[str, ir.Module],
        read_schema: ReadSchema = read_schema,
        *,
        greedy: bool = False,
    ) -> None:
        """`given`: grammars by the names that they have in the text. `read_schema`: reads what stands after `%json`."""
        self.text = text
        self.given = given
        self.read_schema = read_schema
        self.greedy = greedy
        self.rules: dict[str, ir.Node] = {}
        self.offsets: dict[str, int] = {}
        """Rule -> where it stands."""
        self.report: dict[str, Status] = {}
        self.statuses: list[tuple[int, str, Status]] = []
        """Offset, and what comes behind its place in the report."""
        self.nested: list[tuple[str, tree.Embedded]] = []
        """Grammars that stand in this one, and the prefixes of their rules."""

    def run(self, grammar: tree.Grammar, start: str) -> ir.Module:
        self.greedy = self.greedy or self._asks_for_greedy(grammar)
        first = _One(self, grammar, "", start, 0).run()
        while self.nested:
            prefix, found = self.nested.pop()
            _One(self, read_tokens(self.text, found.value), prefix, "start", found.offset).run()
        # In the order of the text, so that no line is counted twice.
        offsets = sorted({*self.offsets.values(), *[offset for offset, _, _ in self.statuses]})
        places = {offset: self.text.source(offset) for offset in offsets}
        self.report.update({places[offset] + pointer: status for offset, pointer, status in self.statuses})
        sources = {name: places[offset] for name, offset in self.offsets.items()}
        return ir.Module(self.rules, first, sources, longest=self.greedy)

    def _asks_for_greedy(self, grammar: tree.Grammar) -> bool:
        asks = False
        for settings, offset in grammar.settings:
            lexer = settings.get("lexer", "all") if isinstance(settings, dict) else "all"
            if lexer not in LEXERS:
                self.text.fail(f"the lexer is {' or '.join(map(repr, LEXERS))}", offset)
            asks = asks or lexer == "greedy"
        return asks

    def refuse_in_greedy(self, what: str, offset: int) -> None:
        """Its text is not cut into terminals."""
        if self.greedy:
            self.text.unsupported(f'{what} with lexer="greedy"', offset, 'Read the grammar with lexer="all"')

    def embed(self, module: ir.Module, prefix: str, offset: int) -> ir.Ref:
        rules, start, sources = embedded(module, prefix)
        self.rules.update(rules)
        self.offsets.update(dict.fromkeys(sources, offset))
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
        self._rivals: dict[int, frozenset[str]] = {}
        """id of a name, string or pattern -> the lazy rules that go before it."""
        self._lazy_texts: dict[frozenset[str], tuple[int, ir.Node]] = {}
        """Lazy rules -> a number for them, and what any of them matches."""
        self._captures: dict[str, ir.Capture] = {}
        """By the names of rules."""
        self._hidden: set[str] = set()
        """Rules whose stop text is in no capture."""
        self._bodies: dict[str, Tree] = {}
        """Right sides of rules, where they have been looked at already."""
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
        self._find_rivals()
        start = self._used(Name(self._start, self._offset))
        while self._todo:
            name, offset = self._todo.pop()
            if self._prefix + name not in rules:
                self._define(name, offset)
        rules[first] = ir.seq(self._skip, start)
        self._whole.statuses += [(offset, "", status) for offset, status in self._terminals.looks_beyond.items()]
        return first

    def _note(self, offset: int, reason: str) -> None:
        self._whole.statuses.append((offset, "", Status("exact", reason)))

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
        is_once = any(settings.get("ignore_once") is True for settings, _ in self._grammar.settings)
        if self._whole.greedy:
            self._whole.rules[name] = ir.Repeat(ir.Lexeme(ir.alt(*nodes)), 0, 1 if is_once else None)
        else:
            self._whole.rules[name] = ir.Lexeme(ir.Repeat(ir.alt(*nodes), 0, 1 if is_once else None))
        self._whole.offsets[name] = self._grammar.ignored[0][1]
        self._skip = ir.Ref(name, is_ignored=True)

    def _define(self, name: str, offset: int) -> None:
        definition = self._definitions.by_name.get(name)
        if definition is None:
            self._given(name, offset)
            return
        self._whole.offsets[self._prefix + name] = definition.offset
        try:
            self._whole.rules[self._prefix + name] = self._right_side(definition, offset)
        except LimitError as error:
            if error.line is None:
                error.line, error.column = self._text.place(definition.offset)
            raise

    def _right_side(self, definition: Definition, used_at: int) -> ir.Node:
        if definition.is_terminal:
            return ir.Lexeme(self._terminals.named(definition.name, used_at))
        if definition.parameters:
            self._text.fail(f"the template {definition.name} needs arguments", used_at)
        if definition.is_parametric:
            name = definition.name
            self._text.fail(f"the rule {name} needs a parameter", used_at, f"Write {name}::0, or another number")
        if definition.options:
            self._check_options(definition)
        if definition.is_lazy:
            return ir.seq(self._counted(definition, ir.Lexeme(self._shortest(definition))), self._skip)
        if definition.ends_by_token or _MAX_TOKENS in definition.options:
            made = ir.Lexeme(self._terminals.of(definition.body, definition.offset))
            return ir.seq(self._counted(definition, made), self._skip)
        return self._lowered(self._body(definition))

    def _body(self, definition: Definition) -> Tree:
        body = self._bodies.get(definition.name)
        return self._definitions.closed(definition.body) if body is None else body

    def _given(self, name: str, offset: int) -> None:
        """A grammar that was given beside the text."""
        module = self._whole.given.get(name.removeprefix("@"))
        key = self._prefix + name
        if module is not None:
            self._whole.refuse_in_greedy("another grammar", offset)
            self._whole.offsets[key] = offset
            self._whole.rules[key] = self._whole.embed(module, f"{key}/", offset)
            return
        hint = "Give it beside the text: rules={...}" if name.startswith("@") else None
        if name in self._grammar.declared:
            hint = "%declare says that a program reads it; give it a definition, or a grammar beside the text"
        kind = "terminal" if tree.is_terminal(name) else "grammar" if name.startswith("@") else "rule"
        self._text.fail(f"the {kind} {name} is not defined", offset, hint)

    # Options.

    def _check_options(self, definition: Definition) -> None:
        options, offset = definition.options, definition.offset
        if "stop_capture" in options and "suffix" not in options and "stop" not in options:
            self._text.fail("stop_capture goes with suffix or stop", offset)
        if "stop" in options:
            self._note(offset, "stop: its text stays in what is written, and is left out of what the rule captures")
        if (
            _MAX_TOKENS in options
            and not definition.is_lazy
            and any(known.is_lazy for known in self._definitions.by_name.values())
        ):
            self._text.unsupported("max_tokens of a rule that is not lazy, beside lazy ones", offset, "Make it lazy")
        if "temperature" in options:
            self._note(offset, "an annotation: the sampler is not told of temperature")

    def _counted(self, definition: Definition, node: ir.Lexeme) -> ir.Node:
        """The terminal of a rule, with the bound on its tokens."""
        digits = definition.options.get(_MAX_TOKENS)
        if digits is None:
            return node
        self._whole.refuse_in_greedy(_MAX_TOKENS, definition.offset)
        if not isinstance(digits, str) or not digits.isdecimal() or len(digits) > 10 or not int(digits):
            self._text.fail("max_tokens is a whole number of at least 1", definition.offset)
        return ir.Counted(node, min(int(digits), ir.MOST_COUNTED))

    def _capture(self, definition: Definition) -> ir.Capture | None:
        """What is reported of the text of a rule."""
        options = definition.options
        if not options.keys() & {"capture", "stop_capture", "stop"}:
            return None
        if definition.name not in self._captures:
            given, end_name = options.get("capture"), options.get("stop_capture")
            name = given if isinstance(given, str) else definition.written_name if "capture" in options else None
            end_name = end_name if isinstance(end_name, str) else None
            capture = ir.Capture(name, end_name)
            offset = definition.offset
            if definition.end is not None:
                body, end = self._terminals.of(definition.body, offset), self._terminals.of(definition.end, offset)
                capture = ir.Capture(name, end_name, body, end, definition.name in self._hidden)
            elif definition.ends_by_token:
                capture = ir.Capture(name, end_name, self._terminals.of(definition.body, offset), ir.EMPTY)
            self._captures[definition.name] = capture
        return self._captures[definition.name]

    def _shortest(self, definition: Definition) -> ir.Node:
        """What a lazy rule matches: its terminal, with the suffix, as soon as it can end."""
        node = self._terminals.of(definition.body, definition.offset)
        if definition.end is not None:
            node = ir.seq(node, self._terminals.of(definition.end, definition.offset))
        return self._terminals.shortest(node)

    def _find_rivals(self) -> None:
        """Fills `_bodies` and `_rivals`, if there are lazy rules or such with `stop`."""
        known = self._definitions.by_name
        if not any(definition.is_lazy or definition.ends_by_token for definition in known.values()):
            return
        lazy: dict[str, None] = {}
        stops: dict[str, Definition] = {}
        todo = [self._start]
        while todo:
            name = todo.pop()
            definition = known.get(name)
            if definition is None or definition.is_terminal or name in self._bodies or name in lazy:
                continue
            if "stop" in definition.options:
                stops[name] = definition
            if definition.is_lazy:
                lazy[name] = None
            elif not definition.parameters and not definition.is_parametric and not definition.ends_by_token:
                body = self._bodies[name] = self._definitions.closed(definition.body)
                todo += [used.name for used in tree.names(body)]
        if stops:
            settling = Stops(self._text, self._bodies, stops, self._start, self._firsts_of, self._ignored_firsts())
            self._bodies = settling.settled()
            self._hidden = stops.keys() - settling.repeated
        self._rivals = rivals(self._bodies, lazy, self._is_empty, self._text.work)

    def _firsts_of(self, node: Tree) -> tuple[Bits, bool]:
        """With which bytes a terminal or a lazy rule begins, and whether it may be empty."""
        if isinstance(node, tree.Special):
            return TOKEN, False
        if isinstance(node, tree.Embedded) and node.kind != "%regex":
            return JSON if node.kind == "%json" else SOMETHING, False
        if not isinstance(node, Name):
            return self._firsts_of_terminal(self._terminals.of(node, getattr(node, "offset", 0)))
        definition = self._definitions.by_name.get(node.name)
        if definition is None:
            return SOMETHING, False
        if definition.is_terminal:
            return self._firsts_of_terminal(self._terminals.named(node.name, node.offset))
        return self._firsts_of_terminal(self._shortest(definition))

    def _firsts_of_terminal(self, node: ir.Node) -> tuple[Bits, bool]:
        regular = Regular.of_reading(self._text.work)
        term = regular.of(node)
        bits = 0
        for part, after in regular.derivatives(term):
            if not regular.is_never(after):
                bits |= part
        return bits, regular.matches(term, b"")

    def _ignored_firsts(self) -> Bits:
        bits = 0
        for body, offset in self._grammar.ignored:
            bits |= self._firsts_of_terminal(self._terminals.of(body, offset))[0]
        return bits

    def _is_empty(self, node: Tree) -> bool:
        """Whether a terminal matches the empty text."""
        if isinstance(node, Name):
            known = tree.is_terminal(node.name) and node.name in self._definitions.by_name
            return known and matches_empty(self._terminals.named(node.name, node.offset))
        if isinstance(node, tree.TERMINAL):
            return matches_empty(self._terminals.of(node, node.offset))
        return False

    def _texts_of(self, names: frozenset[str]) -> tuple[int, ir.Node]:
        if names not in self._lazy_texts:
            known = self._definitions.by_name
            texts = ir.alt(*[self._shortest(known[name]) for name in sorted(names)])
            self._lazy_texts[names] = len(self._lazy_texts) + 1, texts
        return self._lazy_texts[names]

    def _beside(self, node: ir.Node, names: frozenset[str], *, is_lazy: bool = False) -> ir.Lexeme:
        """What is left of a terminal or a lazy rule where other lazy rules can begin, too."""
        more = SOME_BYTES if is_lazy else ir.Repeat(ir.ANY_BYTE)
        return ir.Lexeme(ir.And((node, ir.Not(ir.seq(self._texts_of(names)[1], more)))))

    # Right sides.

    def _lowered(self, body: Tree) -> ir.Node:
        done: dict[int, ir.Node] = {}
        todo: list[tuple[Tree, bool]] = [(body, False)]
        while todo:
            node, is_ready = todo.pop()
            if id(node) in done:
                continue
            inner = () if isinstance(node, tree.TERMINAL) else tree.children(node)
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
            return self._choice(node, inner)
        if isinstance(node, tree.Repeat):
            return ir.Repeat(inner[0], node.low, node.high)
        if isinstance(node, Name):
            return self._used(node)
        if isinstance(node, tree.When):
            self._text.fail("%if in a rule without a parameter", node.offset, "Write name::_: ... %if ...")
        if isinstance(node, tree.Both):
            self._text.fail("& stands in terminals only", node.offset, "Make it a terminal, in upper case")
        if isinstance(node, tree.Special):
            token = special_token(self._text, node)
            if isinstance(token, ir.Token):
                self._whole.refuse_in_greedy("a token by its number", node.offset)
            return ir.seq(token, self._skip)
        if isinstance(node, tree.Embedded) and node.kind != "%regex":
            return ir.seq(self._embedded(node), self._skip)
        return self._terminal(node)

    def _terminal(self, node: Terminal) -> ir.Node:
        """A terminal without a name, and what may be ignored after it."""
        rivals = self._rivals.get(id(node))
        if isinstance(node, tree.Text) and not node.folded:
            if not node.text:
                return ir.EMPTY
            if rivals is None:
                return ir.seq(self._characters(node), self._skip)
        made = self._terminals.of(node, node.offset)
        return ir.seq(self._beside(made, rivals) if rivals else ir.Lexeme(made), self._skip)

    def _characters(self, node: tree.Text) -> ir.Bytes:
        self._text.work.spend(1 + len(node.text) // 16)
        return ir.Bytes(self._text.encoded(node.text, node.offset + 1))

    def _choice(self, choice: tree.Choice, inner: list[ir.Node]) -> ir.Node:
        """Strings become one set, so that thousands of them are no more readings than one."""
        texts: dict[bytes, None] = {}
        others: list[ir.Node] = []
        for item, node in zip(choice.items, inner, strict=True):
            if isinstance(item, tree.Text) and item.text and not item.folded and id(item) not in self._rivals:
                texts[self._characters(item).data] = None
            else:
                others.append(node)
        if len(texts) < 2:
            return ir.alt(*inner)
        return ir.alt(*others, ir.seq(ir.Literals(tuple(texts)), self._skip))

    def _used(self, name: Name) -> ir.Node:
        """A rule, or a terminal with what may be ignored after it."""
        rivals = self._rivals.get(id(name))
        if rivals and name.name in self._definitions.by_name:
            return self._used_beside(name, rivals)
        self._todo.append((name.name, name.offset))
        key = self._prefix + name.name
        definition = self._definitions.by_name.get(name.name)
        if definition is None or definition.is_terminal:
            return ir.seq(ir.Ref(key), self._skip)
        return ir.Ref(key, self._capture(definition))

    def _used_beside(self, name: Name, rivals: frozenset[str]) -> ir.Node:
        definition = self._definitions.by_name[name.name]
        key = f"{self._prefix}{name.name} but {self._texts_of(rivals)[0]}"
        if key not in self._whole.rules:
            self._whole.offsets[key] = definition.offset
            if definition.is_lazy:
                self._check_options(definition)
                made = self._counted(definition, self._beside(self._shortest(definition), rivals, is_lazy=True))
            else:
                made = self._beside(self._terminals.named(name.name, name.offset), rivals)
            self._whole.rules[key] = made
        return ir.seq(ir.Ref(key, self._capture(definition)), self._skip)

    def _embedded(self, node: tree.Embedded) -> ir.Node:
        prefix = f"{self._prefix}{node.kind}@{node.offset}/"
        if node.kind == "%lark":
            self._whole.nested.append((prefix, node))
            return ir.Ref(prefix + _FIRST)
        self._whole.refuse_in_greedy("%json", node.offset)
        try:
            result = self._whole.read_schema(node.value, self._text.work)
        except NarrowsError as error:
            error.line, error.column = self._text.place(node.offset)
            raise
        self._whole.statuses += [(node.offset, pointer, status) for pointer, status in result.report.items()]
        return self._whole.embed(result.module, prefix, node.offset)
