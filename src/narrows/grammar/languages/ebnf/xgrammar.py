"""The EBNF of xgrammar 0.2 (https://xgrammar.mlc.ai/docs/defining_structures/ebnf_grammar.html).

    root ::= "{" pair ("," pair)* "}" | Regex("[a-z]+")
    pair[capture="p"] ::= key ":" [^,}\\n]{1,20}      # the start rule is `root`
    key  ::= [a-z]+
         (= ":")

A rule ends where the next one begins, or with the text: the name of a rule stands first on its line. So line breaks
mean nothing else. Look-ahead assertions `(= ...)` are hints for xgrammar's cache. They are read, and change no text.
Macros are read by macros.py.

Options of a rule: `lazy`, `max_chars` and `max_tokens` are exact if the rule is regular. `capture` names a text
(`Grammar.captures`), `temperature` is an annotation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from narrows.grammar import ir, utf8
from narrows.grammar.embed import refs_in, with_refs
from narrows.grammar.json_schema.report import Status
from narrows.grammar.languages.ebnf.macros import MACROS, Macro, Value, macro_node
from narrows.grammar.languages.reader import ANY, MAX_COUNT, PER_SYMBOL, Reader
from narrows.grammar.languages.scanner import C_ESCAPES, DIGITS, HEX, LETTERS
from narrows.grammar.languages.text import GrammarText
from narrows.grammar.utf8 import Ranges

_FIRST = LETTERS | {"_", "-", "."}
_NAME = _FIRST | DIGITS
_ESCAPES = {**C_ESCAPES, "e": 27, **{char: ord(char) for char in "'\"?\\/"}}
_CLASS_ESCAPES = {char: ord(char) for char in "^$\\.*+?()[]{}|/-"}
_BOOLEANS = ("true", "false")
_NUMBER = DIGITS | {"."}
_SOME_BYTES = ir.Repeat(ir.ANY_BYTE, 1, None)
_LAZY, _MAX_CHARS, _MAX_TOKENS, _CAPTURE = "lazy", "max_chars", "max_tokens", "capture"
_LOST = Status(
    "exact", "not reported where it stands in a rule that is lazy or has max_chars or max_tokens: that is read as one"
)
_HIDDEN_SUFFIX, _HIDDEN_STOP = "capture_hidden_suffix_bytes", "capture_hidden_stop_bytes"
_CAPTURES = (_CAPTURE, "stop_capture", _HIDDEN_SUFFIX, _HIDDEN_STOP)
_BY_ID = ("capture_hidden_body_rule_id", "capture_hidden_marker_rule_id")
_OPTIONS = {
    "max_tokens": "number",
    _MAX_CHARS: "number",
    _CAPTURE: "name",
    _LAZY: "flag",
    "temperature": "number",
    "stop_capture": "text",
    _HIDDEN_SUFFIX: "number",
    _HIDDEN_STOP: "number",
    **dict.fromkeys(_BY_ID, "number"),
}
"""Options of a rule, and what their values are. `capture` may stand without a value."""


class XgrammarReader(Reader):
    has_empty_branches = False
    most_suffixes = 1

    def __init__(self, source: GrammarText, given: Mapping[str, ir.Module] | None = None) -> None:
        super().__init__(source, given)
        self._captures: dict[str, tuple[ir.Capture, int]] = {}
        """Of rules, and where they are asked for."""

    def _default_start(self) -> str:
        return "root"

    def _module(self, start: str) -> ir.Module:
        parts = [self.rules[name] for name in self._regular]
        module = super()._module(start)
        if not self._captures:
            return module
        self._note_lost(parts)
        rules = with_refs(module.rules, self._captured)
        if start in self._captures:
            start = self.hidden_rule(ir.EMPTY, 0).name
            rules[start] = self._captured(ir.Ref(module.start))
        return ir.Module(rules, start, self.sources)

    def _captured(self, ref: ir.Ref) -> ir.Ref:
        capture, _ = self._captures.get(ref.name, (None, 0))
        return ref if capture is None else replace(ref, capture=capture)

    def _note_lost(self, parts: list[ir.Node]) -> None:
        """Says which captures stand in what is read as one terminal."""
        used = dict.fromkeys(ref.name for part in parts for ref in refs_in(part))
        todo = list(used)
        while todo:
            new = [ref.name for ref in refs_in(self.rules[todo.pop()]) if ref.name not in used]
            used.update(dict.fromkeys(new))
            todo += new
        for name in used:
            if name in self._captures:
                self._note(self._captures[name][1], _LOST)

    def _skip_space(self, *, newlines: bool) -> None:
        super()._skip_space(newlines=True)

    # Rules.

    def _rule(self) -> None:
        offset = self.pos
        name = self._name()
        if not name or name in _BOOLEANS:
            self.source.fail("expected the name of a rule", offset)
        options = self._options() if self._at("[") else {}
        self._skip_space(newlines=True)
        if not self._skip("::="):
            self.source.fail("expected ::= after the name of the rule", self.pos)
        if not self._is_first_on_line(offset):
            self.source.fail("the name of a rule stands first on its line", offset)
        self._begin(name, offset)
        node = self._right_side()
        if self._at("(="):
            self._look_ahead()
        self.rules[name] = self._with_options(node, options, name)

    def _name(self) -> str:
        return self._run(_NAME) if self.text[self.pos : self.pos + 1] in _FIRST else ""

    def _look_ahead(self) -> None:
        offset = self.pos
        self.pos += 2
        self._right_side(close=")")
        if not self._skip(")"):
            self.source.fail("missing )", offset)
        self._note(offset, Status("exact", "an annotation: a hint for xgrammar's cache"))
        self._skip_space(newlines=True)
        if self.pos < len(self.text) and not self._is_head():
            self.source.fail("a look-ahead assertion stands at the end of a rule", offset)

    def _ends(self, char: str, offset: int) -> bool:
        if char == "(":
            return self.text[offset + 1 : offset + 2] == "="
        return char == "" or (char in _FIRST and self._is_head())

    def _is_head(self) -> bool:
        """Whether a rule begins here. The place stays."""
        offset = self.pos
        if not self._name():
            return False
        if self._at("["):
            self._pass_options()
        self._skip_space(newlines=True)
        found = self._at("::=")
        self.pos = offset
        return found

    # Options.

    def _pass_options(self) -> None:
        """To the end of what would be options, if this were a rule: a bracket on the same line."""
        text, at = self.text, self.pos + 1
        in_string = False
        while at < len(text) and text[at] not in "\r\n":
            if text[at] == '"':
                in_string = not in_string
            elif text[at] == "]" and not in_string:
                self.work.spend((at - self.pos) // 8)
                self.pos = at + 1
                return
            at += 1

    def _options(self) -> dict[str, tuple[str, int]]:
        """Name -> value, and where the option stands."""
        found: dict[str, tuple[str, int]] = {}
        self.pos += 1
        while True:
            self._run_of_space()
            offset = self.pos
            name = self._run(_NAME)
            if name not in _OPTIONS:
                self.source.fail(f"unknown option {name[:64]!r}", offset, f"There are {', '.join(_OPTIONS)}")
            if name in found:
                self.source.fail(f"the option {name} is given twice", offset)
            self._run_of_space()
            value = ""
            kind = _OPTIONS[name]
            if kind != "flag" and self._skip("="):
                self._run_of_space()
                value = self._option(kind)
            elif kind not in ("flag", "name"):
                self.source.fail(f"expected = after {name}", self.pos)
            found[name] = (value, offset)
            self._run_of_space()
            if self._skip("]"):
                return found
            if not self._skip(","):
                self.source.fail("expected , or ]", self.pos)

    def _option(self, kind: str) -> str:
        offset = self.pos
        if kind == "number":
            digits = self._run(_NUMBER)
            if not digits:
                self.source.fail("expected a number", offset)
            return digits
        if not self._at('"'):
            self.source.fail("expected a string", offset)
        self._string('"')
        return self.text[offset + 1 : self.pos - 1]

    def _with_options(self, node: ir.Node, options: dict[str, tuple[str, int]], rule_name: str) -> ir.Node:
        for name, (value, offset) in options.items():
            if name == _MAX_CHARS:
                node = self._regular_rule(_bounded(node, self._most(value, offset)), offset, "max_chars")
            elif name == "temperature":
                self._note(offset, Status("exact", "an annotation: temperature changes no text"))
            elif name in _BY_ID:
                self._note(offset, Status("exact", f"not looked at: {name} is the number of a rule in xgrammar"))
        self._capture(options, rule_name)
        if _LAZY in options:  # after max_chars
            shortest = ir.And((node, ir.Not(ir.seq(node, _SOME_BYTES))))
            node = self._regular_rule(shortest, options[_LAZY][1], _LAZY)
        if _MAX_TOKENS in options:
            digits, offset = options[_MAX_TOKENS]
            most = self._most(digits, offset, _MAX_TOKENS)
            if not most:
                self.source.fail("max_tokens is at least 1", offset)
            node = self._regular_rule(node, offset, _MAX_TOKENS, min(most, ir.MOST_COUNTED))
        return node

    def _capture(self, options: dict[str, tuple[str, int]], rule: str) -> None:
        """Keeps what is reported of the text of a rule."""
        offsets = [offset for name, (_, offset) in options.items() if name in _CAPTURES]
        if not offsets:
            return
        name = (options[_CAPTURE][0] or rule) if _CAPTURE in options else None
        end_name = options["stop_capture"][0] if "stop_capture" in options else None
        capture = ir.Capture(name, end_name)
        for option, hides in ((_HIDDEN_SUFFIX, False), (_HIDDEN_STOP, True)):
            if option in options:
                count = self._most(*options[option], option)
                end = ir.Repeat(ir.ANY_BYTE, count, count)
                capture = ir.Capture(name, end_name, ir.Repeat(ir.ANY_BYTE), end, hides)
        self._captures[rule] = capture, offsets[0]

    def _most(self, digits: str, offset: int, option: str = _MAX_CHARS) -> int:
        if not digits.isdecimal() or len(digits) > 10 or int(digits) > MAX_COUNT:
            self.source.fail(f"{option} is a whole number below 2**31", offset)
        return int(digits)

    # Symbols.

    def _symbol(self, char: str, offset: int) -> ir.Node:
        if char == '"':
            return self._string(char)
        if char == "[":
            ranges = self._class()
            return self._of_class(ranges) if ranges else ir.NEVER
        name = self._name()
        if not name:
            hint = {"'": 'Strings stand between double quotes: "..."', "<": "Write a token as Token(42)"}.get(char)
            self.source.fail(f"unexpected {char!r}", offset, hint)
        if name in _BOOLEANS:
            self.source.fail(f"unexpected {name}", offset)
        if name in MACROS:
            return self._macro(name, offset)
        return self.ref(name, offset)

    def _missing_hint(self, name: str) -> str | None:
        return "Write [^] for any character" if name == "." else None

    def _empty_class(self, negate: bool, offset: int) -> Ranges:
        return utf8.ANY if negate else utf8.EMPTY

    def _escape(self, letter: str, offset: int, in_class: bool) -> int:
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if in_class and letter in _CLASS_ESCAPES:
            return _CLASS_ESCAPES[letter]
        if letter == "x":
            digits = self._run(HEX)
            if not digits:
                self.source.fail("\\x needs hexadecimal digits", offset)
            return self._scalar(int(digits, 16) if len(digits) <= 16 else utf8.LAST + 1, offset)
        if letter in ("u", "U"):
            return self._hex_escape(letter, 4 if letter == "u" else 8, offset)
        hint = "Write the characters, as in [0-9]" if letter in ("d", "D", "w", "W", "s", "S") else None
        self.source.fail(f"unknown escape \\{letter}", offset, hint)

    def _counts(self, offset: int) -> tuple[int, int | None]:
        low = self._count(offset)
        high: int | None = low
        if self._skip(","):
            self._skip_space(newlines=True)
            high = None if self._skip("-1") else self._count(offset)
            self._skip_space(newlines=True)
        if low is None or not self._skip("}"):
            self.source.fail("expected {m}, {m,} or {m,n}", offset)
        if high is not None and high < low:
            self.source.fail(f"{{{low},{high}}}: the bounds are out of order", offset)
        return low, high

    # Macros.

    def _macro(self, name: str, offset: int) -> ir.Node:
        self._skip_space(newlines=True)
        if not self._skip("("):
            self.source.fail(f"expected ( after {name}", self.pos)
        macro = Macro(name, offset)
        self._skip_space(newlines=True)
        while not (self._at(")") and not macro.arguments and not macro.named):
            self._argument(macro)
            self._skip_space(newlines=True)
            if not self._skip(","):
                break
            self._skip_space(newlines=True)
        if not self._skip(")"):
            self.source.fail(f"expected , or ) in {name}", self.pos)
        return macro_node(self, macro)

    def _argument(self, macro: Macro) -> None:
        self.work.spend(PER_SYMBOL)
        offset = self.pos
        value = self._value(in_tuple=False)
        self._skip_space(newlines=True)
        if not isinstance(value, ir.Ref) or not self._skip("="):
            macro.arguments.append((value, offset))
            return
        self._skip_space(newlines=True)
        if value.name in macro.named:
            self.source.fail(f"{value.name} is given twice", offset)
        offset = self.pos
        macro.named[value.name] = (self._value(in_tuple=False), offset)

    def _value(self, *, in_tuple: bool) -> Value:
        """A string, a number, true or false, a name (as `ir.Ref`), or a tuple of these."""
        offset = self.pos
        char = self.text[offset : offset + 1]
        if char == '"':
            node = self._string(char)
            assert isinstance(node, ir.Bytes)
            return node.data.decode()
        if char in DIGITS:
            return self._number(self._run(DIGITS), offset)
        if char == "(" and not in_tuple:
            return self._tuple(offset)
        name = self._name()
        if not name:
            self.source.fail("expected a string, a number, true, false, a name or a tuple", offset)
        return name == "true" if name in _BOOLEANS else ir.Ref(name)

    def _tuple(self, offset: int) -> tuple[Value, ...]:
        values: list[Value] = []
        self.pos += 1
        self._skip_space(newlines=True)
        while not self._skip(")"):
            self.work.spend(PER_SYMBOL)
            values.append(self._value(in_tuple=True))
            self._skip_space(newlines=True)
            if not self._skip(",") and not self._at(")"):
                self.source.fail("expected , or ) in a tuple", self.pos)
            self._skip_space(newlines=True)
        return tuple(values)


def _bounded(node: ir.Node, most: int) -> ir.Node:
    """The texts of a node of at most this many characters. A longer one only if no beginning of it that has so many is
    a text, too."""
    reached = ir.And((node, ir.Repeat(ANY, most, None)))
    return ir.And((node, ir.Not(ir.seq(reached, _SOME_BYTES))))
