"""What JSON value a raw parameter stands for, by the types that it may have (`ValueType`; for a tool's argument its schema says them).

A format that writes parameters as bare text says nothing of types: `5` may be a number or a string. The rule, in order, with T
the types that are allowed:

1. No schema for the parameter: a string; with `untyped="json"`, what is a JSON value other than a string is that value.
2. Exactly `null`, null in T: null. (`None` too, and whitespace around it, where T has no string.)
3. A JSON object or array, and T has that type: it, as the model wrote it. The same as Python writes it (`{'a': True}`; where T has no
   string, also a tuple): its JSON.
4. A string in T: the text as a string, verbatim. An `enum` of mixed types decides by its members.
5. `true` or `false` in any case: the boolean. A JSON number: the number, as the model wrote it (so big integers keep their digits),
   if T has number, or integer and the value is whole.
   Where the wire itself says that a value is JSON, that decides, and the schema is not asked; then a JSON string is itself.
6. Anything else stays a string: the value is kept, and a validator will say what is wrong with it.

So the streamed beginning of a value never contradicts its type: `decide` says as early as possible that a value is a string.
"""

from __future__ import annotations

from narrows.stream.json_scan import WHITESPACE, is_json, quote
from narrows.stream.regions.python_value import python_to_json
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
    if is_number and ("number" in types or ("integer" in types and _is_whole(stripped))):
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


def decide(so_far: str, kind: ValueType, max_blanks: int) -> str:
    """What a growing value can be told to be: "string" (it streams), "json" (an object or array begins: scan it), "held" (only
    its end can tell), or "open" (more text will tell). Looks at its beginning only; `max_blanks` bounds how long that is.
    """
    types = kind.types
    text = so_far.lstrip(WHITESPACE)
    if len(so_far) - len(text) <= max_blanks:
        if (text[:1] == "{" and "object" in types) or (text[:1] == "[" and "array" in types):
            return "json"
        if not text:
            return "open"
    if kind is LOOSE:
        return ("open" if len(so_far) <= max_blanks else "held") if _may_be_literal(text) else "string"
    if "string" not in types or kind.members is not None:
        return "held"
    return "open" if "null" in types and "null".startswith(so_far) else "string"


def _may_be_literal(text: str) -> bool:
    """Whether this may become a number or a constant (Python's words among them)."""
    word = text.rstrip(WHITESPACE).lower()
    return any(whole.startswith(word) for whole in ("true", "false", "null", "none")) or (
        word[0] in "-0123456789" and all(char in "0123456789+-.e" for char in word)
    )
