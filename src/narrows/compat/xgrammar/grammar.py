"""Grammar: the texts that are allowed, before they meet a vocabulary.

Unlike xgrammar's, it is not printed as EBNF: narrows keeps no such form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from narrows.compat.xgrammar import definition as d
from narrows.compat.xgrammar.exception import CompatError, WrongTypeError, unsupported
from narrows.compat.xgrammar.schemas import options_text
from narrows.grammar.grammar import Grammar as NarrowsGrammar
from narrows.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from narrows.compat.xgrammar.tokenizer_info import TokenizerInfo


class Grammar:
    """Immutable. Made by the functions below, which raise CompatError for what cannot be enforced exactly."""

    __slots__ = ("_definition", "_grammar")

    def __init__(self, definition: d.Definition, grammar: NarrowsGrammar) -> None:
        self._definition = definition
        self._grammar = grammar

    @staticmethod
    def _of(step: d.Step, parts: Sequence[Grammar] = (), limits: Limits = DEFAULT_LIMITS) -> Grammar:
        steps = [inner for part in parts for inner in part._definition]
        return Grammar((*steps, step), d.read_step(step, [part._grammar for part in parts], limits))

    @staticmethod
    def from_ebnf(ebnf_string: str, *, root_rule_name: str = "root") -> Grammar:
        """xgrammar's EBNF (docs/grammars.md). Raises CompatError `ebnf_invalid` and `ebnf_unsupported`."""
        return Grammar._of(ebnf_step(ebnf_string, root_rule_name))

    @staticmethod
    def from_json_schema(
        schema: Any,
        *,
        any_whitespace: bool = True,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        strict_mode: bool = True,
        max_whitespace_cnt: int | None = None,
        print_converted_ebnf: bool = False,
        any_order: bool = False,
    ) -> Grammar:
        """Values of a JSON Schema: JSON text, a dict or a Pydantic model. docs/compat_xgrammar.md says what the options
        mean and which keywords narrows refuses.

        Raises InvalidJSONError, CompatError `schema_invalid`, `schema_unsupported`, `unsatisfiable`, and
        `compat_unsupported` for `indent` and `print_converted_ebnf`.
        """
        if print_converted_ebnf:
            unsupported("EBNF to print", "Leave print_converted_ebnf out")
        options = options_text(any_whitespace, indent, separators, strict_mode, max_whitespace_cnt, any_order)
        return Grammar._of(("json_schema", schema_text(schema), options))

    @staticmethod
    def from_regex(regex_string: str, *, print_converted_ebnf: bool = False) -> Grammar:
        """Texts that the whole of a JavaScript pattern matches, in which `.` is any character. Raises CompatError
        `regex_invalid` and `regex_unsupported`."""
        if print_converted_ebnf:
            unsupported("EBNF to print", "Leave print_converted_ebnf out")
        return Grammar._of(regex_step(regex_string))

    @staticmethod
    def from_lark(
        lark_string: str,
        *,
        tokenizer_info: TokenizerInfo | None = None,
        named_grammars: Mapping[str, Grammar | str] | None = None,
    ) -> Grammar:
        """A Lark grammar (docs/grammars.md). `tokenizer_info` is not needed: tokens are looked up when the grammar is
        compiled. `named_grammars`: what the text names as `@name`."""
        step, parts = lark_step(lark_string, named_grammars)
        return Grammar._of(step, parts)

    @staticmethod
    def from_structural_tag(*args: Any, **kwargs: Any) -> Grammar:
        """`from_structural_tag(structural_tag)`: a StructuralTag, a dict or JSON text. Or the older
        `from_structural_tag(tags, triggers)`.

        Raises InvalidJSONError, and InvalidStructuralTagError `structural_tag_invalid` and
        `structural_tag_unsupported`.
        """
        return Grammar._of(structural_tag_step(args, kwargs))

    @staticmethod
    def builtin_json_grammar() -> Grammar:
        """Any JSON array or object."""
        return Grammar._of(("json",))

    @staticmethod
    def concat(*grammars: Grammar) -> Grammar:
        """The grammars one after the other."""
        return _joined("concat", grammars)

    @staticmethod
    def union(*grammars: Grammar) -> Grammar:
        """Any one of the grammars."""
        return _joined("union", grammars)

    def serialize_json(self) -> str:
        """The definition as JSON, which this version of narrows reads again."""
        return d.write(self._definition)

    @staticmethod
    def deserialize_json(json_string: str) -> Grammar:
        """What `serialize_json` has written. Raises InvalidJSONError, DeserializeVersionError and
        DeserializeFormatError."""
        definition = d.from_text(json_string)
        return Grammar(definition, d.read(definition))

    def __repr__(self) -> str:
        return f"<narrows.compat.xgrammar.Grammar: {self._definition[-1][0]}>"


