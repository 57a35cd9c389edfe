"""Reading is bounded work: what grows faster than its text is refused by a count, with its place, and what is only long is read.

Each case took seconds to minutes, or gigabytes, before its work was counted (sizes are cut here, the limit with them). No test looks at a clock.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from narrows import Grammar, LimitError, Limits, NarrowsError, Vocabulary, formats
from narrows.grammar.flatten import TokenFacts, flatten

FACTS = TokenFacts({}, (0,), dict.fromkeys(range(128_000)))
BOUND = 100_000
LIMITS = Limits(reading_work=BOUND)


def properties(count: int, make: Callable[[int], Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{i}": make(i) for i in range(count)}}


def long_number(i: int, first: str) -> int:
    return int(first + f"{i:06d}" * 66)


def cycles() -> dict[str, Any]:
    """A conjunction of six loops of different lengths has as many places as their product."""
    lengths = (7, 11, 13, 17, 19, 23)
    loops = {
        f"c{n}_{i}": {"properties": {"next": {"$ref": f"#/$defs/c{n}_{(i + 1) % n}"}}}
        for n in lengths
        for i in range(n)
    }
    return {"$defs": loops, "allOf": [{"$ref": f"#/$defs/c{n}_0"} for n in lengths]}


def long_names() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(120):
        schema = {"properties": {"n" * 16_000: schema}}
    return schema


SCHEMAS: dict[str, Callable[[], Any]] = {
    "bounds of 400 digits": lambda: properties(
        200, lambda i: {"type": "integer", "minimum": long_number(i, "1"), "maximum": long_number(i, "9")}
    ),
    "bounds of 400 decimals": lambda: (
        '{"properties":{' + ",".join(f'"p{i}":{{"minimum":0.{"123456" * 60}{i}}}' for i in range(200)) + "}}"
    ),
    "long patterns": lambda: properties(20, lambda i: {"type": "string", "pattern": f"^(ab{i}|cd)*" * 400}),
    "patterns with Unicode classes": lambda: properties(
        30, lambda i: {"type": "string", "pattern": f"[\\p{{L}}{chr(0x2200 + i)}]"}
    ),
    "patterns times alternatives": lambda: {
        "type": "string",
        "allOf": [{"pattern": f"x{i}"} for i in range(300)],
        "anyOf": [{"minLength": i} for i in range(300)],
    },
    "required names": lambda: {"required": [f"name {i}" for i in range(30_000)]},
    "decimals of an enum": lambda: '{"enum":[' + ",".join(f"{i}.5" for i in range(30_000)) + "]}",
    "a multiple of a million digits": lambda: '{"enum":[1.' + "7" * 1_000_000 + '],"multipleOf":0.5}',
    "objects of an enum": lambda: {"enum": [{"a": i, "b": [i, {"c": None}]} for i in range(5_000)]},
    "an enum times alternatives": lambda: {
        "enum": [f"v{i}" for i in range(2_000)],
        "anyOf": [{"minLength": i % 7, "maxLength": 9 + i} for i in range(100)],
    },
    "one enum in many tagged branches": lambda: {
        "$defs": {"e": {"enum": [f"v{i}" for i in range(20_000)]}},
        "oneOf": [
            {"required": ["k", "e"], "type": "object", "properties": {"k": {"const": i}, "e": {"$ref": "#/$defs/e"}}}
            for i in range(200)
        ],
    },
    "alternatives that multiply": lambda: {
        "allOf": [{"anyOf": [{"patternProperties": {f"a{k}{i}": False}} for i in range(8)]} for k in range(4)]
    },
    "a long conjunction in each alternative": lambda: {
        "allOf": [{"minLength": 1, "title": str(i)} for i in range(2_000)],
        "anyOf": [{"maxLength": i} for i in range(2_000)],
    },
    "loops of different lengths": cycles,
    "chains that hold together": lambda: {
        "$defs": {f"d{i}": {"minLength": 1, "$ref": f"#/$defs/d{i + 1}"} for i in range(300)} | {"d300": {}},
        "anyOf": [{"$ref": f"#/$defs/d{i}", "maxLength": k} for i in range(300) for k in range(5)],
    },
    "a base address of 400 KB": lambda: {
        "$id": "http://example.com/" + "a/" * 200_000,
        "$defs": {f"d{i}": {"$id": f"d{i}", "type": "array"} for i in range(200)},
        "anyOf": [{"$ref": f"d{i}"} for i in range(200)],
    },
    "pointers of megabytes": long_names,
    "a long name over many places": lambda: {
        "properties": {"n" * 500_000: properties(500, lambda i: {"minLength": 1})}
    },
    "listed multiples": lambda: properties(
        50, lambda i: {"type": "number", "multipleOf": 0.7, "minimum": i, "maximum": i + 6_990}
    ),
    "multiples by automata": lambda: properties(50, lambda i: {"type": "integer", "multipleOf": 601 + 2 * i}),
    "large counts": lambda: properties(
        500,
        lambda i: {"type": "array", "minItems": 2**30 - i, "maxItems": 2**31 - 1 - 7 * i, "items": {"type": "null"}},
    ),
    "empty arrays": lambda: '{"examples":[' + "[]," * 300_000 + "[]]}",
    "objects that refer to each other": lambda: {
        "$defs": {
            f"d{i}": {"properties": {f"k{j}": {"$ref": f"#/$defs/d{(i * j + 1) % 60}"} for j in range(30)}}
            for i in range(60)
        },
        "allOf": [{"$ref": f"#/$defs/d{i}"} for i in range(5)],
    },
    "dynamic scopes that multiply": lambda: {
        "$id": "http://x.test/root",
        "$ref": "s0",
        "$defs": {
            **{f"s{i}": {"$id": f"s{i}", "anyOf": [{"$ref": f"a{i}"}, {"$ref": f"b{i}"}]} for i in range(20)},
            **{
                f"{way}{i}": {"$id": f"{way}{i}", "$dynamicAnchor": f"n{i}", "items": {"$ref": f"s{i + 1}"}}
                for i in range(20)
                for way in "ab"
            },
            "s20": {"$id": "s20", "items": {"$dynamicRef": "a0#n0"}},
        },
    },
}


def described(count: int) -> dict[str, Any]:
    """An enumeration whose values are described one by one, and what each asks for."""
    names = [f"task{i}" for i in range(count)]
    return {
        "type": "object",
        "properties": {"task": {"anyOf": [{"enum": [name], "description": name} for name in names]}},
        "anyOf": [
            {"properties": {"task": {"enum": [name]}, "inputs": {"required": [name]}}, "required": ["task"]}
            for name in names
        ],
    }


def by_value(count: int) -> dict[str, Any]:
    """What one key may be depends on the value of another."""
    conditions = [
        {
            "if": {"properties": {"type": {"const": f"t{i}"}}, "required": ["type"]},
            "then": {"properties": {"value": {"minimum": i}}},
        }
        for i in range(count)
    ]
    return {"type": "object", "properties": {"type": {"type": "string"}}, "allOf": conditions}


def written_twice() -> dict[str, Any]:
    """Branches that differ in little, and overlap: a schema and the negation of one that is written alike."""

    def field(depth: int) -> dict[str, Any]:
        size = {"color": {"type": "string"}, "size": {"type": "integer"}}
        inner = field(depth - 1) if depth else {"type": "string"}
        return {"type": "object", "properties": {"style": {"type": "object", "properties": size}, "inner": inner}}

    def branch(i: int) -> dict[str, Any]:
        more = {"type": "array", "items": field(3)}
        return {"type": "object", "properties": {"kind": {"enum": [f"k{i}"]}, "content": field(4), "more": more}}

    return {"oneOf": [branch(i) for i in range(8)]}


REGEXES: dict[str, tuple[str, str]] = {
    "repetitions that look ahead, in each other": ("ecma", "(?:(?=" * 300 + "a" + ")b)*" * 300),
    "Unicode classes with a letter": ("python", "".join(f"[\\w{chr(0x2200 + i)}]" for i in range(2_000))),
    "classes without case": ("python", "(?i)" + "".join(f"[\\w{chr(0x2200 + i)}]" for i in range(2_000))),
    "intersections": ("rust", "[" + "\\w&&" * 2_000 + "a]"),
    "differences": ("rust", "[\\w" + "--a" * 4_000 + "]"),
    "differences without case": ("rust", "(?i)[\\w" + "--a" * 4_000 + "]"),
    "classes in classes": ("rust", ("[" * 500 + "".join(f"{chr(0x4E00 + 2 * i)}]" for i in range(500))) * 2),
    "a property in each class": ("rust", "".join(f"[\\pL{chr(0x2200 + i)}--\\pN]" for i in range(500))),
    "what stands before": ("python", "".join(f"(?<={chr(0x4E00 + i)})x" for i in range(2_000))),
    "classes that stand before": (
        "python",
        "".join(f"(?<=[{chr(0x4E00 + i)}-{chr(0x6E00 + i)}])x" for i in range(2_000)),
    ),
    "boundaries": ("python", "\\b" * 10_000),
    "plain text": ("python", "abcdefgh" * 4_000),
}

GRAMMARS: dict[str, str] = {
    "a chain of rules": "root ::= r0\n" + "".join(f"r{i} ::= r{i + 1}\n" for i in range(30_000)) + 'r30000 ::= "x"\n',
    "classes": "root ::= " + "[ab] " * 20_000,
    "classes of their own": "root ::= " + "".join(f"[\\u{0x4E00 + i:04x}-\\u9f00é] " for i in range(2_000)),
    "strings": "root ::= " + '"a" ' * 50_000,
    "empty groups": "root ::= " + "()" * 40_000,
    "alternatives": "root ::= " + " | " * 60_000,
    "lines that end in returns": 'root ::= "a"\r' + "".join(f'r{i} ::= "a"\r' for i in range(30_000)),
    "tokens left out": "root ::= " + "".join(f"!<[{i}]> " for i in range(2_000)),
    "plain BNF": '<root> ::= "x"\n' + "".join(f"<a{i}>::=<root>\n" for i in range(30_000)),
    "comments": 'root ::= "a"\n' + "# x\n" * 150_000,
}


def read(grammar: Grammar, limits: Limits = LIMITS) -> int:
    """To the arrays, as `Vocabulary.compile` does; the work in all but the last step."""
    flatten(grammar.module, FACTS, limits, grammar.work)
    return grammar.work


def refused(make: Callable[[], Grammar]) -> LimitError:
    with pytest.raises(LimitError) as caught:
        read(make())
    error = caught.value
    assert error.limit == "reading_work"
    assert error.where
    assert len(str(error)) < 2_000
    assert error.hint
    assert "reading_work" in error.hint
    return error


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_that_ask_for_too_much(name: str) -> None:
    schema = SCHEMAS[name]()
    assert refused(lambda: Grammar.from_json_schema(schema, limits=LIMITS)).pointer is not None


@pytest.mark.parametrize(
    "schema",
    [
        properties(100, lambda i: {"type": "integer", "multipleOf": 1_009 + i, "minimum": 1, "maximum": 10**9}),
        {"type": "integer", "allOf": [{"multipleOf": 2 + i} for i in range(200)], "anyOf": [{"multipleOf": 3}] * 200},
        {"oneOf": [{"required": [f"r{j}" for j in range(300)], "minLength": i} for i in range(60)], "type": "object"},
    ],
    ids=["automata", "many steps", "pairs of branches"],
)
def test_what_is_left_out_in_the_end_is_counted_too(schema: dict[str, Any]) -> None:
    refused(lambda: Grammar.from_json_schema(schema, on_unsupported="ignore", limits=LIMITS))


def test_keys_that_turn_out_impossible_one_after_the_other_are_counted() -> None:
    """In any order, where pairs of keys do not add up to a number, each is found only after the one in it."""
    objects = {
        f"d{i}": {
            "type": "object",
            "properties": {"a": {"$ref": f"#/$defs/d{i + 1}"}, "b": True, "c": True, "d": True, "e": True},
            "additionalProperties": False,
            "minProperties": 3,
            "maxProperties": 3,
            "dependentRequired": {"b": ["c"], "c": ["b"], "d": ["e"], "e": ["d"]},
        }
        for i in range(500)
    }
    schema = {"$defs": {**objects, "d500": False}, "properties": {"a": {"$ref": "#/$defs/d0"}}}
    refused(lambda: Grammar.from_json_schema(schema, key_order="any", limits=LIMITS))


def test_keys_of_other_branches_are_counted() -> None:
    branches = [{"properties": {}, "required": [f"a{i}_{j}" for j in range(100)]} for i in range(100)]
    refused(
        lambda: Grammar.from_json_schema({"type": "object", "anyOf": branches}, additional="declared", limits=LIMITS)
    )


@pytest.mark.parametrize("name", REGEXES)
def test_patterns_that_ask_for_too_much(name: str) -> None:
    dialect, pattern = REGEXES[name]
    assert refused(lambda: Grammar.from_regex(pattern, dialect, limits=LIMITS)).offset is not None


@pytest.mark.parametrize("name", GRAMMARS)
def test_grammars_that_ask_for_too_much(name: str) -> None:
    assert refused(lambda: Grammar.from_gbnf(GRAMMARS[name], limits=LIMITS)).line is not None


def test_choices_are_counted() -> None:
    assert refused(lambda: Grammar.choice([f"c{i}" for i in range(200_000)], limits=LIMITS)).pointer is not None


QUICK: dict[str, Callable[[], Grammar]] = {
    "case in groups": lambda: Grammar.from_regex("(?i:a(?-i:b))" * 4_000),
    "letters without case": lambda: Grammar.from_regex("(?i)" + "abcdefgh" * 8_000),
    "a property without case": lambda: Grammar.from_regex("(?i:" + "\\p{Lu}" * 10_000 + ")", "ecma"),
    "word characters": lambda: Grammar.from_regex("\\w" * 32_000),
    "one class with itself": lambda: Grammar.from_regex("[" + "\\w" * 32_000 + "]"),
    "a long class": lambda: Grammar.from_regex("[" + "".join(chr(0x4E00 + 2 * i) for i in range(20_000)) + "]"),
    "alternatives that stand before": lambda: Grammar.from_regex(
        "(?<=" + "|".join(chr(0x4E00 + 2 * i) for i in range(10_000)) + ")x"
    ),
    "a string of 1 MB": lambda: Grammar.from_gbnf('root ::= "' + "a" * 1_000_000 + '"'),
    "1 MB of empty lines": lambda: Grammar.from_gbnf('root ::= "a"' + "\n" * 1_000_000),
    "a choice of 8 MB": lambda: Grammar.choice(["x" * 7_000_000, "y" * 1_000_000]),
    "dynamic anchors": lambda: Grammar.from_json_schema(
        {
            "$defs": {f"d{i}": {"$dynamicAnchor": f"a{i}", "type": "null"} for i in range(5_000)},
            "anyOf": [{"$dynamicRef": f"#a{i}"} for i in range(5_000)],
        }
    ),
    "values that are described one by one": lambda: Grammar.from_json_schema(described(700)),
    "conditions by the value of a key": lambda: Grammar.from_json_schema(by_value(250)),
    "branches that are written alike": lambda: Grammar.from_json_schema(written_twice()),
    "six schemas that count items": lambda: Grammar.from_json_schema(
        {"type": "array", "maxItems": 100, "allOf": [{"contains": {"required": [f"k{i}"]}} for i in range(6)]}
    ),
    "an exponent of a billion": lambda: Grammar.from_json_schema('{"enum":[3, 1e999999999],"multipleOf":3}'),
    "long bounds": lambda: Grammar.from_json_schema(
        {"type": "integer", "minimum": long_number(1, "1"), "maximum": long_number(1, "9")}
    ),
    "a million brackets in a text": lambda: Grammar.from_json_schema(json.dumps({"description": '[{"\\' * 1_000_000})),
}


@pytest.mark.parametrize("name", QUICK)
def test_what_is_long_and_plain_is_read(name: str) -> None:
    assert 0 < read(QUICK[name](), Limits()) < 1_000_000


def test_a_multiple_with_an_exponent_is_told_exactly() -> None:
    values = [30, "30", 3.5, "1e9", "1e-9", "12e5", "0e-999999999", "5e999999999", "6e-1", "600e-2", "45e-1"]
    text = '{"enum": [' + ",".join(str(v) for v in values if not isinstance(v, str))
    text += "," + ",".join(v for v in values if isinstance(v, str)) + '], "multipleOf": 1.5}'
    rows = Grammar.from_json_schema(text).module.rules["root"]
    spelled = {option.decode() for option in rows.item.options}  # type: ignore[union-attr]
    assert {"30", "12e5", "0e-999999999", "5e999999999", "600e-2", "45e-1"} - {"5e999999999"} <= spelled
    assert not {"3.5", "1e-9", "6e-1", "1e9"} & spelled


def test_the_tools_of_a_request_share_their_work() -> None:
    schemas = [properties(1, lambda i: {"type": "string", "pattern": f"{k}(ab|cd)*" * 100}) for k in range(50)]  # noqa: B023
    tools = [{"type": "function", "function": {"name": f"t{k}", "parameters": s}} for k, s in enumerate(schemas)]
    for name in ("hermes_json", "qwen3_xml", "pythonic", "glm_xml"):
        with pytest.raises(LimitError) as caught:
            formats.get(name).grammar(tools, tool_choice="required", limits=LIMITS)
        assert caught.value.limit == "reading_work"
        assert (caught.value.pointer or "").startswith("/tools/")
        assert caught.value.pointer != "/tools/0/function/parameters"


def test_compilation_goes_on_from_the_work_of_reading() -> None:
    grammar = Grammar.from_json_schema(properties(300, lambda i: {"enum": [i]}))
    vocabulary = Vocabulary([bytes([b]) for b in range(256)])
    vocabulary.compile(grammar)
    with pytest.raises(LimitError) as caught:
        vocabulary.compile(grammar, limits=replace(LIMITS, reading_work=grammar.work + 10))
    assert caught.value.limit == "reading_work"


def test_what_is_kept_changes_no_count() -> None:
    schema = properties(20, lambda i: {"type": "string", "pattern": f"^[a-f\\d]{{{i}}}-zq", "minLength": 1})
    assert len({Grammar.from_json_schema(schema).work for _ in range(3)}) == 1


def real_schemas() -> list[Any]:
    folder = Path(__file__).parents[2] / "bench" / "schemas"
    return [
        entry["schema"] for path in sorted(folder.glob("*.json")) for entry in _entries(json.loads(path.read_text()))
    ]


def _entries(data: Any) -> list[Any]:
    return list(data.values()) if isinstance(data, dict) else data


WORDS = (*"type properties items anyOf allOf oneOf enum const required $ref minimum maxLength pattern".split(), "x")
VALUES: tuple[Any, ...] = (
    0,
    -1,
    1e300,
    "",
    "string",
    "#",
    "(a|b)*",
    None,
    True,
    [],
    {},
    ["a"],
    10**30,
    0.1,
    "#/$defs/x",
)


def mutated(schema: Any, dice: random.Random) -> Any:
    """Some parts of it are put in other places, said twice, renamed or replaced."""
    made = json.loads(json.dumps(schema))
    for _ in range(dice.randint(1, 12)):
        nodes: list[Any] = []
        todo = [made]
        while todo:
            here = todo.pop()
            if isinstance(here, (dict, list)) and here:
                nodes.append(here)
                todo.extend(here.values() if isinstance(here, dict) else here)
        if not nodes:
            return made
        target, source = dice.choice(nodes), dice.choice(nodes)
        part = dice.choice(list(source.values()) if isinstance(source, dict) else source)
        part = dice.choice((part, dice.choice(VALUES), [part, part], {dice.choice(WORDS): part}))
        part = json.loads(json.dumps(part))
        if isinstance(target, dict):
            target[dice.choice((*target, dice.choice(WORDS)))] = part
        else:
            target[dice.randrange(len(target))] = part
    return made


@pytest.mark.parametrize("seed", range(4))
def test_mutated_real_schemas_are_read_or_refused(seed: int) -> None:
    dice = random.Random(seed)
    schemas = real_schemas()
    for _ in range(25):
        schema = mutated(dice.choice(schemas), dice)
        try:
            work = read(Grammar.from_json_schema(schema, on_unsupported="ignore"), Limits())
            assert work <= 1_000_000
        except NarrowsError:
            pass
