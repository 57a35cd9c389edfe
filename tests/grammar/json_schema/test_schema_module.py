"""The public functions: forms of input, what `on_unsupported` does, several schemas in one module, hostile input."""

from __future__ import annotations

import copy
import json
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest

from narrows.errors import GrammarError, InputError, LimitError, NarrowsError, UnsupportedError
from narrows.grammar import ir
from narrows.grammar.json_schema import Status, json_value_rules, schema_module, schema_rules
from narrows.reference import Reference

POINT = {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}, "required": ["x", "y"]}


def accepts(schema: Any, text: str, **options: Any) -> bool:
    return Reference(schema_module(schema, **options).module).accepts(text.encode())


def test_dict_text_and_bytes_are_the_same_schema() -> None:
    text = json.dumps(POINT)
    modules = [schema_module(form).module for form in (POINT, text, text.encode())]
    assert modules[0] == modules[1] == modules[2]


def test_the_schema_is_not_changed() -> None:
    schema = copy.deepcopy(POINT)
    schema_module(schema)
    assert schema == POINT


def test_python_values_that_are_not_json() -> None:
    assert accepts({"enum": ("a", Decimal("1.5"))}, "1.5")
    for schema in (
        {"enum": [{1, 2}]},
        {"const": float("nan")},
        {1: 2},
        {"const": b"x"},
        None,
        3,
        {"enum": [{"a": object()}]},
    ):
        with pytest.raises(GrammarError):
            schema_module(schema)  # type: ignore[arg-type]


# on_unsupported

_COUNTED = {"type": "array", "contains": {"type": "string"}, "minContains": 2, "uniqueItems": True}


def test_error_is_the_default() -> None:
    with pytest.raises(UnsupportedError, match="uniqueItems") as caught:
        schema_module({"items": _COUNTED})
    assert caught.value.pointer == "/items/uniqueItems"
    assert caught.value.hint


def test_warn_says_so_and_records_it() -> None:
    with pytest.warns(UserWarning, match="/uniqueItems"):
        result = schema_module(_COUNTED, on_unsupported="warn")
    assert result.report["/uniqueItems"] == "ignored"
    assert result.report["/uniqueItems"].reason
    assert result.report["/type"] == "exact"


def test_ignore_records_it_in_silence() -> None:
    schema = {"type": "string", "format": "date_time", "pattern": "(a)\\1", "minLenght": 2}
    report = schema_module(schema, on_unsupported="ignore").report
    assert report == {"/type": "exact", "/format": "ignored", "/pattern": "ignored", "/minLenght": "ignored"}


def test_a_definition_that_nothing_refers_to_is_not_read() -> None:
    result = schema_module({"type": "null", "$defs": {"a": {"not": {}}}})
    assert set(result.report) == {"/type", "/$defs"}


def test_status_is_a_word_with_a_reason() -> None:
    status = Status("over", "because")
    assert (status, json.dumps(status), status.reason) == ("over", '"over"', "because")
    assert copy.deepcopy(status).reason == "because"
    assert "because" in repr(status)


def test_options_are_checked() -> None:
    for options in ({"whitespace": "loose"}, {"escapes": "none"}, {"key_order": "sorted"}, {"on_unsupported": "x"}):
        with pytest.raises(InputError, match="must be"):
            schema_module(True, **options)


# Rules


def test_two_schemas_in_one_module() -> None:
    first = schema_rules(POINT, "a")
    second = schema_rules({"type": "object", "properties": {"p": {"type": "array"}}, "required": ["p"]}, "b")
    assert not {name for name in first.rules if name in second.rules and not name.startswith("json/")}
    root = ir.Seq((first.node, ir.Bytes(b";"), second.node))
    oracle = Reference(ir.Module({**first.rules, **second.rules, "root": root}))
    assert oracle.accepts(b'{"x":1,"y":2};{"p":[{"z":[]}]}')
    assert not oracle.accepts(b'{"p":[]};{"x":1,"y":2}')


