"""The fields of each kind of format in a structural tag, and the check of one JSON object against them.

Names, types and defaults are those of xgrammar 0.2.8 (`xgrammar/structural_tag.py`). A field that is not known is
refused, because it could hold something that would not be enforced.

Cost: some 2 us per field. Nothing recurses: an object's formats are checked when the reader comes to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from narrows.arguments import quoted
from narrows.errors import GrammarError, UnsupportedError
from narrows.grammar.json_schema.document import escape, kind_of
from narrows.grammar.near_miss import NearMisses
from narrows.grammar.work import Work

MOST = 2**31 - 1
"""The largest count and the largest token id."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a field's value must be."""

    says: str
    fits: Callable[[Any], bool]


def _is_count(value: Any, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= MOST


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_token(value: Any) -> bool:
    return _is_text(value) or _is_count(value)


def _is_list(value: Any, fits: Callable[[Any], bool], least: int = 0) -> bool:
    return isinstance(value, (list, tuple)) and len(value) >= least and all(map(fits, value))


def _is_pair(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


STRING = Kind("a string", lambda value: isinstance(value, str))
SOME_TEXT = Kind("a string that is not empty", _is_text)
TEXTS = Kind("a list of strings, none of them empty", lambda value: _is_list(value, _is_text))
SOME_TEXTS = Kind("a list of strings, at least one and none of them empty", lambda value: _is_list(value, _is_text, 1))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
COUNT = Kind(f"an integer from 0 to {MOST}", _is_count)
BOUND = Kind(f"null, or an integer from 0 to {MOST}", lambda value: value is None or _is_count(value))
COUNT_OR_NONE = Kind(f"-1 for no bound, or an integer from 0 to {MOST}", lambda value: _is_count(value, -1))
FORMAT = Kind("a format, which is an object", _is_object)
FORMATS = Kind("a list of formats, at least one", lambda value: _is_list(value, _is_object, 1))
SCHEMA = Kind("a JSON Schema: an object, true or false", lambda value: isinstance(value, (Mapping, bool)))
SCHEMA_OR_TEXT = Kind(
    "a JSON Schema: an object, true or false, or its JSON text", lambda value: isinstance(value, (Mapping, bool, str))
)
TOKEN = Kind("a token's id or name", _is_token)
TOKENS = Kind("a list of token ids and names", lambda value: _is_list(value, _is_token))
SOME_TOKENS = Kind("a list of token ids and names, at least one", lambda value: _is_list(value, _is_token, 1))
RULES = Kind("a list of pairs, at least one", lambda value: _is_list(value, _is_pair, 1))
BEGIN = Kind("a string or a token format", lambda value: isinstance(value, (str, Mapping)))
END = Kind(
    "a string, a list of strings or a token format",
    lambda value: isinstance(value, (str, Mapping)) or _is_list(value, lambda item: isinstance(item, str), 1),
)


@dataclass(frozen=True, slots=True)
class Field:
    kind: Kind
    default: Any = None
    required: bool = True


def _may(kind: Kind, default: Any) -> Field:
    return Field(kind, default, required=False)


_AT_LEAST_ONE, _STOP_AFTER_FIRST = _may(FLAG, False), _may(FLAG, False)
_EXCLUDES, _EXCLUDE_TOKENS = _may(TEXTS, ()), _may(TOKENS, ())

TOP = {"format": Field(FORMAT)}
LEGACY = {"structures": Field(FORMATS), "triggers": Field(SOME_TEXTS)}
STRUCTURE = {"begin": Field(STRING), "schema": Field(SCHEMA_OR_TEXT), "end": Field(STRING)}
FIELDS: dict[str, dict[str, Field]] = {
    "const_string": {"value": Field(STRING)},
    "json_schema": {
        "json_schema": Field(SCHEMA),
        "style": _may(STRING, "json"),
        "any_order": _may(FLAG, False),
        "max_whitespace_cnt": _may(BOUND, None),
        "excludes": _EXCLUDES,
    },
    "qwen_xml_parameter": {"json_schema": Field(SCHEMA)},
    "grammar": {"grammar": Field(SOME_TEXT)},
    "regex": {"pattern": Field(SOME_TEXT)},
    "any_text": {"excludes": _EXCLUDES, "max_tokens": _may(BOUND, None), "max_chars": _may(BOUND, None)},
    "sequence": {"elements": Field(FORMATS)},
    "or": {"elements": Field(FORMATS)},
    "optional": {"content": Field(FORMAT)},
    "plus": {"content": Field(FORMAT)},
    "star": {"content": Field(FORMAT)},
    "repeat": {"min": Field(COUNT), "max": Field(COUNT_OR_NONE), "content": Field(FORMAT)},
    "tag": {"begin": Field(BEGIN), "content": Field(FORMAT), "end": Field(END)},
    "triggered_tags": {
        "triggers": Field(SOME_TEXTS),
        "tags": Field(FORMATS),
        "at_least_one": _AT_LEAST_ONE,
        "stop_after_first": _STOP_AFTER_FIRST,
        "excludes": _EXCLUDES,
    },
    "tags_with_separator": {
        "tags": Field(FORMATS),
        "separator": Field(STRING),
        "at_least_one": _AT_LEAST_ONE,
        "stop_after_first": _STOP_AFTER_FIRST,
    },
    "dispatch": {"rules": Field(RULES), "loop": _may(FLAG, True), "excludes": _EXCLUDES},
    "token": {"token": Field(TOKEN)},
    "exclude_token": {"exclude_tokens": _EXCLUDE_TOKENS},
    "any_tokens": {"exclude_tokens": _EXCLUDE_TOKENS, "max_tokens": _may(BOUND, None)},
    "token_triggered_tags": {
        "trigger_tokens": Field(SOME_TOKENS),
        "tags": Field(FORMATS),
        "exclude_tokens": _EXCLUDE_TOKENS,
        "at_least_one": _AT_LEAST_ONE,
        "stop_after_first": _STOP_AFTER_FIRST,
    },
    "token_dispatch": {"rules": Field(RULES), "loop": _may(FLAG, True), "exclude_tokens": _EXCLUDE_TOKENS},
}
"""Type -> its fields beside `type`."""
_TYPES = NearMisses(FIELDS)


def read_fields(
    value: Mapping[str, Any], pointer: str, work: Work, only: str | None = None
) -> tuple[str, dict[str, Any]]:
    """(type, value of each field with the defaults) of a format. `only`: the one type that may stand here, which may
    then be left out. Raises GrammarError `structural_tag_invalid`."""
    if only is not None and "type" not in value:
        return only, checked(value, pointer, FIELDS[only], only, work)
    name = value.get("type")
    if not isinstance(name, str):
        raise invalid(
            f"{pointer}/type" if "type" in value else pointer,
            f"a format's type is a string, not {kind_of(name)}" if "type" in value else "the format has no type",
            f"There are {', '.join(FIELDS)}",
        )
    if name not in FIELDS:
        meant = _TYPES.of(name)
        hint = f'Did you mean "{meant}"?' if meant else f"There are {', '.join(FIELDS)}"
        raise invalid(f"{pointer}/type", f"there is no format of type {quoted(name)}", hint)
    if only is not None and name != only:
        raise invalid(f"{pointer}/type", f"only a format of type {only} can stand here, not {name}")
    return name, checked(value, pointer, FIELDS[name], name, work)


def checked(
    value: Mapping[str, Any], pointer: str, fields: Mapping[str, Field], name: str, work: Work
) -> dict[str, Any]:
    """The value of each field, with the defaults. Raises GrammarError `structural_tag_invalid`."""
    work.pointer = pointer
    work.spend(5 + len(value) + len(pointer) // 64)
    for given, item in value.items():
        field = fields.get(given)
        if field is None:
            if given == "type":
                continue
            known = ", ".join(fields)
            meant = NearMisses(fields).of(given) if isinstance(given, str) else None
            raise invalid(
                f"{pointer}/{escape(str(given))}",
                f"{name} has no field {quoted(given)}",
                f'Did you mean "{meant}"?' if meant else f"It has {known}",
            )
        if isinstance(item, (list, tuple)):
            work.spend(len(item))
        if not field.kind.fits(item):
            raise invalid(f"{pointer}/{given}", f"{given} must be {field.kind.says}")
    for needed, field in fields.items():
        if field.required and needed not in value:
            raise invalid(pointer, f"{name} needs the field {needed}, which is {field.kind.says}")
    return {field_name: value.get(field_name, field.default) for field_name, field in fields.items()}


def invalid(pointer: str, message: str, hint: str | None = None) -> GrammarError:
    """What is no structural tag."""
    return GrammarError(message, code="structural_tag_invalid", pointer=pointer, hint=hint)


def unsupported(pointer: str, message: str, hint: str | None = None) -> UnsupportedError:
    """What is one, and cannot be enforced exactly."""
    return UnsupportedError(message, code="structural_tag_unsupported", pointer=pointer, hint=hint)
