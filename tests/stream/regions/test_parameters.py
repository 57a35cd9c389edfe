"""Parameters as tags around bare text: where a value ends, what is data in it, and a parameter that is given twice.

The texts are what `render` writes, with other values in their place, so that they are made for every format that there is.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from transcripts import NAMES, TOOLS, check_stream, feed, naming

import narrows
from narrows import formats
from narrows.formats.families.xml_addressed import XmlAddressedShape
from narrows.formats.families.xml_call import XmlShape
from narrows.formats.families.xml_parameters import XmlParametersShape
from narrows.limits import Limits
from narrows.stream import Message

sys.path.insert(0, str(Path(__file__).parents[2] / "formats"))
from test_format_grammar import vocabulary

SHAPES: dict[str, XmlShape] = {
    f"{name} {shape.form}": shape
    for name in NAMES
    for shape in formats.get(name).written
    if isinstance(shape, XmlShape) and getattr(shape, "writes", "tags") != "json"
}


def rendered(of: str, arguments: dict[str, str], values: dict[str, str] | None = None) -> str:
    """A call of `write_file`; `values` stand in the place of the values that are single letters."""
    name, _, form = of.partition(" ")
    text = formats.get(name).render({"tool_calls": [{"name": "write_file", "arguments": arguments}]}, form)
    shape = SHAPES[of]
    line = "\n" if shape.trim_value else ""
    for letter, value in (values or {}).items():
        raw = f">{line}{letter}{line}<"
        if raw not in text:  # Kimi's tags
            raw = f"|>{line}{letter}{line}<|"
        assert text.count(raw) == 1
        text = text.replace(raw, raw.replace(letter, value))
    return text


def read(of: str, text: str) -> Message:
    """The answer, the same in one piece, by character and in a few other pieces."""
    fmt = formats.get(of.partition(" ")[0])
    whole = fmt.parse(text, TOOLS, id_factory=str)
    random = Random(text)
    cuts = [[text[:at], text[at:]] for at in {random.randrange(len(text)) for _ in range(12)}]
    for pieces in [list(text), [text[at : at + 7] for at in range(0, len(text), 7)], *cuts]:
        assert check_stream(feed(fmt.parser(TOOLS, id_factory=str), pieces), len(text)) == whole
    return whole


def arguments(of: str, text: str) -> dict[str, str]:
    """Those of the one complete call that the text is."""
    message = read(of, text)
    with naming(f"{text!r} {message}"):
        (call,) = message.tool_calls
        assert call.complete
        assert message.content is None
    found: dict[str, str] = json.loads(call.arguments, object_pairs_hook=once)
    return found


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def inside(shape: XmlShape) -> list[str]:
    """Values that hold tags of the format, none of which ends them."""
    close, over = shape.parameter_close, shape.call_close
    found = [
        f"see {close} here",
        f"{close}x",
        f"see {close}\nand more",
        f"a{close}\n\n  b {close}, c",
        f"{close[:-1]} {close[:2]} {close}.",
        f"a {over} b",
        f"a\n{over}\nb",
        f"a {over}{close[:-1]} b",
        f"{shape.parameter_open[:-1]} b",
        f"a {shape.close} b",
        f"x\n{close}\n{shape.parameter_open[:-2]} y",
    ]
    if not shape.call_close_may_be_missing:
        found.append(f"a {shape.open} b")
    if not shape.parameter_close_may_be_missing:
        found += [f"a {shape.parameter_open} b", f"a\n{shape.parameter_open}\n"]
    return found


@pytest.mark.parametrize("of", SHAPES)
def test_tags_that_end_nothing_are_data(of: str) -> None:
    shape = SHAPES[of]
    for value in inside(shape):
        for place in ("path", "text"):
            wanted = {"path": "a", "text": "b"}
            text = rendered(of, wanted, {wanted[place]: value})
            assert arguments(of, text) == {**wanted, place: value}, value


@cache
def constraint(of: str) -> narrows.Constraint:
    name = of.partition(" ")[0]
    return vocabulary(name, False)[0].compile(formats.get(name).grammar(TOOLS, "required"))


def accepted(of: str, text: str) -> bool:
    matcher = constraint(of).matcher()
    return matcher.accept_bytes(text.encode()) and matcher.is_accepting


@pytest.mark.parametrize("of", SHAPES)
def test_what_the_grammar_allows_is_read_back(of: str) -> None:
    """Values of tags, halves of them and whitespace: the grammar may refuse one, but what it allows means what was written."""
    shape = SHAPES[of]
    tags = [*shape.tags(), *shape.tags_of_parameters(), shape.call_close, shape.close or shape.open]
    pieces = [*tags, *(tag[: len(tag) // 2] for tag in tags), *(tag[len(tag) // 2 :] for tag in tags)]
    pieces += [" ", "\n", "\n", "x", "]]>", '"', "name=", ">"]
    random, allowed = Random(of), 0
    for _ in range(30):
        value = "".join(random.choice(pieces) for _ in range(random.randrange(1, 6)))
        text = rendered(of, {"path": "a", "text": "b"}, {"a": value})
        if shape.cdata:
            value = "x" + value
            text = rendered(of, {"path": "<" + value, "text": "b"})
            value = "<" + value
        if accepted(of, text):
            allowed += 1
            with naming(repr(value)):
                assert arguments(of, text) == {"path": value, "text": "b"}
    assert allowed > 2


@pytest.mark.parametrize("of", SHAPES)
def test_a_closing_tag_with_text_after_is_allowed(of: str) -> None:
    close = SHAPES[of].parameter_close
    value = f"see {close} here\n{close}, too"
    text = rendered(of, {"path": "a", "text": "b"}, {"a": value})
    if SHAPES[of].cdata:
        text = rendered(of, {"path": value, "text": "b"})
    assert accepted(of, text)


def end_of(of: str, text: str) -> int:
    """Where the last call's closing tag stands."""
    return max(text.rfind(end) for end in SHAPES[of].call_ends())


