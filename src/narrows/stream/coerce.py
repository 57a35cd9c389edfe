"""What JSON value a raw parameter stands for, by the tool's schema.

A format that writes parameters as bare text says nothing of types: `5` may be a number or a string. The rule, in order, with T
the types that the schema allows for the parameter (through `$ref`, unions, `allOf`, `enum`, `const`, OpenAPI's `nullable`):

1. No schema for the parameter: a string; with `untyped="json"`, what is a JSON value other than a string is that value.
2. Exactly `null`, null in T: null. (`None` too, and blanks around it, where T has no string.)
3. A JSON object or array, and T has that type: it, as the model wrote it. The same as Python writes it (`{'a': True}`; where T has no
   string, also a tuple): its JSON.
4. A string in T: the text as a string, verbatim. An `enum` of mixed types decides by its members.
5. `true` or `false` in any case: the boolean. A JSON number: the number, as the model wrote it (so big integers keep their digits),
   if T has number, or integer and the value is whole.
   Where the wire itself says that a value is JSON, that decides, and the schema is not asked; then a JSON string is itself.
6. Anything else stays a string: the value is kept, and a validator will say what is wrong with it.

So the streamed beginning of a value never contradicts its type: `Decision` says as early as possible that a value is a string.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from json.encoder import encode_basestring as _quote
from typing import Any
from urllib.parse import unquote

from narrows.stream.json_scan import BLANK, JsonScanner
from narrows.tools.type_names import JSON_TYPES, type_name

ALL_TYPES = JSON_TYPES
MAX_SUBSCHEMAS = 10_000


_STRING = frozenset(("string",))
_NESTED = frozenset(("object", "array"))


@dataclass(frozen=True, slots=True)
class ValueType:
    """The JSON types a parameter may have; `members` are the strings of its enum, where that mixes strings and others."""

    types: frozenset[str]
    members: frozenset[str] | None = None
    json: bool = False
    """The wire says that it is JSON: strings, too, are quoted."""

    @property
    def plain_string(self) -> bool:
        """Nothing but strings: such a value streams from its first character."""
        return self.types == _STRING


UNTYPED = ValueType(_STRING)
LOOSE = ValueType(ALL_TYPES - {"string"})
"""Without a schema: what is JSON is JSON, all else a string."""
JSON = ValueType(ALL_TYPES - {"string"}, json=True)


class ParameterTypes:
    """The types of a tool's arguments, under the schema of the whole arguments object. Found when first asked for."""

    __slots__ = ("_known", "_others", "_properties", "_schema")

    def __init__(self, schema: Any, untyped: ValueType = UNTYPED) -> None:
        """`untyped`: what an argument may be that the schema says nothing of."""
        self._schema = schema
        members = _conjuncts(schema) if isinstance(schema, dict) else []
        self._properties = [found for member in members if isinstance(found := member.get("properties"), dict)]
        self._known: dict[str, ValueType | None] = dict.fromkeys(name for found in self._properties for name in found)
        extra = schema.get("additionalProperties") if isinstance(schema, dict) else None
        self._others = self._type([extra]) if isinstance(extra, dict) and extra else untyped

    def of(self, name: str) -> ValueType:
        if name not in self._known:
            return self._others
        known = self._known[name]
        if known is None:
            known = self._type([properties[name] for properties in self._properties if name in properties])
            self._known[name] = known
        return known

    def _type(self, parts: list[Any]) -> ValueType:
        types = ALL_TYPES
        members: frozenset[str] | None = None
        for part in parts:
            types &= schema_types(part, self._schema)
            members = members or mixed_enum(part, self._schema)
        return ValueType(types or UNTYPED.types, members)


def parameter_type(schema: Any, name: str) -> ValueType:
    """The type of the argument `name` under the schema of the whole arguments object. Cost: its sub-schemas, once."""
    return ParameterTypes(schema).of(name)


