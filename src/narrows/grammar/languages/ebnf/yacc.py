"""The rules of a yacc or bison grammar file.

    %token NUM ID
    %token LE "<="
    %left '+'
    %%
    expr: expr '+' term { $$ = $1 + $3; } | term ;
    term: NUM | ID | '(' expr ')' ;
    %%

Read are the tokens and their aliases, `%start`, and the rules. Code in braces is skipped, and never run. `%prec`,
`%dprec`, `%merge` and the declarations of precedence choose between readings of a text, so they change no text here.
`%nonassoc` takes texts away in yacc: that is reported as looser. An alternative with `error` is for wrong texts, so it
matches none. The text may begin with the rules, without declarations and `%%`.

The start rule is that of `%start`, or the first one.
"""

from __future__ import annotations

from collections.abc import Mapping

from narrows.errors import NarrowsError
from narrows.grammar import ir
from narrows.grammar.json_schema.report import Status
from narrows.grammar.languages.reader import PER_SYMBOL, Group, Reader
from narrows.grammar.languages.scanner import C_ESCAPES, DIGITS, HEX, LETTERS
from narrows.grammar.languages.text import GrammarText
from narrows.grammar.regex import regex_module

IGNORE = "%ignore"
"""Among the tokens: what may stand before, between and after the others."""

_FIRST = LETTERS | {"_", "."}
_NAME = _FIRST | DIGITS | {"-"}
_TOKENS = ("%token", "%term", "%left", "%right", "%nonassoc", "%precedence", "%binary")
_NOT_ASSOCIATIVE = ("%nonassoc", "%binary")
_OCTAL = frozenset("01234567")
_ERROR = "error"


