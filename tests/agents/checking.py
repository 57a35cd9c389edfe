"""What an answer must keep, judged without narrows: by a JSON Schema validator and by plain readers of JSON.

A verdict is `valid` (whole, and what the schema allows), `length` (cut by the budget, and sound as far as it goes), `refused` (with the
error that the docs promise for such a schema) or `failed`. A runaway is a failure, cut
or not: keys that the schema does not declare in an object that lists its properties, a key twice in one object, the same call again, blanks without end.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ijson
import jsonschema_rs

BLANKS = 80
"""More blanks than this in a row outside of strings are a loop; a value that lies twenty levels deep may be indented so far."""
MOST_CALLS = 16
"""Of one answer, where the request does not say."""


@dataclass(frozen=True)
class Verdict:
    kind: str
    why: str = ""

    @property
    def sound(self) -> bool:
        return self.kind != "failed"


VALID = Verdict("valid")


def failed(why: str) -> Verdict:
    return Verdict("failed", why)


class Members(list):  # type: ignore[type-arg]
    """An object as its pairs, in their order and with those that come again."""


def repeated(calls: list[tuple[str, str]]) -> str:
    """What is wrong with calls that come again: the same one twice in a row, or up to eight in turn, or more calls than an answer may have. A call
    that comes again otherwise may be meant."""
    if len(calls) > MOST_CALLS:
        return f"{len(calls)} calls"
    for length in range(1, MOST_CALLS // 2 + 1):
        for i in range(len(calls) - 2 * length + 1):
            if calls[i : i + length] == calls[i + length : i + 2 * length]:
                return f"the same {length} twice in a row: {calls[i : i + length]}"
    return ""


def judge_calls(choice: Any, schemas: dict[str, Any], finish: tuple[str, ...]) -> Verdict:
    """The calls of an answer that had to call one of the tools `schemas`; `finish`: how it may end besides `length`."""
    cut = choice.finish_reason == "length"
    if not cut and choice.finish_reason not in finish:
        return failed(f"finish_reason {choice.finish_reason}")
    calls = choice.message.tool_calls or []
    if not calls and not cut:
        return failed(f"no call, content {choice.message.content!r}")
    if (choice.message.content or "").strip():
        return failed(f"content beside a required call: {choice.message.content!r}")
    again = repeated([(call.function.name, call.function.arguments) for call in calls])
    if again:
        return failed(again)
    for place, call in enumerate(calls):
        if call.function.name not in schemas:
            return failed(f"a tool that was not offered: {call.function.name}")
        last = place == len(calls) - 1
        verdict = judge_json(call.function.arguments, schemas[call.function.name], cut=cut and last)
        if not verdict.sound:
            return verdict
        if verdict.kind == "length":
            return verdict
    return Verdict("length", f"after {len(calls)} calls") if cut else VALID


def judge_json(text: str, schema: Any, *, cut: bool) -> Verdict:
    """A JSON text under its schema; `cut`: the budget ended it, perhaps in its middle."""
    loop = runaway(text, schema)
    if loop:
        return failed(f"{loop}: {text[:300]}")
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        return Verdict("length", where_cut(text)) if cut else failed(f"not JSON ({error}): {text[:300]}")
    wrong = next(iter(validator(schema).iter_errors(value)), None)
    if wrong is not None:
        return failed(f"not valid: {str(wrong)[:300]}")
    return Verdict("length", "after a whole value") if cut else VALID


def validator(schema: Any) -> Any:
    return jsonschema_rs.validator_for(schema, validate_formats=True)


def runaway(text: str, schema: Any) -> str:
    """What is endless in a JSON text, whole or cut; empty where nothing is."""
    if blanks(text) > BLANKS:
        return f"{blanks(text)} blanks in a row"
    stack: list[tuple[Any, list[Any]]] = [(as_far_as_it_goes(text), [schema])]
    while stack:
        value, places = stack.pop()
        here = list(_alternatives(places, schema))
        if isinstance(value, Members):
            keys = [key for key, _ in value]
            twice = [key for key, count in Counter(keys).items() if count > 1]
            if twice:
                return f"key {twice[0]!r} {keys.count(twice[0])} times"
            invented = [key for key in keys if not _declared(key, here)]
            if invented:
                return f"{len(invented)} undeclared keys, such as {invented[0]!r}"
            stack += [(member, _below(key, here)) for key, member in value]
        elif type(value) is list:
            stack += [(item, _items(index, here)) for index, item in enumerate(value)]
    return ""


def as_far_as_it_goes(text: str) -> Any:
    """The value of a JSON text that may be cut: objects are `Members`. A string or number that is cut is left out."""
    root: list[Any] = []
    open_: list[Any] = [root]
    keys: list[str] = []
    try:
        for event, value in ijson.basic_parse(io.BytesIO(text.encode()), use_float=True):
            if event in ("end_map", "end_array"):
                open_.pop()
                continue
            if event == "map_key":
                open_[-1].append((value, None))
                keys.append(value)
                continue
            made = Members() if event == "start_map" else [] if event == "start_array" else value
            if isinstance(open_[-1], Members):
                open_[-1][-1] = (open_[-1][-1][0], made)
            else:
                open_[-1].append(made)
            if event in ("start_map", "start_array"):
                open_.append(made)
    except ijson.JSONError:
        pass  # cut, or not JSON: json.loads says so to whoever asks
    return root[0] if root else None


def blanks(text: str) -> int:
    """The longest run of blanks outside of strings."""
    longest = run = 0
    inside = escaped = False
    for character in text:
        if inside:
            inside = escaped or character != '"'
            escaped = character == "\\" and not escaped
            continue
        inside = character == '"'
        run = run + 1 if character in " \t\r\n" else 0
        longest = max(longest, run)
    return longest


def where_cut(text: str) -> str:
    """Within a string, or between values: for the table."""
    inside = escaped = False
    for character in text:
        if inside:
            inside = escaped or character != '"'
            escaped = character == "\\" and not escaped
        else:
            inside = character == '"'
    return "within a string" if inside else "between values"


def _alternatives(places: list[Any], document: Any) -> Iterator[dict[str, Any]]:
    """All object schemas that may speak about one value: references followed, combinations opened."""
    todo, seen = list(places), set()
    while todo:
        schema = todo.pop()
        if not isinstance(schema, dict) or id(schema) in seen:
            continue
        seen.add(id(schema))
        yield schema
        if isinstance(schema.get("$ref"), str):
            todo.append(_resolve(schema["$ref"], document))
        for keyword in ("anyOf", "oneOf", "allOf"):
            todo += schema.get(keyword, ())
        todo += [schema[keyword] for keyword in ("then", "else") if keyword in schema]


def _resolve(reference: str, document: Any) -> Any:
    here = document
    for step in reference.lstrip("#").split("/")[1:]:
        here = here[step.replace("~1", "/").replace("~0", "~")]
    return here


def _declared(key: str, schemas: list[dict[str, Any]]) -> bool:
    """Whether some schema names the key, says that others may come, or lists no properties at all for an object."""
    listing = [schema for schema in schemas if "properties" in schema]
    if not listing:
        return True
    if any(key in schema["properties"] or key in schema.get("required", ()) for schema in listing):
        return True
    opened = [s for s in schemas if s.get("additionalProperties", False) is not False or "patternProperties" in s]
    return bool(opened)


def _below(key: str, schemas: list[dict[str, Any]]) -> list[Any]:
    return [
        found
        for schema in schemas
        if (found := schema.get("properties", {}).get(key, schema.get("additionalProperties"))) is not None
    ]


def _items(index: int, schemas: list[dict[str, Any]]) -> list[Any]:
    below = []
    for schema in schemas:
        prefix = schema.get("prefixItems", ())
        below.append(prefix[index] if index < len(prefix) else schema.get("items"))
    return below


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