def test_any_value() -> None:
    any_value = json_value_rules(whitespace="compact")
    oracle = Reference(ir.Module(any_value.rules, any_value.start))
    assert oracle.accepts(b'{"a":[1,null,{"b":"c"}]}')
    assert not oracle.accepts(b'{"a": 1}')


def test_rules_say_where_they_come_from() -> None:
    module = schema_module({"type": "object", "properties": {"a/b": POINT}}).module
    assert "/properties/a~1b" in module.sources.values()


def test_one_lexeme_for_all_strings() -> None:
    """The core keeps masks by automaton: equal parts should be the same object, in one schema and across schemas."""
    schema = {"properties": {"a": {"type": "string"}, "b": {"items": {"type": "string"}}}}
    found = {
        id(n) for m in (schema, {"type": "string"}) for n in _nodes(schema_module(m).module) if _is_plain_string(n)
    }
    assert len(found) == 1


def _is_plain_string(node: ir.Node) -> bool:
    return isinstance(node, ir.Lexeme) and isinstance(node.item, ir.Seq) and isinstance(node.item.items[1], ir.Repeat)


def _nodes(module: ir.Module) -> list[ir.Node]:
    found, stack = [], list(module.rules.values())
    while stack:
        node = stack.pop()
        found.append(node)
        if isinstance(node, (ir.Seq, ir.Alt)):
            stack.extend(node.items)
        elif isinstance(node, ir.Repeat):
            stack.append(node.item)
    return found


def test_many_consts_are_one_automaton() -> None:
    schema = {"oneOf": [{"const": f"c{k}", "title": "t"} for k in range(500)] + [{"const": [1]}]}
    found = [node.item for node in _nodes(schema_module(schema).module) if isinstance(node, ir.Lexeme)]
    assert [len(item.options) for item in found if isinstance(item, ir.Literals) and len(item.options) > 2] == [500]


def test_optional_keys_are_linear() -> None:
    def size(n: int) -> int:
        schema = {"type": "object", "properties": {f"key{i}": {"type": "string"} for i in range(n)}}
        return len(_nodes(schema_module(schema).module))

    assert size(300) < 2.2 * size(150)


# Hostile input: an answer soon, and always an error of ours.