def _conjuncts(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The schemas that hold at once: the schema, what it refers to, and the members of its `allOf`."""
    found: list[dict[str, Any]] = []
    todo: list[Any] = [schema]
    seen: set[int] = set()
    while todo and len(found) < MAX_SUBSCHEMAS:
        part = todo.pop()
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        found.append(part)
        todo.append(resolve(part.get("$ref"), schema))
        todo.extend(part["allOf"] if isinstance(part.get("allOf"), list) else ())
    return found


def resolve(ref: Any, root: Any) -> Any:
    """The schema that a local `$ref` names, or True (anything) where it names none."""
    if not isinstance(ref, str):
        return True
    if not ref.startswith("#"):
        return True
    node = root
    for part in unquote(ref[1:]).split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and part in node:
            node = node[part]
        elif isinstance(node, list) and part.isdecimal() and len(part) < 10 and int(part) < len(node):
            node = node[int(part)]
        else:
            return True
    return node


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "integer" if isinstance(value, int) or value.is_integer() else "number"
    return "string" if isinstance(value, str) else "object" if isinstance(value, dict) else "array"


def _own_types(schema: dict[str, Any]) -> frozenset[str]:
    """What `type`, `nullable`, `enum` and `const` leave, without looking into sub-schemas."""
    types = ALL_TYPES
    declared = schema.get("type")
    if isinstance(declared, str):
        declared = [declared]
    if isinstance(declared, list):
        types = frozenset(type_name(t) for t in declared if isinstance(t, str)) & ALL_TYPES or ALL_TYPES
        types |= {"integer"} if "number" in types else frozenset()
    if schema.get("nullable") is True:
        types |= {"null"}
    values = schema.get("enum")
    if isinstance(values, list):
        types &= {_type_of(v) for v in values}
    if "const" in schema:
        types &= {_type_of(schema["const"])}
    return types


def _parts(schema: dict[str, Any], root: Any) -> list[tuple[str, list[Any]]]:
    """(how they combine, sub-schemas about the same value)."""
    parts: list[tuple[str, list[Any]]] = []
    if "$ref" in schema:
        parts.append(("all", [resolve(schema["$ref"], root)]))
    for keyword, how in (("allOf", "all"), ("anyOf", "any"), ("oneOf", "any")):
        members = schema.get(keyword)
        if isinstance(members, list) and members:
            parts.append((how, members))
    return parts


def schema_types(schema: Any, root: Any) -> frozenset[str]:
    """Types that the schema may allow. Never too few: a cycle, or more than 10,000 sub-schemas, counts as any type."""
    known: dict[int, frozenset[str]] = {}
    opened: set[int] = set()
    todo: list[tuple[Any, bool]] = [(schema, False)]
    while todo:
        part, ready = todo.pop()
        if not isinstance(part, dict):
            known[id(part)] = frozenset() if part is False else ALL_TYPES
            continue
        if ready:
            types = _own_types(part)
            for how, members in _parts(part, root):
                each = [known.get(id(member), ALL_TYPES) for member in members]
                types &= frozenset.intersection(*each) if how == "all" else frozenset.union(*each)
            known[id(part)] = types
        elif id(part) not in opened and len(opened) < MAX_SUBSCHEMAS:
            opened.add(id(part))
            todo.append((part, True))
            todo.extend((member, False) for _, members in _parts(part, root) for member in members)
    return known.get(id(schema), ALL_TYPES)


def mixed_enum(schema: Any, root: Any) -> frozenset[str] | None:
    """The strings of an enum that holds both strings and others."""
    for part in _conjuncts_of(schema, root):
        found = part.get("enum")
        values: list[Any] = found if isinstance(found, list) else []
        strings = frozenset(value for value in values if isinstance(value, str))
        if strings and not all(isinstance(value, str) for value in values):
            return strings
    return None


def _conjuncts_of(schema: Any, root: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    seen: set[int] = set()
    while isinstance(schema, dict) and id(schema) not in seen:
        seen.add(id(schema))
        found.append(schema)
        schema = resolve(schema.get("$ref"), root)
    return found


def to_json(text: str, kind: ValueType, max_depth: int) -> str:
    """The JSON text of the value that `text` stands for. Linear; never fails."""
    types = kind.types
    if types == UNTYPED.types:
        return _quote(text)
    stripped = text.strip(BLANK)
    if "null" in types and (text == "null" or ("string" not in types and stripped in ("null", "None"))):
        return "null"
    bracket = {"{": "object", "[": "array"}.get(stripped[:1])
    if bracket in types and is_json(stripped, max_depth):
        return stripped
    if (bracket is not None and types & _NESTED) or (
        stripped[:1] == "(" and "array" in types and "string" not in types
    ):
        found = _from_python(stripped, max_depth)
        if found is not None and {"{": "object", "[": "array"}[found[0]] in types:
            return found
    if kind.json and stripped[:1] == '"' and is_json(stripped, max_depth):
        return stripped
    if "string" in types and (kind.members is None or text in kind.members):
        return _quote(text)
    if "boolean" in types and stripped.lower() in ("true", "false"):
        return stripped.lower()
    is_number = stripped != "" and stripped[0] in "-0123456789" and is_json(stripped, max_depth)
    if is_number and ("number" in types or ("integer" in types and _is_whole(stripped))):
        return stripped
    return _quote(text)


def quote(text: str) -> str:
    """A JSON string, characters beyond ASCII as they are."""
    return _quote(text)


def _from_python(text: str, max_depth: int) -> str | None:
    from narrows.stream.python_value import python_to_json  # it reads with what reads calls, which needs this

    return python_to_json(text, max_depth)


def keys_of(json_object: str) -> list[str]:
    """The names of an object's members, given its JSON. Linear."""
    keys: list[str] = []
    last = ""
    depth, at, size = 0, 0, len(json_object)
    while at < size:
        char = json_object[at]
        if char == '"':
            begin = at
            at += 1
            while json_object[at] != '"':
                at += 2 if json_object[at] == "\\" else 1
            last = json_object[begin : at + 1]
        elif char == ":" and depth == 1:
            keys.append(json.loads(last))
        elif char in "{[":
            depth += 1
        elif char in "}]":
            depth -= 1
        at += 1
    return keys


def is_json(text: str, max_depth: int) -> bool:
    """Whether the text is one strict JSON value and nothing more."""
    scanner = JsonScanner(max_depth)
    at = scanner.scan(text, 0)
    scanner.end_of_text()
    return scanner.done and scanner.fault is None and scanner.flaw is None and at == len(text)


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
    text = so_far.lstrip(BLANK)
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
    word = text.rstrip(BLANK).lower()
    return any(whole.startswith(word) for whole in ("true", "false", "null", "none")) or (
        word[0] in "-0123456789" and all(char in "0123456789+-.e" for char in word)
    )
