"""Which JSON value a parameter written as bare text stands for, by the types that it may have (`ValueType`).

A format that writes parameters as bare text does not say their types: `5` may be a number or a string. A tool's schema
says which types are allowed. These are the rules, in order:

1. A parameter without a schema is a string. With `untyped="json"`, text that is a JSON value other than a string is
   that value.
2. Exactly `null` is null where null is allowed. Where no string is allowed, so is `None`, and whitespace around either.
3. A JSON object or array is itself, as the model wrote it, where that type is allowed. One that Python writes
   (`{'a': True}`) becomes its JSON. Where no string is allowed, a tuple does, too.
4. Where a string is allowed, the text is a string, verbatim. If an `enum` has strings and other values, the text is a
   string where it is one of those strings.
5. `true` or `false` in any case is the boolean. A JSON number is the number, as the model wrote it, where number is
   allowed, or where integer is and the value is whole. So big integers keep their digits. A number that readers of JSON
   would take for infinity (`1e999`) is none.
6. Anything else stays a string. The value is kept, and a validator will say what is wrong with it.

Where the format itself marks a value as JSON, the schema is not asked, and a JSON string is itself.

`decide` says as early as possible that a value is a string, so what was streamed never contradicts the value's type.
"""

from __future__ import annotations

from narrows.stream.json_scan import WHITESPACE, is_finite, is_json, quote
from narrows.stream.regions.python_value import python_to_json
from narrows.stream.states import State
from narrows.value_types import LOOSE, ValueType

_NESTED = frozenset(("object", "array"))


def to_json(text: str, kind: ValueType, max_depth: int) -> str:
    """The JSON text of the value that `text` stands for. Linear; never fails."""
    types = kind.types
    if kind.plain_string:
        return quote(text)
    stripped = text.strip(WHITESPACE)
    if "null" in types and (text == "null" or ("string" not in types and stripped in ("null", "None"))):
        return "null"
    bracket = {"{": "object", "[": "array"}.get(stripped[:1])
    if bracket in types and is_json(stripped, max_depth):
        return stripped
    if (bracket is not None and types & _NESTED) or (
        stripped[:1] == "(" and "array" in types and "string" not in types
    ):
        json_text = python_to_json(stripped, max_depth)
        if json_text is not None and {"{": "object", "[": "array"}[json_text[0]] in types:
            return json_text
    if kind.json and stripped[:1] == '"' and is_json(stripped, max_depth):
        return stripped
    if "string" in types and (kind.members is None or text in kind.members):
        return quote(text)
    if "boolean" in types and stripped.lower() in ("true", "false"):
        return stripped.lower()
    is_number = stripped != "" and stripped[0] in "-0123456789" and is_json(stripped, max_depth)
    if is_number and ("number" in types or ("integer" in types and _is_whole(stripped))) and is_finite(stripped):
        return stripped
    return quote(text)


def _is_whole(number: str) -> bool:
    """Whether a JSON number's value is an integer, without computing it (1e400000 is cheap)."""
    mantissa, _, exponent = number.lower().partition("e")
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).rstrip("0")
    if not digits.strip("0"):
        return True
    needed = len(digits) - len(whole)  # the point must move at least so far to the right
    shift = exponent.lstrip("+-").lstrip("0") or "0"
    if len(shift) > 9:
        return not exponent.startswith("-")
    return (-int(shift) if exponent.startswith("-") else int(shift)) >= needed


UNDECIDED = State("what decides the value's type")
IN_STRING = State("more of a string")
IN_JSON = State("more of an object or array")
UNTIL_END = State("the end, which decides the value's type")


def decide(so_far: str, kind: ValueType, max_whitespace: int) -> State:
    """What the beginning of a value tells about its type.

    `IN_STRING`: it is a string and can stream. `IN_JSON`: an object or array begins. `UNTIL_END`: only its end can
    decide. `UNDECIDED`: more text may decide. Only the value's beginning is read: at most `max_whitespace` of
    whitespace and the text after it.
    """
    types = kind.types
    text = so_far.lstrip(WHITESPACE)
    if len(so_far) - len(text) <= max_whitespace:
        if (text[:1] == "{" and "object" in types) or (text[:1] == "[" and "array" in types):
            return IN_JSON
        if not text:
            return UNDECIDED
    if kind is LOOSE:
        return (UNDECIDED if len(so_far) <= max_whitespace else UNTIL_END) if _may_be_literal(text) else IN_STRING
    if "string" not in types or kind.members is not None:
        return UNTIL_END
    return UNDECIDED if "null" in types and "null".startswith(so_far) else IN_STRING


def _may_be_literal(text: str) -> bool:
    """Whether this may become a number or a constant (Python's words among them)."""
    word = text.rstrip(WHITESPACE).lower()
    return any(whole.startswith(word) for whole in ("true", "false", "null", "none")) or (
        word[0] in "-0123456789" and all(char in "0123456789+-.e" for char in word)
    )