def nested(wrap: Callable[[Any], Any], depth: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(depth):
        schema = wrap(schema)
    return schema


def shared(depth: int) -> Any:
    schema: Any = {}
    for _ in range(depth):
        schema = {"properties": {"x": schema, "y": schema}}
    return schema


def looping() -> Any:
    schema: dict[str, Any] = {}
    schema["items"] = schema
    return schema


def objects(n: int) -> Any:
    return {f"p{i}": {"type": "object", "properties": {"a": {"type": "string"}}} for i in range(n)}


HOSTILE: dict[str, tuple[Callable[[], Any], str | None]] = {
    "deep": (lambda: nested(lambda s: {"items": s}, 10_000), "schema_depth"),
    "deep text": (lambda: '{"items":' * 10_000 + "true" + "}" * 10_000, "schema_depth"),
    "deep brackets": (lambda: "[" * 1_000_000, "schema_depth"),
    "deep enum": (lambda: '{"enum": [' + "[" * 100_000 + "]" * 100_000 + "]}", "schema_depth"),
    "brackets in strings": (lambda: json.dumps({"title": "[{" * 10_000 + '"\\[' * 1_000}), None),
    "shared": (lambda: shared(60), "schema_bytes"),
    "looping": (looping, "schema_depth"),
    "long enum": (lambda: {"enum": [f"option {i}" for i in range(100_000)]}, None),
    "two long enums": (lambda: {"allOf": [{"enum": list(range(50_000))}, {"enum": list(range(25_000, 75_000))}]}, None),
    "wide": (lambda: {"properties": objects(60_000)}, "schema_places"),
    "more optional keys than readings": (lambda: {"properties": {f"p{k}": True for k in range(11_000)}}, "live_items"),
    "5 MB of text": (lambda: json.dumps({"description": "x" * 5_000_000}), None),
    "9 MB of text": (lambda: json.dumps({"description": "x" * 9_000_000}), "schema_bytes"),
    "9 MB in a dict": (lambda: {"description": "x" * 9_000_000}, "schema_bytes"),
    "a long chain": (
        lambda: {"$ref": "#/$defs/0", "$defs": {str(i): {"$ref": f"#/$defs/{i + 1}"} for i in range(100_000)}},
        "schema_places",
    ),
    "a chain with siblings": (
        lambda: {
            "$ref": "#/$defs/0",
            "$defs": {str(i): {"$ref": f"#/$defs/{i + 1}", "minLength": i} for i in range(9_000)},
        },
        "schema_depth",
    ),
    "many combinations": (lambda: {"allOf": [{"anyOf": [{"minLength": 1}, {"maxLength": 2}]}] * 20}, "schema_branches"),
    "many objects told apart": (
        lambda: {
            "oneOf": [{"type": "object", "properties": {"k": {"const": k}}, "required": ["k"]} for k in range(2_000)]
        },
        None,
    ),
    "many strings to compare": (lambda: {"oneOf": [{"type": "string", "minLength": k} for k in range(2_000)]}, ""),
    "many conjoined": (lambda: {"allOf": [{}] * 12_000}, "schema_branches"),
    "many conjoined objects": (
        lambda: {"allOf": [{"properties": {f"p{i}": True}} for i in range(9_000)]},
        "reading_work",
    ),
    "a billion items": (lambda: {"items": {"type": "null"}, "minItems": 1_000_000, "maxItems": 2_000_000_000}, None),
    "a long name": (lambda: {"properties": {"x" * 1_000_000: True}}, None),
    "many equal multiples": (
        lambda: {"properties": {f"p{k}": {"type": "integer", "multipleOf": 501} for k in range(8_000)}},
        None,
    ),
    "many different multiples": (
        lambda: {
            "properties": {f"p{k}": {"type": "integer", "multipleOf": 51, "minimum": 51 * k} for k in range(8_000)}
        },
        "ir_nodes",
    ),
    "a long number": (lambda: '{"minimum": ' + "9" * 1_000_000 + "}", ""),
    "an exponent": (lambda: '{"minimum": 1e999999999}', "number_digits"),
    "an infinite const": (lambda: '{"const": 1e999999999}', None),
    "NUL": (lambda: {"properties": {"\0": {"pattern": "\0"}}}, None),
    "half a pair": (lambda: {"properties": {"\ud800": True}}, ""),
    "half a pair in a title": (lambda: {"title": "\ud800"}, ""),
    "half a pair in a reference": (lambda: {"$ref": "#/\ud800"}, ""),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas(name: str) -> None:
    make, limit = HOSTILE[name]
    schema = make()
    begin = time.process_time()
    if limit is None:
        schema_module(schema)
    else:
        with pytest.raises(NarrowsError) as caught:
            schema_module(schema)
        assert caught.value.limit == (limit or None)
        assert isinstance(caught.value, LimitError if limit else GrammarError)
    assert time.process_time() - begin < 5  # well under one on an idle machine


CHAINED: dict[str, Callable[[Any, int], Any]] = {
    "oneOf, apart": lambda below, i: {"oneOf": [below, {"const": i}]},
    "oneOf, overlapping": lambda below, i: {"oneOf": [below, {"minLength": i}]},
    "oneOf, beside another": lambda below, i: {"oneOf": [{"minLength": i}, {"const": i}], "allOf": [below]},
    "oneOf, by a member": lambda below, i: {
        "oneOf": [
            {"type": "object", "required": ["v"], "properties": {"v": below}},
            {"type": "object", "required": ["v"], "properties": {"v": {"const": i}}},
        ]
    },
    "not": lambda below, i: {"not": below},
    "not of properties": lambda below, i: {"not": {"properties": {"a": below}, "minProperties": i}},
    "if": lambda below, i: {"if": below, "then": {"minLength": 1}},
    "else": lambda below, i: {"if": {"type": "string"}, "then": {"minLength": 1}, "else": below},
    "contains": lambda below, i: {"contains": below, "maxContains": i % 3 + 1},
    "propertyNames": lambda below, i: {"propertyNames": below},
    "patternProperties": lambda below, i: {"patternProperties": {"a": below, "b": {"type": "null"}}},
    "dependentSchemas": lambda below, i: {"dependentSchemas": {f"k{i}": below}},
    "dependencies": lambda below, i: {"dependencies": {f"k{i}": [f"k{i + 1}"]}, "allOf": [below]},
    "minProperties": lambda below, i: {"properties": {"a": below, "b": True}, "minProperties": 1, "maxProperties": 5},
    "uniqueItems": lambda below, i: {"items": below, "uniqueItems": True},
}


@pytest.mark.parametrize("depth", [12, 60, 2_000])
@pytest.mark.parametrize("name", CHAINED)
def test_chains_of_keywords(name: str, depth: int) -> None:
    """Nested or by reference: an answer soon, and no recursion."""
    wrap = CHAINED[name]
    nest: Any = {"type": "string"}
    for i in range(depth):
        nest = wrap(nest, i)
    chain = {f"d{i}": wrap({"$ref": f"#/$defs/d{i + 1}"}, i) for i in range(depth)}
    begin = time.process_time()
    for schema in (nest, {"$ref": "#/$defs/d0", "$defs": {**chain, f"d{depth}": {"type": "string"}}}):
        with suppress(NarrowsError):
            schema_module(schema)
    assert time.process_time() - begin < 10


OPEN_ITEMS = {
    "type": "array",
    "items": {"type": "object", "properties": {"a": {"type": "integer"}}},
    "uniqueItems": True,
}


@pytest.mark.parametrize("on_unsupported", ["warn", "ignore"])
def test_items_that_would_lose_keys_are_not_compared(on_unsupported: str) -> None:
    """What is left out only allows more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = schema_module(OPEN_ITEMS, on_unsupported=on_unsupported)
    assert made.report["/uniqueItems"] == "ignored"
    for text in ('[{"b":1}]', '[{"a":1},{"a":1}]'):
        assert Reference(made.module).accepts(text.encode())
    closed = Reference(schema_module(OPEN_ITEMS).module)
    assert not closed.accepts(b'[{"b":1}]')
    assert not closed.accepts(b'[{"a":1},{"a":1}]')
    assert closed.accepts(b'[{"a":1},{}]')
    declared = schema_module(OPEN_ITEMS, on_unsupported=on_unsupported, additional="declared")
    assert not Reference(declared.module).accepts(b'[{"a":1},{"a":1}]')


@pytest.mark.parametrize("keyword", ["schema", "json_schema", "parameters", "input_schema", "inputSchema", "function"])
def test_the_object_of_a_request_or_a_tool_is_no_schema(keyword: str) -> None:
    """By the standard it has no keywords, and so would allow anything."""
    wrapper = {"name": "point", "description": "of a plane", keyword: POINT, "strict": True}
    with pytest.raises(UnsupportedError, match="an object that has one") as caught:
        schema_module(wrapper)
    assert (caught.value.code, caught.value.pointer) == ("schema_unsupported", f"/{keyword}")
    assert schema_module(wrapper, on_unsupported="ignore").report[f"/{keyword}"] == "ignored"


def test_annotations_with_the_names_of_such_places_are_annotations() -> None:
    for schema in (
        {"type": "string", "schema": POINT},
        {"schema": "a"},
        {"x-schema": POINT},
        {"properties": {"a": {"parameters": POINT}}},
        {"$defs": {"a": {}}, "$ref": "#/$defs/a", "function": {}},
    ):
        schema_module(schema)
