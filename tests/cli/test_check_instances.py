"""`narrows check --instance` and `--text`: whether a value is in the grammar, and which keyword refuses it where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from narrows import Grammar
from narrows.cli.app import app
from narrows.cli.reading import Answer, json_fault, read

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 5},
        "ids": {"type": "array", "items": {"$ref": "#/$defs/id"}},
        "size": {"anyOf": [{"type": "number", "maximum": 9}, {"const": "all"}]},
        "mail": {"type": "string", "format": "email"},
    },
    "required": ["name", "ids"],
    "additionalProperties": False,
    "$defs": {"id": {"type": "integer", "minimum": 3}},
}


def check(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["check", *arguments], input=stdin, env={"COLUMNS": "80"})


@pytest.fixture
def schema(tmp_path: Path) -> str:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    return str(path)


def answer(value: str | bytes, schema: dict[str, Any] = SCHEMA, **options: str) -> Answer:
    grammar = Grammar.from_json_schema(schema, on_unsupported="ignore", **options)
    return read(grammar, value.encode() if isinstance(value, str) else value)


@pytest.mark.parametrize(
    ("value", "keywords", "pointer", "line", "column"),
    [
        ('{"name": "Adalbert", "ids": []}', ["/properties/name/maxLength"], "/name", 1, 16),
        ('{"name": "Ada",\n "ids": [4, 12, 1]}', ["/$defs/id/minimum"], "/ids/2", 2, 18),
        ('{"name": "é",\n\n "ids": [4, "é"]}', ["/$defs/id/type"], "/ids/1", 3, 13),
        ('{"name": "Ada"}', ["/required"], "", 1, 15),
        ('{"name": "Ada", "ids": [], "other": 1}', ["/additionalProperties"], "", 1, 29),
        ("[]", ["/type"], "", 1, 1),
    ],
)
def test_the_keyword_and_the_place(value: str, keywords: list[str], pointer: str, line: int, column: int) -> None:
    refusal = answer(value).refusal
    assert refusal is not None
    assert list(refusal.keywords) == keywords
    assert (refusal.value, refusal.line, refusal.column) == (pointer, line, column)


def test_of_branches_a_keyword_is_named_without_which_the_value_is_allowed() -> None:
    refusal = answer('{"name": "Ada", "ids": [], "size": 10}').refusal
    assert refusal is not None
    assert refusal.keywords == ("/properties/size/anyOf/1/const",)
    assert (refusal.value, refusal.expected) == ("/size", 'a number at most 9 or "all"')


@pytest.mark.parametrize(
    ("value", "spelling"),
    [
        ('{"ids": [], "name": "Ada"}', "the order of keys"),
        ('{"name": "Ada",\n\n\n"ids": []}', "white space"),
        ('{"ids": [],\n\n\n"name": "Ada"}', "the order of keys and white space"),
        ('{"name": "Ada", "ids": [4.0]}', "how a number, a string or a repeated key is written"),
        ('{"name": "Ada", "name": "Bob", "ids": []}', "how a number, a string or a repeated key is written"),
    ],
)
def test_only_the_spelling_is_refused(value: str, spelling: str) -> None:
    found = answer(value)
    assert (found.allowed, found.spelling) == (False, spelling)
    assert jsonschema_rs.is_valid(SCHEMA, json.loads(value))


def test_a_keyword_counts_before_the_spelling() -> None:
    """The keys are out of order, and a later value is invalid: the value is what must be changed."""
    found = answer('{"ids": [1],\n\n\n\n"name": "Ada"}')
    assert found.spelling is None
    assert found.refusal is not None
    assert found.refusal.keywords == ("/$defs/id/minimum",)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 12) | st.sampled_from(["", "all", "é", "Adalbert", 0.5, 1e2]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "ids", "size", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
LIKELY = st.fixed_dictionaries(
    {"ids": st.lists(st.integers(0, 9), max_size=3), "name": st.text("aé", max_size=7)},
    optional={"size": st.integers(6, 12) | st.just("all")},
)


@given(VALUES | LIKELY, st.sampled_from([None, 2, 5]))
def test_allowed_or_misspelled_is_what_a_validator_calls_valid(value: Any, indent: int | None) -> None:
    schema = {**SCHEMA, "properties": {name: SCHEMA["properties"][name] for name in ("name", "ids", "size")}}
    found = answer(json.dumps(value, indent=indent), schema)
    assert (found.allowed or found.spelling is not None) == jsonschema_rs.is_valid(schema, value), found


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [(b"", 1, 1), (b'{"a":\n1,}', 2, 3), (b'{"a"', 1, 5), ("{é".encode(), 1, 2), (b"\xff", 1, 1), (b"1 2", 1, 3)],
)
def test_what_is_no_json_has_a_line_and_a_column(text: bytes, line: int, column: int) -> None:
    fault = json_fault(text)
    assert fault is not None
    assert (fault.line, fault.column) == (line, column)
    assert json_fault(b' {"a": 1}\n') is None


class TestCommand:
    def test_several_instances_and_what_they_are_called(self, schema: str, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_text('{"name": "Ada", "ids": [3]}\n')
        (tmp_path / "b.json").write_text('\n{"name": "Ada",\n "ids": [1]}\n')
        names = [str(tmp_path / "a.json"), str(tmp_path / "b.json"), "-", "[1]", "{"]
        arguments = [part for name in names for part in ("--instance", name)]
        result = check(schema, *arguments, "--json", stdin='{"ids": [], "name": "Ada"}')
        assert result.exit_code == 1
        first, second, third, fourth, fifth = json.loads(result.stdout)["instances"]
        assert first == {"source": names[0], "allowed": True, "error": None, "refusal": None, "only_spelling": None}
        assert second["refusal"] == {
            "offset": 27,
            "line": 3,
            "column": 11,
            "found": "]}",
            "expected": "an integer of at least 3",
            "characters": second["refusal"]["characters"],
            "value": "/ids/0",
            "keywords": ["/$defs/id/minimum"],
            "schemas": second["refusal"]["schemas"],
            "rules": [],
        }
        assert (third["source"], third["only_spelling"]) == ("standard input", "the order of keys")
        assert (fourth["source"], fourth["refusal"]["keywords"]) == ("--instance #4", ["/type"])
        assert (fifth["error"]["code"], fifth["error"]["column"]) == ("json_invalid", 2)

    def test_what_people_read(self, schema: str) -> None:
        result = check(schema, "--instance", '{"name": "Adalbert"}')
        assert result.exit_code == 1
        shown = result.stdout[result.stdout.index("--instance:") :]
        assert shown.splitlines() == [
            "--instance: not allowed",
            *folded_refusal(schema, "/properties/name/maxLength"),
            "  at        line 1, column 16, in the value /name",
            "  found     'ert\"}'",
            "  expected  a string of at most 5 characters",
        ]
        assert check(schema, "--instance", '{"name": "Ada", "ids": []}').exit_code == 0
        spelled = check(schema, "--instance", '{"ids": [], "name": "Ada"}')
        assert spelled.exit_code == 1
        assert "only the spelling. The schema allows the value." in spelled.stdout
        assert "  spelling  the order of keys\n" in spelled.stdout

    def test_a_keyword_that_is_enforced_as_less(self, schema: str) -> None:
        shown = check(schema, "--instance", '{"name": "Ada", "ids": [], "mail": "\\"a b\\"@x.org"}').stdout
        assert "the schema may allow the value; this keyword is enforced as less: no quoted" in " ".join(shown.split())

    def test_keys_in_any_order(self, schema: str) -> None:
        """The value whose only fault was its spelling is allowed, and `required` holds in any order."""
        turned = '{"ids": [], "name": "Ada"}'
        assert check(schema, "--instance", turned).exit_code == 1
        assert check(schema, "--instance", turned, "--key-order", "declared").exit_code == 1
        assert check(schema, "--instance", turned, "--key-order", "any").exit_code == 0
        assert check(schema, "--instance", '{"ids": []}', "--key-order", "any").exit_code == 1

    @pytest.mark.parametrize(
        ("option", "value"),
        [("--instance", '"a"'), ("--key-order", "any"), ("--additional", "declared"), ("--additional", "standard")],
    )
    def test_what_is_for_schemas(self, tmp_path: Path, option: str, value: str) -> None:
        path = tmp_path / "pattern.txt"
        path.write_text("a+")
        result = check(str(path), "--regex", option, value)
        assert result.exit_code == 2
        assert f"{option}: it goes with a JSON Schema" in result.stderr

    @pytest.mark.parametrize("language", [[], ["--grammar"], ["--language", "substring"]])
    def test_what_is_for_regular_expressions(self, tmp_path: Path, language: list[str]) -> None:
        path = tmp_path / "file"
        path.write_text('"a"' if language else "{}")
        result = check(str(path), *language, "--dialect", "python")
        assert result.exit_code == 2
        assert "--dialect: it goes with --regex" in result.stderr

    def test_texts_say_the_same(self, schema: str, tmp_path: Path) -> None:
        """For a schema they are instances without white space around them. For other grammars, rules are named."""
        value = '{"name": "Adalbert"}'
        result = json.loads(check(schema, "--instance", value, "--text", value, "--json").stdout)
        assert result["texts"][0]["refusal"] == result["instances"][0]["refusal"]
        assert check(schema, "--text", '{"name": "Ada", "ids": []}\n').exit_code == 1
        path = tmp_path / "pairs.gbnf"
        path.write_text('root ::= "(\\n" inner ")"\ninner ::= [a-c]+ root?\n')
        asked = (str(path), "--grammar", "--text", "(\nab(x")
        refusal = json.loads(check(*asked, "--json").stdout)["texts"][0]["refusal"]
        assert (refusal["line"], refusal["column"], refusal["found"]) == (2, 4, "x")
        assert (refusal["expected"], refusal["rules"], refusal["value"]) == ("'\\n'", ["1:1"], None)
        assert f"rules1:1of{path}" in "".join(check(*asked).stdout.split())

    def test_only_one_input_is_standard_input(self, schema: str) -> None:
        assert check("-", "--instance", "-", stdin="{}").exit_code == 2
        assert check(schema, "--text", "-", "--instance", "-", stdin="{}").exit_code == 2


def folded_refusal(schema: str, pointer: str) -> list[str]:
    from narrows.cli.terminal import folded

    first, *rest = folded(f"by {schema}: {pointer}", 68)
    return [f"  refused   {first}", *(" " * 12 + line for line in rest)]
