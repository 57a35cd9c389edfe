"""A format is a TOML file: its own ones load, a new one of a known family needs nothing else, a wrong one says where it is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from narrows import formats
from narrows.errors import FormatError, InputError

LONGCAT = """
name = "longcat"
title = "A JSON object in its own markers"
models = ["LongCat"]
reasoning = "think"

[[call]]
family = "json_object"
form = "object"
open = "<longcat_tool_call>"
close = "</longcat_tool_call>"

[layout]
between = "\\n"
"""

OBJECT = LONGCAT[LONGCAT.index("family") : LONGCAT.index("open =")]
ARRAY = 'family = "json_array"\nform = "array"\n'
NAMED = 'family = "json_arguments"\nform = "named"\narguments_open = ">"\n'
TAGS = """family = "xml_parameters"
form = "tags"
call_open = "<f="
name_end = ">"
call_close = "</f>"
parameter_open = "<p="
key_end = ">"
parameter_close = "<<p<"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_formats_that_are_brought() -> None:
    assert {"hermes_json", "mistral", "qwen3_xml"} <= set(formats.names())
    assert list(formats.names()) == sorted(formats.names())
    for name in formats.names():
        fmt = formats.get(name)
        assert fmt.name == name
        assert fmt.title
        assert fmt.models
        assert fmt.source
        for alias in fmt.aliases:
            assert formats.get(alias) is fmt
    aliases = [alias for name in formats.names() for alias in formats.get(name).aliases]
    assert len(set(aliases)) == len(aliases)
    assert not set(aliases) & set(formats.names())


def test_a_format_of_ones_own(tmp_path: Path) -> None:
    fmt = formats.load(write(tmp_path, LONGCAT))
    call = {"function": {"name": "now", "arguments": {"a": "</longcat_tool_call>"}}}
    text = fmt.render({"reasoning": "Hm.", "content": "Look: ", "tool_calls": [call, call]})
    message = fmt.parse(text)
    assert (message.reasoning, message.content) == ("Hm.", "Look: ")
    assert [json.loads(c.arguments) for c in message.tool_calls] == [call["function"]["arguments"]] * 2
    assert fmt.grammar(None).module.rules