class YaccReader(Reader):
    assign = ":"

    def __init__(
        self,
        source: GrammarText,
        given: Mapping[str, ir.Module] | None = None,
        tokens: Mapping[str, ir.Module | str] | None = None,
    ) -> None:
        """`tokens`: texts of named tokens, as patterns in Python's notation or as grammars."""
        super().__init__(source, given)
        self._tokens = tokens or {}
        self._start: str | None = None
        self._aliases: dict[str, tuple[str, int]] = {}
        """The name of a token -> its alias, a string, and where that stands."""
        self._named_by: dict[str, str] = {}
        """An alias -> the name of the token."""
        self._not_associative: dict[str, int] = {}
        """Tokens of `%nonassoc` -> where they stand there."""
        self._skipped: ir.Node = ir.EMPTY

    def _default_start(self) -> str:
        return self._start or super()._default_start()

    def _read(self) -> None:
        self._declarations()
        if IGNORE in self._tokens:
            self.sources[IGNORE] = "1:1"
            self._skipped = ir.Ref(IGNORE)
        self._skip_space(newlines=True)
        while self.pos < len(self.text) and not self._at("%%"):
            self._rule()
            self._skip_space(newlines=True)

    def _module(self, start: str) -> ir.Module:
        module = super()._module(start)
        if self._skipped == ir.EMPTY:
            return module
        first = self.hidden_rule(ir.seq(self._skipped, ir.Ref(start)), 0)
        self.rules[IGNORE] = ir.Repeat(self._of_token(IGNORE, 0))
        return ir.Module(self.rules, first.name, self.sources)

    # Declarations.

    def _declarations(self) -> None:
        """To the first rule."""
        while True:
            self.work.spend(PER_SYMBOL)
            self._skip_space(newlines=True)
            offset = self.pos
            if self._skip("%%"):
                return
            if self._at("%{"):
                self._pass_to("%}", offset)
            elif self._skip("%"):
                name = "%" + self._run(_NAME)
                if name == "%":
                    self.source.fail("expected a declaration", offset)
                self._declaration(name)
            elif self._skip(";"):
                continue
            elif self.pos >= len(self.text) or self._is_head():
                return
            else:
                self.source.fail("expected a declaration, %% or a rule", offset)

    def _declaration(self, name: str) -> None:
        """What stands after it, to the next one or a rule."""
        token = ""
        while True:
            self.work.spend(PER_SYMBOL)
            self._skip_space(newlines=True)
            offset = self.pos
            char = self.text[offset : offset + 1]
            if char in ("", "%", ";") or (char in _FIRST and self._is_head()):
                return
            if char == "{":
                self._pass_code()
            elif char == "<":
                self._pass_to(">", offset)
            elif char in ('"', "'"):
                text = self._quoted(char)
                if name in _NOT_ASSOCIATIVE:
                    self._not_associative[self.text[offset : self.pos]] = offset
                if char == '"' and token and name in _TOKENS:
                    self._aliases[token] = (text, offset)
                    self._named_by[text] = token
            elif char in _FIRST:
                token = self._run(_NAME)
                if name == "%start" and self._start is None:
                    self._start, self._start_place = token, offset
                if name in _NOT_ASSOCIATIVE:
                    self._not_associative[token] = offset
            elif not self._run(_NAME):
                if name in _TOKENS:
                    self.source.fail(f"unexpected {char!r} in {name}", offset)
                self.pos += 1

    # Rules.

    def _rule(self) -> None:
        self.work.spend(PER_SYMBOL)
        offset = self.pos
        name = self._name()
        if not name:
            self.source.fail("expected the name of a rule, or %%", offset)
        self._pass_reference()
        if not self._skip(":"):
            self.source.fail("expected : after the name of the rule", self.pos)
        if name in self.rules:
            self.source.fail(f"the rule {name!r} is defined twice", offset, f"First at {self.sources[name]}")
        self._begin(name, offset)
        self.rules[name] = self._right_side()
        self._skip(";")

    def _name(self) -> str:
        return self._run(_NAME) if self.text[self.pos : self.pos + 1] in _FIRST else ""

    def _pass_reference(self) -> None:
        """`[name]`, which code uses for what stands before it; and the space after it."""
        self._skip_space(newlines=True)
        if self._at("["):
            self._pass_to("]", self.pos)
            self._skip_space(newlines=True)

    def _is_head(self) -> bool:
        """Whether a rule begins here. The place stays."""
        offset = self.pos
        if not self._name():
            return False
        self._pass_reference()
        found = self._at(":")
        self.pos = offset
        return found

    def _ends(self, char: str, offset: int) -> bool:
        return char in ("", ";") or (char in _FIRST and self._is_head()) or self._at("%%")

    def _right_side(self, close: str = "") -> ir.Node:
        group = Group(self.pos)
        while True:
            self.work.spend(PER_SYMBOL)
            self._skip_space(newlines=True)
            offset = self.pos
            char = self.text[offset : offset + 1]
            if self._ends(char, offset):
                return group.node()
            if char == "|":
                self.pos += 1
                group.next_branch()
            elif char == "{":
                self._pass_code()
                self._pass_reference()
            elif char == "%":
                self._directive(offset)
            elif char == "<":  # the type of the code that follows
                self._pass_to(">", offset)
            else:
                group.add(self._symbol(char, offset))
                self._pass_reference()

    def _directive(self, offset: int) -> None:
        self.pos += 1
        name = "%" + self._run(_NAME)
        self._skip_space(newlines=True)
        if name == "%empty":
            return
        if name == "%prec":
            if not self._run(_NAME) and self.text[self.pos : self.pos + 1] in ("'", '"'):
                self._quoted(self.text[self.pos])
        elif name == "%dprec" or name == "%expect" or name == "%expect-rr":
            self._run(DIGITS)
        elif name == "%merge":
            self._pass_to(">", self.pos)
        elif name == "%" and self._skip("?"):
            self.source.unsupported("a predicate %?{...}: narrows runs no code", offset)
        else:
            self.source.fail(f"unexpected {name[:64]}", offset)

    # Symbols.

    def _symbol(self, char: str, offset: int) -> ir.Node:
        if char == "'":
            return self._literal(self._quoted(char), offset)
        if char == '"':
            text = self._quoted(char)
            name = self._named_by.get(text, "")
            self._note_associativity(name, offset)
            return self.ref(name, offset) if name in self._tokens else self._literal(text, offset)
        name = self._name()
        if not name:
            self.source.fail(f"unexpected {char!r}", offset)
        self._note_associativity(name, offset)
        return self.ref(name, offset)

    def _literal(self, text: str, offset: int) -> ir.Node:
        self._note_associativity(self.text[offset : self.pos], offset)
        return ir.seq(ir.Bytes(text.encode()), self._skipped)

    def _note_associativity(self, token: str, offset: int) -> None:
        place = self._not_associative.get(token)
        if place is not None:
            self._note(
                place, Status("over", "yacc may refuse to chain operators of %nonassoc; here they may be chained")
            )

    def _missing(self, name: str, offset: int) -> None:
        self.sources[name] = self.source.source(offset)
        if name in self._tokens:
            self.rules[name] = ir.seq(self._of_token(name, offset), self._skipped)
        elif name in self._aliases:
            text, place = self._aliases[name]
            self._note(place, Status("exact", f"the text of {name} is its alias"))
            self.rules[name] = ir.seq(ir.Bytes(text.encode()), self._skipped)
        elif name in self._given:
            self.rules[name] = ir.seq(self._embed(name, self._given[name]), self._skipped)
        elif name == _ERROR:
            self._note(offset, Status("exact", "error stands for wrong texts, and matches none"))
            self.rules[name] = ir.NEVER
        else:
            hint = f'If it is a token, give its texts: tokens={{"{name[:64]}": "[0-9]+"}}'
            self.source.fail(f"{name!r} is neither a rule nor a token that has a text", offset, hint)

    def _of_token(self, name: str, offset: int) -> ir.Node:
        given = self._tokens[name]
        if not isinstance(given, str):
            return self._embed(name, given)
        try:
            return regex_module(given, "python", self.work).rules["root"]
        except NarrowsError as error:
            error.pointer = f"/tokens/{name[:64]}"
            raise

    # The text.

    def _skip_space(self, *, newlines: bool) -> None:
        while True:
            self._skip_comments("/*", "*/")
            if not self._at("//"):
                return
            end = self.text.find("\n", self.pos)
            end = len(self.text) if end < 0 else end
            self.work.spend(1 + (end - self.pos) // 64)
            self.pos = end

    def _pass_to(self, mark: str, offset: int) -> None:
        end = self.text.find(mark, self.pos)
        if end < 0:
            self.source.fail(f"missing {mark}", offset)
        self.work.spend(1 + (end - self.pos) // 64)
        self.pos = end + len(mark)

    def _pass_code(self) -> None:
        """Code in braces, which may have braces in strings, characters and comments."""
        text, offset = self.text, self.pos
        depth, at = 0, offset
        while True:
            char = text[at : at + 1]
            if char == "":
                self.source.fail("missing } at the end of code", offset)
            if char in ('"', "'"):
                at = self._end_of_quoted(at)
                continue
            if text.startswith("/*", at) or text.startswith("//", at):
                end = text.find("\n" if text[at + 1] == "/" else "*/", at + 2)
                at = len(text) if end < 0 else end
                continue
            depth += (char == "{") - (char == "}")
            at += 1
            if not depth:
                break
        self.work.spend(1 + (at - offset) // 8)
        self.pos = at

    def _end_of_quoted(self, at: int) -> int:
        """After the quote that ends what begins here, or the end of the line."""
        text, quote = self.text, self.text[at]
        at += 1
        while at < len(text) and text[at] not in (quote, "\n"):
            at += 2 if text[at] == "\\" else 1
        return at + 1

    def _quoted(self, quote: str) -> str:
        """'x' or "text", with the escapes of C."""
        offset = self.pos
        node = self._string(quote)
        assert isinstance(node, ir.Bytes)
        text = node.data.decode()
        if quote == "'" and len(text) != 1:
            self.source.fail("a literal in single quotes is one character", offset, 'Write "..." for several')
        return text

    def _escape(self, letter: str, offset: int, in_class: bool) -> int:
        if letter in _OCTAL:
            self.pos -= 1
            digits = ""
            while len(digits) < 3 and self.text[self.pos : self.pos + 1] in _OCTAL:
                digits += self.text[self.pos]
                self.pos += 1
            return int(digits, 8)
        if letter == "x":
            digits = self._run(HEX)
            if not digits or len(digits) > 8:
                self.source.fail("\\x needs hexadecimal digits", offset)
            return self._scalar(int(digits, 16), offset)
        if letter in C_ESCAPES:
            return C_ESCAPES[letter]
        return super()._escape(letter, offset, in_class)
