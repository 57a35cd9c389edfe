"""A grammar: the texts that are allowed, independent of any vocabulary.

There is a constructor for each language (narrows.grammar.languages). A front end reads a source into the rules of
narrows.grammar.ir. It refuses a source that these rules cannot express exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from narrows.arguments import FLAG, INTEGER, ITERABLE, MAPPING, TEXT, Kind, integer, of, optional, wants
from narrows.errors import InputError
from narrows.grammar import compose, ir
from narrows.grammar.captures import Capture, Step, captures_of
from narrows.grammar.free_text import switching_module
from narrows.grammar.json_schema.python_types import schema_of
from narrows.grammar.languages import LANGUAGES, FrontEnd, front_end
from narrows.grammar.options import (
    Additional,
    Dialect,
    Escapes,
    KeyOrder,
    Lexer,
    Notation,
    OnUnsupported,
    SubstringUnit,
    Whitespace,
)
from narrows.grammar.work import Work
from narrows.limits import DEFAULT_LIMITS, LIMITS, Limits

_NOTHING: Mapping[str, Any] = {}


class Compiled(Protocol):
    """A pattern that `re` has compiled."""

    @property
    def pattern(self) -> str: ...
    @property
    def flags(self) -> int: ...


class Grammar:
    """The texts that are allowed, independent of any vocabulary. Made by a constructor for each language, and compiled
    for a vocabulary by `Vocabulary.compile`.

    Immutable. `report` says how exactly each keyword of a schema is enforced, by its JSON pointer. For languages
    that are texts, such as Lark, it has what is to be said at a line and column, and is mostly empty. `module` is the
    intermediate form."""

    __slots__ = ("_module", "_report", "_schema", "_work")

    def __init__(self, module: ir.Module, report: Mapping[str, Any] | None = None, work: int = 0) -> None:
        wants(of("a narrows.grammar.ir.Module", ir.Module), module=module)
        wants(optional(MAPPING), report=report)
        wants(INTEGER, work=work)
        self._module = module
        self._work = work
        self._report = dict(report or {})
        self._schema: tuple[Any, Mapping[str, Any]] | None = None

    @property
    def module(self) -> ir.Module:
        """The rules, as narrows.grammar.ir."""
        return self._module

    @property
    def report(self) -> dict[str, Any]:
        """JSON pointer -> status (`exact`, `over`, `under`, `ignored`) with its reason."""
        return dict(self._report)

    @property
    def schema(self) -> tuple[Any, Mapping[str, Any]] | None:
        """The JSON Schema that it was made from, as it was given, and the options. None for other grammars, and for
        those that were put together from several."""
        return self._schema

    @property
    def work(self) -> int:
        """The units of `Limits.reading_work` that reading took. `Vocabulary.compile` adds to them."""
        return self._work

    def captures(self, text: str | bytes, *, limits: Limits = DEFAULT_LIMITS) -> list[Capture]:
        """What rules capture in a text: those with `name[capture]: ...` in Lark, and the same in xgrammar's EBNF.

        text: a whole text of the grammar. Special tokens stand in it by their names.

        Each `Capture` has its `name`, its `span` in bytes of the text in UTF-8, and its `data` and `text`. They come in
        the order in which they begin; of two that begin together, the outer one first. A name comes as often as its
        rule is read. What may be ignored between terminals (`%ignore`) is not at the ends of a capture.

        If there are several readings of the text, one is chosen. Terminals take as much as they can, if the text can be
        read so. Then, in each rule, from the left: the first alternative that leads to its end, a repetition or an
        optional part wherever it can be, and of each rule the longest text with which the rest can be read.

        Cost: some 10 us for each byte, and a few milliseconds. Ambiguous and right-recursive grammars take more. Raises
        InputError `text_not_matched`, UnsupportedError `captures_unsupported` for a grammar that names tokens by
        number, and LimitError `capture_work`.
        """
        wants(_TEXT_OR_BYTES, text=text)
        wants(LIMITS, limits=limits)
        return captures_of(self._module, [Step(_bytes_of(text))], limits)

    @classmethod
    def from_language(cls, language: str, source: Any, *, limits: Limits = DEFAULT_LIMITS, **options: str) -> Grammar:
        """The grammar of `source`, in a language of `narrows.grammar.languages`: "json" (JSON Schema), "regex",
        "choice", "grammar" (GBNF, or Lark), "lark", "ebnf", "structural_tag", "substring".

        The options and the errors are those of the language's own constructor. Also raises InputError with code
        `language_unknown` or `invalid_option`.
        """
        front = front_end(language)
        front.check_options(options)
        wants(front.takes, source=source)
        return cls._read(front, source, limits, **options)

    @classmethod
    def from_json_schema(
        cls,
        schema: Any,
        whitespace: Whitespace = "bounded",
        key_order: KeyOrder = "declared",
        escapes: Escapes = "all",
        on_unsupported: OnUnsupported = "error",
        additional: Additional = "standard",
        resources: Mapping[str, Mapping[str, Any] | bool | str] | None = None,
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Grammar:
        """JSON texts whose value the schema allows; docs/json_schema.md lists the keywords.

        schema: a mapping, a boolean, or JSON text. Or a Python type that Pydantic knows, such as a model, a dataclass
        or `list[int]`: then its schema.

        whitespace: "bounded" allows at most one newline and 64 spaces and tabs at each place, "any" any number of
        them, "compact" none. "json.dumps" is one space after each comma and colon.

        key_order: "declared" writes keys in the order of `properties`, "any" in every order.

        escapes: "all" allows every way to write a character of a string, "minimal" an escape only where one is needed.

        on_unsupported: what to do about a keyword that cannot be enforced exactly. "error" refuses it. "warn" (a
        Python warning) and "ignore" leave it out. `report` names it.

        additional: it applies to `properties` without `additionalProperties`. "standard" allows any further key.
        "declared" allows only the keys that the schema names, and the report says `under` for that `properties`.

        resources: other schemas to which this one may refer, by their absolute URIs. Nothing is ever fetched.

        Raises UnsupportedError with the JSON pointer of a keyword that is not enforced, GrammarError `schema_invalid`
        and `unsatisfiable`, InputError, and LimitError (`reading_work`, `schema_bytes`, `schema_depth`,
        `schema_places`, `schema_branches`, `number_digits`). Cost: linear in most schemas, some 50 us for each
        sub-schema. Nothing is compiled yet.
        """
        wants(optional(MAPPING), resources=resources)
        return cls._read(
            LANGUAGES["json"],
            schema_of(schema),
            limits,
            {"resources": resources} if resources else {},
            whitespace=whitespace,
            key_order=key_order,
            escapes=escapes,
            on_unsupported=on_unsupported,
            additional=additional,
        )

    @classmethod
    def from_regex(
        cls, pattern: str | Compiled, dialect: Dialect = "python", *, limits: Limits = DEFAULT_LIMITS
    ) -> Grammar:
        """Texts that the pattern matches as a whole. A compiled pattern of `re` brings its flags.

        dialect: "python" as in `re`, "ecma" as in JavaScript and JSON Schema, "rust" as in Rust's crate `regex`.

        Raises GrammarError for a pattern that cannot be read, UnsupportedError for a part that no automaton can
        enforce (a back-reference), each with its offset, and LimitError (`regex_bytes`, `nesting`, `reading_work`).
        Cost: linear in the pattern.
        """
        wants(_PATTERN, pattern=pattern)
        return cls._read(LANGUAGES["regex"], _with_flags(pattern), limits, dialect=dialect)

    @classmethod
    def from_gbnf(
        cls, text: str, rules: Mapping[str, Grammar] | None = None, *, limits: Limits = DEFAULT_LIMITS
    ) -> Grammar:
        """llama.cpp's GBNF, or plain BNF with `<name> ::=`; the text starts at rule `root`.

        rules: other grammars that are parts of this one, by the names that the text uses and does not define.

        Raises GrammarError with line and column, and LimitError (`grammar_bytes`, `nesting`, `reading_work`). Cost:
        linear in the text.
        """
        wants(TEXT, text=text)
        return cls._read(LANGUAGES["grammar"], text, limits, {"rules": _modules(rules), "gbnf_only": True})

    @classmethod
    def from_ebnf(
        cls,
        text: str,
        notation: Notation = "xgrammar",
        start: str | None = None,
        tokens: Mapping[str, Grammar | str] | None = None,
        rules: Mapping[str, Grammar] | None = None,
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Grammar:
        """A grammar in a notation of EBNF (docs/grammars.md): "xgrammar", "w3c" (XML 1.0), "iso" (ISO 14977), "bnf", or
        "yacc" (the rules of a yacc or bison file).

        start: the rule that the text starts at. If it is not given, that is `root` for "xgrammar", `root` or the first
        rule for "bnf", `%start` or the first rule for "yacc", and the first rule for the others.

        tokens: for "yacc", the texts of named tokens: a regular expression (Python's) or a grammar for each. The name
        "%ignore" stands for what may come before, between and after tokens.

        rules: other grammars that are parts of this one, by the names that the text uses and does not define.

        `report` says at "line:column" what is an annotation, and what is looser than the tool that reads the notation.

        Raises GrammarError `ebnf_invalid` and UnsupportedError `ebnf_unsupported` with line and column, InputError
        `invalid_option`, and LimitError (`grammar_bytes`, `nesting`, `reading_work`). Cost: linear in the text.
        """
        wants(TEXT, text=text)
        wants(optional(TEXT), start=start)
        more: dict[str, Any] = {"tokens": _tokens(tokens), "rules": _modules(rules)}
        if start is not None:
            more["start"] = start
        return cls._read(LANGUAGES["ebnf"], text, limits, more, notation=notation)

    @classmethod
    def from_lark(
        cls,
        text: str,
        start: str = "start",
        rules: Mapping[str, Grammar] | None = None,
        lexer: Lexer = "all",
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Grammar:
        """A Lark grammar, with llguidance's additions (docs/grammars.md). The text starts at the rule `start`.

        rules: other grammars that are parts of this one. The text names them as `@name`, or as `name` if it does not
        define that name itself.

        lexer: "all" or "greedy". With "all", the language is that of all readings: any way to cut a text into terminals
        counts. Only lazy rules go first. With "greedy", the text is cut as llguidance does: a terminal goes on as long
        as any terminal that may stand at its place does. If several end there, all of them count. So `ifx` is never
        `if` and `x`. With "greedy", a text may come to a place from which it cannot be completed.

        `report` says what it has at "line:column": what is an annotation, what looks around beyond its terminal (`over`
        or `under`), and the keywords of schemas.

        Raises GrammarError and UnsupportedError with line and column, InputError `invalid_option`, and LimitError
        (`grammar_bytes`, `nesting`, `reading_work`). Cost: linear in the text.
        """
        wants(TEXT, text=text)
        modules = _modules(rules)
        return cls._read(
            LANGUAGES["lark"], text, limits, {"rules": modules} if modules else {}, start=start, lexer=lexer
        )

    @classmethod
    def from_structural_tag(
        cls,
        tag: Mapping[str, Any] | str,
        whitespace: Whitespace = "bounded",
        escapes: Escapes = "all",
        on_unsupported: OnUnsupported = "error",
        additional: Additional = "standard",
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Grammar:
        """xgrammar's structural tag, in both of its forms: free text, schemas, tags and triggers. A mapping or JSON
        text; narrows/grammar/languages/structural_tag says what it means.

        The options are those of `from_json_schema`, for the schemas in the tag. `report` has their keywords, by
        pointers into the tag.

        Raises GrammarError `structural_tag_invalid`, UnsupportedError `structural_tag_unsupported`, and the errors of
        the schemas, grammars and patterns in it, each with the JSON pointer.
        """
        front = LANGUAGES["structural_tag"]
        wants(front.takes, tag=tag)
        return cls._read(
            front,
            tag,
            limits,
            whitespace=whitespace,
            escapes=escapes,
            on_unsupported=on_unsupported,
            additional=additional,
        )

    @classmethod
    def free_text(
        cls,
        switches: Mapping[str, Grammar],
        *,
        excludes: Sequence[str] = (),
        at_least_one: bool = False,
        stop_after_first: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Grammar:
        """Free text that switches into a grammar where its trigger is written, and back to text after it.

        switches: trigger -> the grammar of what follows it. Without any, text alone.
        excludes: strings that the free text does not hold.
        at_least_one: some trigger is written. stop_after_first: the text ends after the first grammar.

            narrows.Grammar.free_text({"<call>": narrows.Grammar.from_regex("[a-z]+</call>")})

        A trigger in free text always switches. Its beginning alone is text. Parts of a trigger that name special tokens
        are those tokens if the vocabulary has them. llama.cpp's lazy grammars are like `stop_after_first`, but for the
        trigger, which is part of the grammar there.

        Raises InputError `wrong_type`, code `trigger_invalid` for an empty trigger or excluded string, and LimitError
        (`reading_work`). Cost: linear in the grammars.
        """
        wants(LIMITS, limits=limits)
        wants(MAPPING, switches=switches)
        wants(ITERABLE, excludes=excludes)
        wants(FLAG, at_least_one=at_least_one, stop_after_first=stop_after_first)
        for trigger, grammar in switches.items():
            wants(TEXT, trigger=trigger)
            wants(of("a mapping of grammars", Grammar), switches=grammar)
        work = Work(limits, sum(grammar.work for grammar in switches.values()))
        module, report = switching_module(
            {trigger: (grammar.module, grammar.report) for trigger, grammar in switches.items()},
            list(excludes),
            work,
            at_least_one=at_least_one,
            stop_after_first=stop_after_first,
        )
        return cls(module, report, work.spent)

    @classmethod
    def choice(cls, strings: Sequence[str], *, limits: Limits = DEFAULT_LIMITS) -> Grammar:
        """Exactly one of the strings.

        Raises InputError `choice_invalid` for an empty list or an item that is no str, and LimitError
        (`grammar_bytes`). Cost: linear in the strings; thousands of them are one automaton.
        """
        return cls._read(LANGUAGES["choice"], strings, limits)

    @classmethod
    def concat(cls, *parts: Grammar | str) -> Grammar:
        """The parts one after the other; a str stands for exactly this text. Also `a + b`.

        `report` has the pointers of each part after its index: "/0/properties/a".
        """
        return cls._joined(parts, ir.seq)

    @classmethod
    def union(cls, *parts: Grammar | str) -> Grammar:
        """Any one of the parts; a str stands for exactly this text. Also `a | b`. `report`: as in `concat`.

        Raises InputError (`union_empty`) without any part.
        """
        if not parts:
            raise InputError("a union of no grammars has no text", code="union_empty")
        return cls._joined(parts, ir.alt)

    def repeat(self, min: int = 0, max: int | None = None, separator: Grammar | str | None = None) -> Grammar:
        """This grammar `min` to `max` times in a row (None: without end), with `separator` between each two.

        Raises InputError (`repeat_invalid`) for bounds that are out of order.
        """
        wants(optional(INTEGER), max=max)
        wants(optional(_PART), separator=separator)
        between = separator if separator is None else _part(separator)
        module, report = compose.repeated(_of(self), integer("min", min), max, between)
        return Grammar(module, report, self._work + (separator._work if isinstance(separator, Grammar) else 0))

    def __add__(self, other: Grammar | str) -> Grammar:
        return Grammar.concat(self, other) if _PART.fits(other) else NotImplemented

    def __radd__(self, other: str) -> Grammar:
        return Grammar.concat(other, self) if _PART.fits(other) else NotImplemented

    def __or__(self, other: Grammar | str) -> Grammar:
        return Grammar.union(self, other) if _PART.fits(other) else NotImplemented

    def __ror__(self, other: str) -> Grammar:
        return Grammar.union(other, self) if _PART.fits(other) else NotImplemented

    @classmethod
    def _joined(cls, parts: tuple[Grammar | str, ...], how: Callable[..., ir.Node]) -> Grammar:
        wants(_PART, **{str(index): part for index, part in enumerate(parts)})
        module, report = compose.joined([_part(part) for part in parts], how)
        return cls(module, report, sum(part._work for part in parts if isinstance(part, Grammar)))

    @classmethod
    def substring(
        cls, text: str | Iterable[str], unit: SubstringUnit = "characters", *, limits: Limits = DEFAULT_LIMITS
    ) -> Grammar:
        """A part of the text, or the empty text: a quotation that cannot be invented. Texts of some megabytes are fine.

        unit: "characters" allows any run of characters. "words" cuts the text into words, white space, and the runs
        between them; a quotation is some of these in a row. "lines" allows whole lines in a row, where the break of the
        last line may be left out.

        text: instead of a str, a list of str is a text that has been cut already. A quotation is some of its items in a
        row. `unit` stays as it is.

        Raises InputError (`substring_invalid`, `invalid_option`) and LimitError (`grammar_bytes`).
        """
        front = LANGUAGES["substring"]
        wants(front.takes, text=text)
        return cls._read(front, text, limits, unit=unit)

    @classmethod
    def _read(
        cls, front: FrontEnd, source: Any, limits: Limits, more: Mapping[str, Any] = _NOTHING, /, **options: str
    ) -> Grammar:
        """`more`: options that are not text, and already checked."""
        wants(TEXT, **options)
        wants(LIMITS, limits=limits)
        work = Work(limits)
        module, report = front.read(source, work, **options, **more)
        grammar = cls(module, report, work.spent)
        if front is LANGUAGES["json"]:
            grammar._schema = source, {**options, **more}
        return grammar

    def __repr__(self) -> str:
        return f"<narrows.Grammar of {len(self._module.rules)} rules>"


_PATTERN = Kind(
    "a str, or a pattern of `re` for a str",
    lambda value: isinstance(getattr(value, "pattern", value), str) and isinstance(getattr(value, "flags", 0), int),
)
_FLAGS = {"i": 2, "m": 8, "s": 16, "x": 64, "a": 256}
"""Those of `re` that a pattern can begin with."""


def _with_flags(pattern: str | Compiled) -> str:
    """The text of a pattern, with the flags that it was compiled with."""
    if isinstance(pattern, str):
        return pattern
    flags = "".join([letter for letter, bit in _FLAGS.items() if pattern.flags & bit])
    return f"(?{flags}){pattern.pattern}" if flags else pattern.pattern


_TEXT_OR_BYTES = of("a str or bytes", str, bytes)
_PART = of("a narrows.Grammar or a str", Grammar, str)


def _bytes_of(text: str | bytes) -> bytes:
    if isinstance(text, bytes):
        return text
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"character {error.start} is a lone surrogate, which is not a character",
            code="text_invalid",
            pointer="/text",
        ) from None


def _of(grammar: Grammar) -> compose.Part:
    return grammar._module, grammar._report


def _part(part: Grammar | str) -> compose.Part | str:
    return part if isinstance(part, str) else _of(part)


def _modules(rules: Mapping[str, Grammar] | None) -> dict[str, ir.Module]:
    wants(optional(MAPPING), rules=rules)
    for name, grammar in (rules or {}).items():
        if not isinstance(name, str) or not isinstance(grammar, Grammar):
            raise InputError(
                "rules is a mapping of names to grammars", code="wrong_type", pointer=f"/rules/{str(name)[:64]}"
            )
    return {name: grammar.module for name, grammar in (rules or {}).items()}


def _tokens(tokens: Mapping[str, Grammar | str] | None) -> dict[str, ir.Module | str]:
    wants(optional(MAPPING), tokens=tokens)
    for name, text in (tokens or {}).items():
        if not isinstance(name, str) or not isinstance(text, (Grammar, str)):
            raise InputError(
                "tokens is a mapping of names to grammars or regular expressions",
                code="wrong_type",
                pointer=f"/tokens/{str(name)[:64]}",
            )
    return {name: text.module if isinstance(text, Grammar) else text for name, text in (tokens or {}).items()}
