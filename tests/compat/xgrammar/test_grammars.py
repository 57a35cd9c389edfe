"""Grammars: the options of schemas, regular expressions, EBNF, structural tags, what is joined, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

import narrows.compat.xgrammar as ours

PAIR = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "string"}}},
    "required": ["a"],
}
TUPLE = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}]}


def accepts(xgr: Any, grammar: Any, *texts: str) -> list[bool]:
    return [xgr.testing._is_grammar_accept_string(grammar, text) for text in texts]


@pytest.mark.parametrize(
    ("options", "yes", "no"),
    [
        (
            {},
            ['{"a":1}', '{ "a" :\r\n\t1 , "b":[ "x" ,"y"]}'],
            [' {"a":1}', '{"a":1} ', '{"b":[]}', '{"a":1,"c":2}', '{"b":[],"a":1}'],
        ),
        ({"strict_mode": False}, ['{"a":1,"c":2}', '{"a":1,"b":[],"c":{"d":null}}'], ['{"c":2}']),
        ({"any_whitespace": False}, ['{"a": 1, "b": ["x", "y"]}'], ['{"a":1}', '{"a": 1,"b": []}', '{"a": 1 }']),
        ({"any_whitespace": False, "separators": (",", ":")}, ['{"a":1,"b":["x","y"]}'], ['{"a": 1}']),
        ({"indent": 2, "separators": (",", ":")}, ['{ "a":1}'], []),
        ({"max_whitespace_cnt": 2}, ['{ \n"a" \t: 1}', '{\r\r"a":1}'], ['{   "a":1}', '{"a":1   }']),
    ],
)
def test_options_of_schemas(xgr: Any, options: dict[str, Any], yes: list[str], no: list[str]) -> None:
    grammar = xgr.Grammar.from_json_schema(PAIR, **options)
    assert accepts(xgr, grammar, *yes, *no) == [True] * len(yes) + [False] * len(no)


def test_other_separators() -> None:
    grammar = ours.Grammar.from_json_schema(PAIR, any_whitespace=False, separators=(" ,", ":\t"))
    texts = '{"a":\t1 ,"b":\t["x" ,"y"]}', '{"a":1}', '{"a":\t1,"b":\t[]}'
    assert accepts(ours, grammar, *texts) == [True, False, False]


@pytest.mark.parametrize(
    ("schema", "strict", "loose"),
    [
        (TUPLE, ["[]", "[1]", "[1,true]"], ["[1,true,3]"]),
        ({**TUPLE, "items": {"type": "null"}}, ["[1,true,null]"], []),
        (
            {"properties": {"enum": TUPLE, "const": TUPLE}, "type": "object"},
            ['{"enum":[1],"const":[2,true]}'],
            ['{"enum":[1,true,3]}'],
        ),
        ({"$defs": {"t": TUPLE}, "type": "array", "items": {"$ref": "#/$defs/t"}}, ["[[1]]"], ["[[1,true,3]]"]),
        ({"type": "object"}, ['{"x":1}', "{}"], []),
        ({"type": "array"}, ["[1,2]"], []),
        ({"type": "object", "properties": {}}, ["{}", "{ }"], ['{"x":1}']),
        ({"enum": [{"prefixItems": [1]}]}, ['{"prefixItems":[1]}'], []),
    ],
)
def test_strict_mode(xgr: Any, schema: Any, strict: list[str], loose: list[str]) -> None:
    grammar = xgr.Grammar.from_json_schema(schema)
    assert accepts(xgr, grammar, *strict, *loose) == [True] * len(strict) + [False] * len(loose)
    if loose:
        grammar = xgr.Grammar.from_json_schema(schema, strict_mode=False)
        assert accepts(xgr, grammar, *strict, *loose) == [True] * (len(strict) + len(loose))


def test_schemas_as_text_and_as_models(xgr: Any) -> None:
    pydantic = pytest.importorskip("pydantic")

    class Person(pydantic.BaseModel):
        name: str
        age: int

    for schema in (Person, json.dumps(Person.model_json_schema()), Person.model_json_schema()):
        grammar = xgr.Grammar.from_json_schema(schema)
        assert accepts(xgr, grammar, '{"name":"Ada","age":36}', '{"name":"Ada"}') == [True, False]
    with pytest.raises(ValueError, match=r"."):
        xgr.Grammar.from_json_schema(3)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a|b", ["a", "b"], ["", "ab"]),
        ("^[0-9]{2,3}$", ["12", "123"], ["1", "1234"]),
        (".", ["x", "\n", "é"], ["", "ab"]),
        ("[^a]*", ["\n", "bé"], ["a"]),
        (r"\w+(-\w+)*", ["ab-c_1"], ["é", "a--b"]),
        (r"(?:a|b)\.\u00e9?", ["a.", "b.é"], ["a"]),
        ("", [""], ["a"]),
    ],
)
def test_regular_expressions(xgr: Any, pattern: str, yes: list[str], no: list[str]) -> None:
    grammar = xgr.Grammar.from_regex(pattern)
    assert accepts(xgr, grammar, *yes, *no) == [True] * len(yes) + [False] * len(no)


def test_ebnf(xgr: Any) -> None:
    text = 'root ::= "(" root ")" | x{2}\nx ::= [a-c] | "é"\n'
    assert accepts(xgr, xgr.Grammar.from_ebnf(text), "((aé))", "bc", "(a)", "") == [True, True, False, False]
    assert accepts(xgr, xgr.Grammar.from_ebnf(text, root_rule_name="x"), "a", "aa") == [True, False]
    assert accepts(xgr, text, "(aa)") == [True]


def test_any_json(xgr: Any) -> None:
    grammar = xgr.Grammar.builtin_json_grammar()
    yes = ["{}", "[]", '{"a": [1, -2.5e3, "x\\n\\u00e9", true, null, {"b": []}]}', "[ ]"]
    no = ["1", '"a"', "null", "[1,]", "{a:1}", " {}", "[01]"]
    assert accepts(xgr, grammar, *yes, *no) == [True] * len(yes) + [False] * len(no)


def test_joined(xgr: Any) -> None:
    grammar = xgr.Grammar
    some = grammar.concat(
        grammar.from_regex("a+"), grammar.union(grammar.from_ebnf('root ::= "b"'), grammar.builtin_json_grammar())
    )
    assert accepts(xgr, some, "ab", "aa[1]", "a", "b") == [True, True, False, False]
    again = grammar.deserialize_json(some.serialize_json())
    assert accepts(xgr, again, "ab", "aa[1]", "a", "b") == [True, True, False, False]


def test_lark(xgr: Any) -> None:
    grammar = xgr.Grammar.from_lark('start: "a" @x | /b+/', named_grammars={"x": 'start: "c"'})
    assert accepts(xgr, grammar, "ac", "bb", "a") == [True, True, False]
    grammar = xgr.Grammar.from_lark('start: "a" @x', named_grammars={"x": xgr.Grammar.from_regex("d")})
    assert accepts(xgr, grammar, "ad", "ac") == [True, False]


CALL = {"type": "tag", "begin": "<f>", "content": {"type": "json_schema", "json_schema": PAIR}, "end": "</f>"}
TAG = {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<f"], "tags": [CALL]}}


def test_structural_tags(xgr: Any) -> None:
    texts = ("", "some text", 'a<f>{"a" :1}</f>b<f>{"a":2}</f>', '<f>{"a":1,"c":2}</f>', "<f>{}</f>", "<fx")
    for tag in (TAG, json.dumps(TAG)):
        assert accepts(xgr, xgr.Grammar.from_structural_tag(tag), *texts) == [True, True, True, False, False, False]
    with pytest.raises(xgr.InvalidJSONError):
        xgr.Grammar.from_structural_tag("{")
    for wrong in ({"type": "x"}, {"type": "structural_tag", "format": {"type": "no"}}):
        with pytest.raises(xgr.InvalidStructuralTagError):
            xgr.Grammar.from_structural_tag(wrong)
    for arguments in ((), (3,), (TAG, 3)):
        with pytest.raises(TypeError):
            xgr.Grammar.from_structural_tag(*arguments)


def test_structural_tags_as_models(xgr: Any) -> None:
    pytest.importorskip("pydantic")
    tag = xgr.StructuralTag.from_json(json.dumps(TAG))
    assert tag == xgr.StructuralTag.from_json(TAG)
    assert accepts(xgr, xgr.Grammar.from_structural_tag(tag), 'x<f>{"a":1}</f>', "<f>") == [True, False]
    item = xgr.StructuralTagItem(begin="<f>", schema=json.dumps(PAIR), end="</f>")
    legacy = xgr.StructuralTag.from_legacy_structural_tag([item], ["<f"])
    assert legacy.format.tags[0].begin == "<f>"
    for grammar in (
        xgr.Grammar.from_structural_tag([item], ["<f"]),
        xgr.Grammar.from_structural_tag(tags=[item], triggers=["<f"]),
    ):
        assert accepts(xgr, grammar, 'x<f>{"a":1}</f>', "<f>") == [True, False]
    st = xgr.structural_tag
    built = xgr.StructuralTag(
        format=st.SequenceFormat(
            elements=[
                st.TagFormat(begin="<think>", content=st.AnyTextFormat(), end="</think>"),
                st.OrFormat(elements=[st.RegexFormat(pattern="[0-9]+"), st.ConstStringFormat(value="no")]),
            ]
        )
    )
    assert accepts(xgr, xgr.Grammar.from_structural_tag(built), "<think>x</think>12", "<think></think>no", "12") == [
        True,
        True,
        False,
    ]


def test_models_are_written_as_xgrammar_writes_them() -> None:
    theirs = pytest.importorskip("xgrammar", reason="make test-transformers installs xgrammar, to compare with")
    elements = [
        {"type": "any_text", "excludes": ["x"], "max_chars": 3}, {"type": "any_tokens"}, {"type": "exclude_token", "exclude_tokens": [1, "a"]},
        {"type": "const_string", "value": "v"}, {"type": "grammar", "grammar": 'root ::= "a"'}, {"type": "regex", "pattern": "a"},
        {"type": "json_schema", "json_schema": True}, {"type": "qwen_xml_parameter", "json_schema": {}}, {"type": "token", "token": 3},
        {"type": "optional", "content": CALL}, {"type": "plus", "content": CALL}, {"type": "star", "content": CALL},
        {"type": "repeat", "min": 1, "max": -1, "content": CALL}, {"type": "or", "elements": [CALL]}, TAG["format"],
        {"type": "tags_with_separator", "tags": [CALL], "separator": ","},
        {"type": "dispatch", "rules": [["a", CALL]]}, {"type": "token_dispatch", "rules": [[1, CALL]]},
        {"type": "token_triggered_tags", "trigger_tokens": [1], "tags": [{**CALL, "begin": {"type": "token", "token": 1}, "end": ["a", "b"]}]},
    ]  # fmt: skip
    tag = {"type": "structural_tag", "format": {"type": "sequence", "elements": elements}}
    mine, other = (json.loads(xgr.StructuralTag.from_json(tag).model_dump_json()) for xgr in (ours, theirs))
    assert mine == other


@pytest.mark.parametrize(
    "make",
    [
        lambda xgr: xgr.Grammar.from_ebnf("root ::= x"),
        lambda xgr: xgr.Grammar.from_ebnf('root ::= "a"', root_rule_name="x"),
        lambda xgr: xgr.Grammar.from_regex("(a"),
        lambda xgr: xgr.Grammar.from_json_schema("{"),
        lambda xgr: xgr.Grammar.from_json_schema({"type": "foo"}),
        lambda xgr: xgr.Grammar.from_json_schema("false"),
        lambda xgr: xgr.Grammar.from_json_schema({}, max_whitespace_cnt=0),
        lambda xgr: xgr.Grammar.deserialize_json("{"),
        lambda xgr: xgr.Grammar.deserialize_json("{}"),
    ],
)
def test_what_cannot_be_read(xgr: Any, make: Any) -> None:
    with pytest.raises(RuntimeError):
        make(xgr)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: ours.Grammar.from_json_schema({}, any_whitespace=False, indent=2), "compat_unsupported"),
        (lambda: ours.Grammar.from_json_schema({}, print_converted_ebnf=True), "compat_unsupported"),
        (lambda: ours.Grammar.from_regex("a", print_converted_ebnf=True), "compat_unsupported"),
        (lambda: ours.Grammar.from_json_schema({}, any_whitespace=False, separators=(";", ":")), "argument_invalid"),
        (lambda: ours.Grammar.from_json_schema({"type": "object", "uniqueItemz": True}), "schema_unsupported"),
        (lambda: ours.Grammar.from_json_schema("{"), "schema_invalid"),
        (lambda: ours.Grammar.from_ebnf("root ::= x"), "ebnf_invalid"),
        (lambda: ours.Grammar.concat(), "argument_invalid"),
        (lambda: ours.Grammar.union(), "argument_invalid"),
        (lambda: ours.Grammar.concat("a"), "wrong_type"),  # type: ignore[arg-type]
        (lambda: ours.Grammar.from_regex(3), "wrong_type"),  # type: ignore[arg-type]
        (lambda: ours.Grammar.from_json_schema({"enum": [{1, 2}]}), "wrong_type"),
        (lambda: ours.Grammar.from_lark("start: @x", named_grammars={"x": 3}), "wrong_type"),  # type: ignore[dict-item]
        (lambda: ours.get_model_structural_tag("llama"), "compat_unsupported"),
        (lambda: ours.get_builtin_structural_tag("llama"), "compat_unsupported"),
        (lambda: ours.register_model_structural_tag("llama"), "compat_unsupported"),
        (lambda: ours.normalize_tool_choice("auto"), "compat_unsupported"),
        (lambda: ours.set_max_recursion_depth(-1), "argument_invalid"),
    ],
)
def test_what_is_refused_has_a_code(make: Any, code: str) -> None:
    with pytest.raises(ours.CompatError) as caught:
        make()
    assert caught.value.code == code
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "steps",
    [None, [], [["regex"]], [["regex", 1]], [["no", "x"]], [["regex", "a"], ["regex", "b"]], [["concat", "2"], ["regex", "a"]],
     [["regex", "a"], ["concat", "-1"]], [["regex", "a"], ["concat", "²"]], [["regex", "a"], ["union", "0"]]],
)  # fmt: skip
def test_definitions_that_are_none(steps: Any) -> None:
    text = json.dumps({"steps": steps, "__VERSION__": ours.get_serialization_version()})
    with pytest.raises(ours.DeserializeFormatError):
        ours.Grammar.deserialize_json(text)


def test_errors_keep_their_places() -> None:
    with pytest.raises(ours.CompatError) as caught:
        ours.Grammar.from_ebnf('root ::= "a"\nx ::= (')
    assert caught.value.line == 2
    with pytest.raises(ours.CompatError) as caught:
        ours.Grammar.from_json_schema({"properties": {"a": {"type": "foo"}}})
    assert caught.value.pointer == "/properties/a/type"


def test_a_grammar_of_hundreds_of_others_is_read_again() -> None:
    grammar = ours.Grammar.from_regex("a")
    for _ in range(300):
        grammar = ours.Grammar.concat(grammar, ours.Grammar.from_regex("b"))
    again = ours.Grammar.deserialize_json(grammar.serialize_json())
    assert accepts(ours, again, "a" + "b" * 300, "ab") == [True, False]


def test_a_recursion_depth_can_be_set(xgr: Any) -> None:
    before = xgr.get_max_recursion_depth()
    with xgr.max_recursion_depth(123):
        assert xgr.get_max_recursion_depth() == 123
    assert xgr.get_max_recursion_depth() == before
