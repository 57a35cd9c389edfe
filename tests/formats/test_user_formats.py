"""Formats of one's own: a reasoning style in the same file, and formats that installed packages add."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from narrows import formats
from narrows.errors import FormatError
from narrows.formats import registry as loader

TOML = """
name = "mine"
title = "Mine"
models = ["Mine"]
aliases = []

[reasoning]
name = "musing"
[[reasoning.pair]]
open = "<muse>"
close = "</muse>"

[[call]]
family = "json_object"
form = "object"
open = "<mine>"
close = "</mine>"
"""
TEXT = '<muse>a</muse><mine>{"name": "f", "arguments": {}}</mine>'


def test_a_reasoning_style_in_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TOML, encoding="utf-8")
    fmt = formats.load(path)
    message = fmt.parse(TEXT)
    assert (message.reasoning, [call.name for call in message.tool_calls]) == ("a", ["f"])
    assert fmt.grammar([{"name": "f"}]).module.rules
    path.write_text(TOML.replace('open = "<muse>"', 'opens = "<muse>"'), encoding="utf-8")
    with pytest.raises(FormatError) as error:
        formats.load(path)
    assert (error.value.pointer or "").startswith("/pair/0")
    assert "mine.toml/reasoning" in str(error.value)


HEADED = """
name = "mine"
title = "Mine"
models = ["Mine"]
aliases = []

[reasoning]
name = "musing"
[[reasoning.pair]]
open = "[in musing]"
close = "[over]"
[[reasoning.content]]
open = "[in speech]"
close = "[over]"
[reasoning.rules]
anywhere = true
content = "data"
message_start = "[me]"
[reasoning.head]
start = "[me]"
channel = "[in"
constrain = "[as"
recipient = "to:"
message = "]"
namespace = ""
people = ["you"]
reasoning = ["musing"]
content = ["speech"]

[[call]]
family = "json_messages"
form = "message"
open = "[in speech to:"
arguments_open = "]"
close = "[over]"

[layout]
between = "[me]"
"""


def test_messages_with_heads_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HEADED, encoding="utf-8")
    fmt = formats.load(path)
    text = '[in musing]Hm.[over][me][in speech to:you]Hi[over][me] to:f [in musing [as json ]{"a": 1}[over]'
    message = fmt.parse(text)
    assert (message.reasoning, message.content) == ("Hm.", "Hi")
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("f", '{"a": 1}')]
    for change, pointer in (
        (('channel = "[in"\n', ""), "/head/channel"),
        (('message = "]"', 'message = ""'), "/head/message"),
        (('content = "data"', 'content = "lines"'), "/rules/content"),
        ((HEADED[HEADED.index("[reasoning.head]") : HEADED.index("[[call]]")], ""), "/call/0/family"),
    ):
        path.write_text(HEADED.replace(*change), encoding="utf-8")
        with pytest.raises(FormatError) as error:
            formats.load(path)
        assert error.value.pointer == pointer


@pytest.fixture
def points(tmp_path: Path) -> Iterator[None]:
    """Entry points of a package `others_formats`, as if it were installed."""
    (tmp_path / "mine.toml").write_text(TOML, encoding="utf-8")
    module = ModuleType("others_formats")
    vars(module).update(path=str(tmp_path / "mine.toml"), ready=formats.load(tmp_path / "mine.toml"), wrong=3)
    sys.modules["others_formats"] = module
    names = {"mine": "path", "ready": "ready", "wrong": "wrong", "gone": "gone", "hermes_json": "wrong"}
    found = {name: EntryPoint(name, f"others_formats:{value}", "narrows.formats") for name, value in names.items()}
    saved = loader._entry_points
    loader._entry_points = lambda: found  # type: ignore[assignment]
    yield
    loader._entry_points = saved
    loader._installed.cache_clear()
    del sys.modules["others_formats"]


@pytest.mark.usefixtures("points")
def test_formats_of_installed_packages() -> None:
    assert formats.installed() == ("gone", "hermes_json", "mine", "ready", "wrong")
    for name in ("mine", "ready"):
        assert formats.get(name).parse(TEXT).reasoning == "a"
    assert formats.get("hermes_json").models  # what narrows brings cannot be replaced unseen
    for name in ("wrong", "gone"):
        with pytest.raises(FormatError) as error:
            formats.get(name)
        assert f"others_formats:{name}" in f"{error.value} {error.value.hint}"
    with pytest.raises(FormatError) as error:
        formats.get("nobody's")
    assert "ready" in (error.value.hint or "")


TRIMMED = """
name = "trimmed"
extends = "qwen3_xml"
strip = true
untyped = "json"
"""
XML = "Ok.\n\n<tool_call>\n<function=f>\n<parameter=n>\n5\n</parameter>\n</function>\n</tool_call>"


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two formats, named in the environment."""
    (tmp_path / "trimmed.toml").write_text(TRIMMED, encoding="utf-8")
    paths = [
        str(tmp_path / "trimmed.toml"),
        "",
        str(tmp_path / "gone.toml"),
        "elsewhere/trimmed.toml",
        "hermes_json.toml",
    ]
    monkeypatch.setenv("NARROWS_FORMATS", os.pathsep.join(paths))


@pytest.mark.usefixtures("listed")
def test_a_format_that_differs_from_another_in_what_it_says() -> None:
    base, mine = formats.get("qwen3_xml"), formats.get("trimmed")
    assert replace(mine, name=base.name, title=base.title, aliases=base.aliases, detect=base.detect) == replace(
        base, strip=True, untyped="json", source=TRIMMED
    )
    plain, trimmed = base.parse(XML), mine.parse(XML)
    assert (plain.content, plain.tool_calls[0].arguments) == ("Ok.\n\n", '{"n": "5"}')
    assert (trimmed.content, trimmed.tool_calls[0].arguments) == ("Ok.", '{"n": 5}')
    assert mine.parse(XML, strip=False).content == "Ok.\n\n"
    assert mine.aliases == ()
    assert mine.detect is None


@pytest.mark.usefixtures("listed")
def test_formats_of_the_environment() -> None:
    assert formats.installed() == ("gone", "hermes_json", "trimmed")
    with pytest.raises(FormatError) as error:
        formats.get("hermes_json")
    assert error.value.code == "format_name_taken"  # what narrows brings cannot be replaced, and not in silence
    with pytest.raises(FormatError) as error:
        formats.get("gone")
    assert error.value.code == "format_unreadable"
    with pytest.raises(FormatError) as error:
        formats.get("nobody's")
    assert "trimmed" in str(error.value.hint)


@pytest.mark.parametrize("base", ["trimmed", "hermes", "../hermes_json"])
def test_only_formats_that_narrows_brings_are_extended(base: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'name = "mine"\nextends = "{base}"\n', encoding="utf-8")
    with pytest.raises(FormatError) as error:
        formats.load(path)
    assert error.value.pointer == "/extends"
    assert "one of narrows' own formats" in str(error.value)