@pytest.mark.parametrize(
    ("change", "pointer", "says"),
    [
        (('name = "longcat"', ""), "/name", "missing"),
        (('name = "longcat"', "name = 5"), "/name", "string"),
        (('title = "A', 'titel = "A'), "/titel", "allowed: aliases, call"),
        (('family = "json_object"', 'family = "yaml"'), "/call/0/family", "json_object"),
        (('family = "json_object"', ""), "/call/0/family", "one of"),
        (('form = "object"', ""), "/call/0/form", "missing"),
        (('form = "object"', 'form = "object"\nclosed = "x"'), "/call/0/closed", "close"),
        (('form = "object"', 'form = "object"\nname_keys = "name"'), "/call/0/name_keys", "list of strings"),
        (('form = "object"', 'form = "object"\nname_keys = []'), "/call/0/name_keys", "empty"),
        (('open = "<longcat_tool_call>"', 'open = ""'), "/call/0/open", "empty"),
        ((OBJECT, TAGS), "/call/0", "'<<p<' ends as it begins"),
        ((OBJECT, OBJECT + "written = '{\"name\": $name}'\n"), "/call/0/written", "$arguments once"),
        ((OBJECT, ARRAY + 'end = ")"\n'), "/call/0/end", "']'"),
        ((OBJECT, ARRAY + 'open_also = [""]\n'), "/call/0/open_also", "empty"),
        ((OBJECT, NAMED + 'header = "$name"\n'), "/call/0/header", "between $name and $index"),
        ((OBJECT, NAMED + 'header = "$name:"\n'), "/call/0/header", "end with $index"),
        ((OBJECT, NAMED + 'section_open = "<s>"\n'), "/call/0/section_close", "section_open"),
        ((OBJECT, NAMED + 'type = "function"\n'), "/call/0/name_open", "type"),
        (("[[call]]", "[call]"), "/call", "at least one"),
        (('between = "\\n"', "between = 1"), "/layout/between", "string"),
        (('between = "\\n"', 'beyond = ""'), "/layout/beyond", "before, between"),
        (('between = "\\n"', "reasoning = 1"), "/layout/reasoning", "a table"),
        (('between = "\\n"', 'reasoning.before = ""'), "/layout/reasoning/before", "after_open"),
        (('between = "\\n"', 'reasoning.after_open = " "'), "/layout/reasoning/after_open", "the style reads"),
        ((OBJECT, OBJECT + "written_also = ['$name']\n"), "/call/0/written_also", "$arguments once"),
        (("[layout]", '[overflow]\nopening = "content"\n[layout]'), "/overflow", "leave it out"),
        (("[layout]", "[detect]\nany = []\n[layout]"), "/detect/all", "missing"),
        (('models = ["LongCat"]', 'models = "LongCat"'), "/models", "list of strings"),
        (('reasoning = "think"', 'reasoning = "aloud"'), None, "think_open"),
        (('reasoning = "think"', 'ids = "uuid"'), "/ids", "openai"),
        (('reasoning = "think"', "verified = 1"), "/verified", "true or false"),
        (('reasoning = "think"', 'untyped = "yaml"'), "/untyped", "one of string, json"),
        (("[layout]", "layout = ["), None, "is not TOML"),
    ],
)
def test_what_is_wrong_and_where(tmp_path: Path, change: tuple[str, str], pointer: str | None, says: str) -> None:
    assert change[0] in LONGCAT
    with pytest.raises(FormatError) as error:
        formats.load(write(tmp_path, LONGCAT.replace(*change)))
    assert error.value.pointer == pointer
    assert says in str(error.value)
    if pointer is not None:
        assert "mine.toml" in error.value.message


def test_two_forms_need_two_names(tmp_path: Path) -> None:
    second = LONGCAT[LONGCAT.index("[[call]]") : LONGCAT.index("[layout]")]
    with pytest.raises(FormatError, match="same form"):
        formats.load(write(tmp_path, LONGCAT + second))


@pytest.mark.parametrize("data", [b"\xff\xfe", b"a = " + b"[" * 5000, b"\0"])
def test_files_that_are_no_toml(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(data)
    with pytest.raises(FormatError):
        formats.load(path)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FormatError) as error:
        formats.load(tmp_path / "none.toml")
    assert error.value.code == "format_unreadable"


def test_names_that_are_not_known() -> None:
    with pytest.raises(FormatError) as error:
        formats.get("hermes_yaml")
    assert error.value.code == "format_unknown"
    assert "hermes_json" in str(error.value)
    with pytest.raises(FormatError):
        formats.get("../hermes_json")
    with pytest.raises(FormatError):
        formats.reasoning_style("auto")


@pytest.mark.parametrize(
    "message",
    [
        5,
        {"content": 5},
        {"tool_calls": [{}]},
        {"tool_calls": [{"function": {"name": "a", "arguments": 5}}]},
    ],
)
def test_messages_that_cannot_be_rendered(message: Any) -> None:
    with pytest.raises(InputError):
        formats.get("hermes_json").render(message)


@pytest.mark.parametrize("arguments", ["{", "[1]", "[" * 100_000])
def test_arguments_that_cannot_be_parameters(arguments: str) -> None:
    with pytest.raises(InputError):
        formats.get("qwen3_xml").render({"tool_calls": [{"function": {"name": "a", "arguments": arguments}}]})


def test_values_that_are_no_json() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    for value in ({"a": {1, 2}}, deep):
        with pytest.raises(InputError):
            formats.get("hermes_json").render({"tool_calls": [{"function": {"name": "a", "arguments": value}}]})
