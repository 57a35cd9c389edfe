"""`StructTag`: calls of functions in running text, as a Lark grammar."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from narrows.compat.llguidance import misuse
from narrows.errors import InputError


class StructTag:
    """trigger: the text or special token that begins a call, such as `<function`. begin: the whole beginning, which
    starts with the trigger, such as `<function=foo>`. grammar: of the arguments: a JSON Schema as a dict or as text,
    or a Lark grammar with a rule `start`. end: what follows them.
    """

    def __init__(self, *, trigger: str, begin: str, grammar: str | Mapping[str, Any], end: str) -> None:
        self.trigger = trigger
        self.begin = begin
        self.grammar = grammar
        self.end = end
        self._validate()

    def _validate(self) -> None:
        assert self.trigger, "trigger must not be empty"
        assert self.begin.startswith(self.trigger), "begin must start with trigger"

    @staticmethod
    def to_grammar(tags: Sequence[StructTag], *, assume_special: bool = True, text_regex: str = r"(.|\n)*") -> str:
        """Text in which calls may stand. assume_special: a trigger of the form `<...>` is a special token.
        text_regex: what the text between calls may be.

        A tag's grammar may also be what `LLMatcher.grammar_from_*` returns, JSON that begins with `{"grammars"`.
        llguidance takes that for a schema, which allows any JSON; here it is the grammar that it is.
        """
        assert tags, "tags must not be empty"
        assert "/" not in text_regex, "text_regex must not contain /"
        parts: list[dict[str, Any]] = []
        rules = []
        for index, tag in enumerate(tags):
            assert isinstance(tag, StructTag), "tags must be StructTag instances"
            tag._validate()
            rules.append(_rule(f"tag_{index}", tag, assume_special, parts))
        names = " | ".join([f"tag_{index}" for index in range(len(tags))])
        head = f"%llguidance {{}}\nstart: ({names})* tag_end\ntag_end: TAG_TEXT\nTAG_TEXT: /{text_regex}/\n"
        text = "\n".join([head, *rules])
        if not parts:
            return text
        return json.dumps({"grammars": [{"name": "struct_tag", "lark_grammar": text}, *parts]})


def _rule(name: str, tag: StructTag, assume_special: bool, parts: list[dict[str, Any]]) -> str:
    rest, inner = _quoted(tag.begin[len(tag.trigger) :]), _inner(name, tag.grammar, parts)
    body = " ".join([piece for piece in (rest, inner, _quoted(tag.end)) if piece])
    if assume_special and tag.trigger.startswith("<") and tag.trigger.endswith(">"):
        return f"{name}: TAG_TEXT {tag.trigger} {body}\n"
    return f"{name}_trig[lazy]: TAG_TEXT {_quoted(tag.trigger)}\n{name}: {name}_trig {body}\n"


def _inner(name: str, grammar: object, parts: list[dict[str, Any]]) -> str:
    """What stands for the arguments. Grammars that are not written into the text are added to `parts`."""
    if isinstance(grammar, Mapping):
        return f"%json {json.dumps(dict(grammar))}"
    if not isinstance(grammar, str):
        raise InputError("grammar must be a string or a dictionary", code="wrong_type", pointer="/grammar")
    if not grammar.lstrip().startswith("{"):
        parts.append({"name": f"{name}_grm", "lark_grammar": grammar})
        return f"@{name}_grm"
    listed = _listed(grammar)
    if listed is None:
        return f"%json {grammar}"
    if len(listed) != 1 or not isinstance(listed[0], dict):
        raise InputError("the grammar of a tag is one grammar, not a list", code="grammar_unsupported")
    parts.append({**listed[0], "name": f"{name}_grm"})
    return f"@{name}_grm"


def _listed(text: str) -> list[Any] | None:
    """The list of a text of grammars; None for a schema."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    grammars = value.get("grammars")
    return grammars if isinstance(grammars, list) and grammars else None


def _quoted(text: str) -> str:
    if not isinstance(text, str):
        raise misuse.wrong_type("begin and end", "a str", text)
    return json.dumps(text, ensure_ascii=False) if text else ""