@pytest.mark.parametrize("of", SHAPES)
def test_a_parameter_counts_once(of: str) -> None:
    """The first time; whatever comes later under its name is read over."""
    one = rendered(of, {"path": "a", "text": "b"})
    other = rendered(of, {"path": "ZZ", "text": "d"})
    begin = one.index(SHAPES[of].parameter_open)
    end = end_of(of, one)
    more = other[begin : end_of(of, other)]
    for repeated in (more, more + more, more.replace("ZZ", "é🌦")):
        text = one[:end] + repeated + one[end:]
        assert arguments(of, text) == {"path": "a", "text": "b"}
    third = rendered(of, {"path": "ZZ", "mode": "m"})
    third = third[third.index(SHAPES[of].parameter_open) : end_of(of, third)]
    assert arguments(of, one[:end] + third + more + one[end:]) == {"path": "a", "text": "b", "mode": "m"}


@pytest.mark.parametrize("of", SHAPES)
def test_two_calls_have_names_of_their_own(of: str) -> None:
    name = of.partition(" ")[0]
    call = {"name": "write_file", "arguments": {"path": "a", "text": "b"}}
    text = formats.get(name).render({"tool_calls": [call, call]}, of.partition(" ")[2])
    assert [json.loads(call.arguments) for call in read(of, text).tool_calls] == [call["arguments"]] * 2


@pytest.mark.parametrize("of", SHAPES)
def test_a_closing_tag_may_be_missing(of: str) -> None:
    """Where the format's models leave it out."""
    shape = SHAPES[of]
    if not shape.parameter_close_may_be_missing:
        return
    whole = rendered(of, {"path": "a", "text": "b", "mode": "c"})
    line = "\n" if shape.trim_value else ""
    close, parts = line + shape.parameter_close, whole.split(line + shape.parameter_close)
    layout = "" if shape.inside else line
    assert len(parts) == 4
    for missing in range(1, 8):
        text = parts[0]
        for at in range(3):
            text += (layout if missing >> at & 1 else close) + parts[at + 1]
        assert arguments(of, text) == {"path": "a", "text": "b", "mode": "c"}, text


@pytest.mark.parametrize("of", SHAPES)
def test_text_after_a_closing_tag_and_no_other_is_no_whole_call(of: str) -> None:
    shape = SHAPES[of]
    whole = rendered(of, {"path": "a"})
    line = "\n" if shape.trim_value else ""
    end = line + shape.parameter_close
    (call,) = read(of, whole.replace(end, end + " hmm ")).tool_calls
    assert not call.complete
    assert call.arguments.startswith('{"path": "a')


@pytest.mark.parametrize("of", SHAPES)
def test_the_names_that_are_kept_are_bounded(of: str) -> None:
    text = rendered(of, {f"k{n}": "v" for n in range(8)})
    name = of.partition(" ")[0]
    for keys, complete in ((8, True), (7, False)):
        for pieces in ([text], list(text)):
            parser = formats.get(name).parser(TOOLS, limits=Limits(stream_keys=keys))
            (call,) = check_stream(feed(parser, pieces), len(text)).tool_calls
            assert call.complete == complete, call
            assert complete or "stream_keys" in (call.reason or "")
            json.loads(call.arguments)


@pytest.mark.parametrize("of", SHAPES)
def test_whitespace_after_a_closing_tag_are_bounded(of: str) -> None:
    """Where more are held than a limit allows, the tag was data."""
    shape, limits = SHAPES[of], Limits(stream_name_chars=70)
    whole = rendered(of, {"path": "a", "text": "b"})
    at = whole.index(shape.parameter_close) + len(shape.parameter_close)
    for spaces, fits in ((60, True), (90, False)):
        text = whole[:at] + " " * spaces + whole[at:]
        found = []
        for pieces in ([text], list(text), [text[:at], text[at:]]):
            parser = formats.get(of.partition(" ")[0]).parser(TOOLS, limits=limits, id_factory=str)
            found.append(check_stream(feed(parser, pieces), len(text)))
        assert all(message == found[0] for message in found)
        held = found[0].tool_calls[0].arguments == '{"path": "a", "text": "b"}'
        assert held == fits


def test_kinds_of_formats_are_covered() -> None:
    assert {type(shape) for shape in SHAPES.values()} >= {XmlParametersShape, XmlAddressedShape}
    assert len(SHAPES) >= 20


@pytest.mark.parametrize(
    ("wrapped", "more", "wanted"),
    [
        ('{"path": "a"}', {"path": "b", "text": "c"}, {"path": "a", "text": "c"}),
        ('{"path": {"text": 1}, "q\\"\\u0061": ":{"}', {"text": "c", 'q"a': "d"}, {"path": {"text": 1}, 'q"a': ":{", "text": "c"}),
        ("{}", {"path": "b"}, {"path": "b"}),
    ],
)  # fmt: skip
def test_arguments_in_one_object_and_on_their_own(wrapped: str, more: dict[str, str], wanted: dict[str, str]) -> None:
    """Models put all arguments into one parameter, named `arguments`; what it holds is given, too."""
    of = "minicpm5 tags"
    text = f'<function name="write_file"><param name="arguments"><![CDATA[{wrapped}]]></param>'
    text += "".join(f'<param name="{key}">{value}</param>' for key, value in more.items() if '"' not in key)
    text += "".join(f"<param name='{key}'>{value}</param>" for key, value in more.items() if '"' in key)
    assert arguments(of, text + "</function>") == wanted
