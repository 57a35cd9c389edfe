"""Constraints under the names of other servers: `guided_json`, llama.cpp's `grammar`, SGLang's `regex` and so on.

Each of these fields becomes the entry of `structured_outputs` that means the same, so it is read, enforced and refused
as that. An error names the field that was sent. Two fields that ask for different things are refused.

Sources: vLLM's older `guided_*` fields (docs, "Structured Outputs" up to 0.11), llama.cpp's `tools/server/README.md`
(`grammar`, `json_schema`), SGLang's "Structured Outputs" (`regex`, `ebnf`, `json_schema`, `structural_tag`).
"""

from __future__ import annotations

from typing import Any

from narrows.errors import InputError
from narrows.grammar.languages import LANGUAGES
from narrows.server.fields import JSON_OBJECT
from narrows.server.places import UNMOVED, Places

NAMES = {
    "guided_json": "json",
    "guided_regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
    "grammar": "grammar",
    "json_schema": "json",
    "regex": "regex",
    "ebnf": "ebnf",
    "structural_tag": "structural_tag",
}
"""Field -> the entry of `structured_outputs`."""
_OURS = "structured_outputs"


def translated(body: dict[str, Any], places: Places) -> tuple[dict[str, Any], Places]:
    """The body with such a field as `structured_outputs`, and where things stood. The body itself where it has none.

    `places`: where the body's own fields stood. Raises `InputError` code conflicting_constraints for fields that
    exclude each other. Both are named."""
    given = [name for name in NAMES if name in body and asks(name, body[name])]
    if not given:
        return body, UNMOVED
    first = given[0]
    language, source = NAMES[first], body[first]
    for other in given[1:]:
        if (NAMES[other], body[other]) != (language, source):
            raise _exclude(first, other, places)
    ours = body.get(_OURS)
    if ours is not None and not isinstance(ours, dict):
        return body, UNMOVED  # refused for its type
    held = {name: value for name in (*LANGUAGES, JSON_OBJECT) if (value := (ours or {}).get(name)) not in (None, False)}
    if held and held != {language: source}:
        raise _exclude(first, _OURS, places)
    response_format = body.get("response_format")
    if response_format is not None and response_format != {"type": "text"}:
        raise _exclude(first, "response_format", places)
    kept = {name: value for name, value in body.items() if name not in given}
    moved = {f"/{_OURS}/{language}": f"/{first}", **({} if ours else {f"/{_OURS}": f"/{first}"})}
    return {**kept, _OURS: {**(ours or {}), language: source}}, Places(moved)


def asks(name: str, value: Any) -> bool:
    """Whether this field of the body is a constraint that is understood. Clients send empty values for fields that they
    do not use."""
    if value is None or value is False or value in ("", []):
        return False
    if name == "grammar":
        return isinstance(value, str)  # Text Generation Inference has an object of this name
    if name == "json_schema" and isinstance(value, dict):
        return not isinstance(value.get("schema"), dict)  # the object of `response_format`, in the wrong place
    return name in NAMES


def _exclude(one: str, other: str, places: Places) -> InputError:
    one, other = places.outer(f"/{one}"), places.outer(f"/{other}")
    return InputError(
        f"{one} and {other} exclude each other",
        pointer=other,
        code="conflicting_constraints",
        hint="Leave one of them out",
    )