def _joined(kind: str, grammars: tuple[Grammar, ...]) -> Grammar:
    for grammar in grammars:
        if not isinstance(grammar, Grammar):
            raise WrongTypeError(f"a Grammar is wanted, not {type(grammar).__name__}")
    if not grammars:
        raise CompatError(f"{kind} of no grammars", code="argument_invalid", hint="Give at least one")
    return Grammar._of((kind, str(len(grammars))), grammars)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise WrongTypeError(f"{name} must be a str, not {type(value).__name__}", pointer=f"/{name}")
    return value


def ebnf_step(text: Any, root: Any) -> d.Step:
    """How a grammar of this EBNF text is made, as data."""
    return ("ebnf", _text("ebnf_string", text), _text("root_rule_name", root))


def regex_step(pattern: Any) -> d.Step:
    """How a grammar of this pattern is made, as data."""
    return ("regex", _text("regex", pattern))


def lark_step(text: Any, named: Mapping[str, Grammar | str] | None) -> tuple[d.Step, list[Grammar]]:
    """The step, and the grammars that it names in their order."""
    if named is not None and not isinstance(named, Mapping):
        raise WrongTypeError("named_grammars is a dictionary", pointer="/named_grammars")
    parts: list[Grammar] = []
    for name, part in (named or {}).items():
        _text("named_grammars", name)
        if not isinstance(part, (str, Grammar)):
            raise WrongTypeError("a named grammar is a Grammar or a Lark text", pointer="/named_grammars")
        parts.append(part if isinstance(part, Grammar) else Grammar._of(("lark", part)))
    return ("lark", _text("lark_string", text), *(named or {})), parts


def schema_text(schema: Any) -> str:
    """The JSON text of a schema."""
    if isinstance(schema, str):
        return schema
    model = getattr(schema, "model_json_schema", None)
    value = model() if isinstance(schema, type) and callable(model) else schema
    if not isinstance(value, dict):
        raise WrongTypeError("a schema is JSON text, a dict or a Pydantic model", pointer="/schema")
    return _dumped(value)


def structural_tag_step(args: tuple[Any, ...], kwargs: dict[str, Any]) -> d.Step:
    """The step of either way to call `from_structural_tag`."""
    names = ("structural_tag",) if len(args) + len(kwargs) == 1 else ("tags", "triggers")
    given = dict(zip(names, args, strict=False)) | kwargs
    if len(args) > len(names) or set(given) != set(names):
        raise WrongTypeError("give a structural tag, or tags and triggers")
    if "tags" in given:
        return ("structural_tag", _dumped(tags_and_triggers(given["tags"], given["triggers"])))
    tag = given["structural_tag"]
    if isinstance(tag, str):
        return ("structural_tag", tag)
    dump = getattr(tag, "model_dump_json", None)
    if callable(dump):
        return ("structural_tag", str(dump()))
    if not isinstance(tag, dict):
        raise WrongTypeError("a structural tag is a StructuralTag, a dict or JSON text", pointer="/structural_tag")
    return ("structural_tag", _dumped(tag))


def tags_and_triggers(tags: Any, triggers: Any) -> dict[str, Any]:
    """The older form as a structural tag. A tag has `begin`, `schema_` and `end`."""
    if not isinstance(tags, list) or not isinstance(triggers, list):
        raise WrongTypeError("tags and triggers are lists")
    items: list[dict[str, Any]] = []
    for tag in tags:
        schema = {"type": "json_schema", "json_schema": json.loads(schema_text(tag.schema_))}
        items.append({"type": "tag", "begin": tag.begin, "content": schema, "end": tag.end})
    return {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": triggers, "tags": items}}


def _dumped(value: Any) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise WrongTypeError(f"this cannot be written as JSON: {error}") from None
