"""Grammar and parser agree: what a format's grammar generates, its parser reads back to calls that validate; what `render` writes, the
grammar accepts.

Texts are walks of the engine over a small vocabulary with hostile pieces (half markers, closers, quotes), closed by the shortest end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import jsonschema_rs
import numpy as np
import pytest
from transcripts import NAMES, TOOLS, facts, feed, like_tokens, naming, openers, passes_through, pieces_of, rewrites

import narrows
from narrows import formats
from narrows.errors import NarrowsError
from narrows.reference import Reference
from narrows.stream import Message, collect

STRICT: list[dict[str, Any]] = [
    {
        "name": "strict",
        "parameters": {
            "type": "object",
            "properties": {
                "s": {"type": "string", "minLength": 2, "maxLength": 9},
                "p": {"type": "string", "pattern": "^[a-c<]+$"},
                "e": {"enum": ["null", "a b", "é"]},
                "m": {"enum": ["1", 2, None, "x", [1], {"a": None}]},
                "n": {
                    "anyOf": [
                        {"type": "string", "maxLength": 6},
                        {"type": "null"},
                        {"type": "object"},
                        {"type": "array"},
                    ]
                },
                "i": {"type": "integer", "minimum": -3, "maximum": 120},
                "k": {"const": "</parameter"},
                "a": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
                "o": {
                    "type": "object",
                    "properties": {"x": {"type": "string"}},
                    "required": ["x"],
                    "additionalProperties": False,
                },
                "d": {"type": "string", "format": "date"},
                "c": {"anyOf": [{"type": "string", "pattern": "^[a-z]+$"}, {"type": "integer"}, {"type": "boolean"}]},
            },
            "required": ["s", "n", "o", "c"],
            "additionalProperties": False,
        },
    },
    {
        "name": "extra",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "boolean"}},
            "additionalProperties": {"type": "integer"},
        },
    },
    {"name": "free", "parameters": {"type": "object"}},
    {"name": "nothing"},
]
SCHEMAS = {
    (tool.get("function") or tool)["name"]: (tool.get("function") or tool).get("parameters")
    for tool in [*TOOLS, *STRICT]
}


@cache
def vocabulary(name: str, special: bool) -> tuple[narrows.Vocabulary, dict[str, int]]:
    """(bytes, pieces that are hostile to the format, and perhaps its markers as special tokens; those markers)."""
    fmt = formats.get(name)
    pieces = {piece.encode() for piece in pieces_of(fmt)}
    ordinary = [bytes([b]) for b in range(256)] + sorted(piece for piece in pieces if len(piece) > 1)
    names = like_tokens(fmt.markers(fmt.reasoning)) if special else []
    tokens: list[bytes | None] = [*ordinary, *[None] * (len(names) + 1)]
    end = len(tokens) - 1
    ids = {marker: len(ordinary) + i for i, marker in enumerate(names)}
    return narrows.Vocabulary(tokens, special={**ids, "<|end of all|>": end}, eos=[end]), ids


def walks(name: str, grammar: narrows.Grammar, special: bool, count: int, random: Random) -> Iterator[list[int]]:
    vocab, _ = vocabulary(name, special)
    constraint = vocab.compile(grammar)
    row = np.zeros((vocab.size + 31) // 32, dtype=np.int32)
    for _ in range(count):
        matcher = constraint.matcher()
        ids: list[int] = []
        for _ in range(random.randrange(10, 90)):
            matcher.fill_mask(row)
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")[: vocab.size])
            ends = set(vocab.eos_ids)
            choices = [int(i) for i in allowed if int(i) not in ends]
            if not choices:
                break
            long = [i for i in choices if i >= 256]
            plain = [i for i in choices if 32 <= i < 127] or choices
            token = random.choice(
                long if long and random.random() < 0.4 else plain if random.random() < 0.8 else choices
            )
            assert matcher.accept(token)
            ids.append(token)
        if not matcher.is_finished:
            ids += [i for i in matcher.shortest_end() if i not in set(vocab.eos_ids)]
        yield ids


def spell(name: str, ids: list[int], special: bool) -> str:
    vocab, markers = vocabulary(name, special)
    names = {token: marker for marker, token in markers.items()}
    return b"".join(names[i].encode() if i in names else vocab.token_bytes(i) for i in ids).decode()


def check_calls(message: Message, required: bool) -> None:
    assert bool(message.tool_calls) or not required
    for call in message.tool_calls:
        assert call.complete, call
        assert call.known, call
        schema = SCHEMAS[call.name]
        value = json.loads(call.arguments)
        assert isinstance(value, dict)
        if schema is None:
            assert value == {}
        else:
            jsonschema_rs.validate(schema, value)


def generated_texts_are_read_back(name: str, count: int) -> None:
    """`count` texts for each way of asking."""
    fmt = formats.get(name)
    for choice in ("required", "auto"):
        for tools in (TOOLS, STRICT):
            grammar = fmt.grammar(tools, tool_choice=choice)
            for special in (False, True):
                random = Random(f"{name} {choice} {special}")
                for ids in walks(name, grammar, special, count, random):
                    text = spell(name, ids, special)
                    with naming(f"{text!r} ({choice}, {'ids' if special else 'text'})"):
                        read_back(fmt, choice, tools, text, ids if special else None, random)


def read_back(
    fmt: formats.Format, choice: str, tools: list[Any], text: str, ids: list[int] | None, random: Random
) -> None:
    if ids is not None:
        parser = fmt.parser(tools, tool_choice=choice, id_factory=str, vocab=vocabulary(fmt.name, True)[0])
        message = collect([*parser.feed_tokens(ids), *parser.finish()])
    else:
        message = fmt.parse(text, tools, tool_choice=choice, id_factory=str)
        cut = random.randrange(len(text) + 1)
        parser = fmt.parser(tools, tool_choice=choice, id_factory=str)
        assert collect(feed(parser, (text[:cut], text[cut:]))) == message
    check_calls(message, choice == "required")
    if choice == "auto" and not message.tool_calls and not rewrites(fmt):  # what was free text is content or reasoning
        kept = len(message.content or "") + len(message.reasoning or "")
        markup = (
            sum(len(marker) for pair in (*fmt.reasoning.pairs, *fmt.reasoning.wraps) for marker in pair)
            if fmt.reasoning and (message.reasoning or fmt.reasoning.wraps)
            else 16
        )
        assert len(text) - markup - 8 <= kept


@pytest.mark.parametrize("name", NAMES)
def test_generated_texts_are_read_back(name: str) -> None:
    generated_texts_are_read_back(name, 5)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_a_thousand_generated_texts_are_read_back(name: str) -> None:
    generated_texts_are_read_back(name, 125)


@pytest.mark.parametrize("name", NAMES)
def test_one_call_and_a_named_tool(name: str) -> None:
    fmt = formats.get(name)
    random = Random(name)
    for choice, parallel in (("required", False), ({"type": "function", "function": {"name": "now"}}, True)):
        grammar = fmt.grammar(TOOLS, tool_choice=choice, parallel=parallel, reasoning=None)
        for ids in walks(name, grammar, False, 8, random):
            text = spell(name, ids, False)
            with naming(repr(text)):
                calls = fmt.parse(text, TOOLS, tool_choice=choice, reasoning=None).tool_calls
                assert len(calls) == 1
                assert calls[0].complete
                assert choice == "required" or calls[0].name == "now"


@pytest.mark.parametrize("name", NAMES)
def test_any_name_where_no_tools_are_given(name: str) -> None:
    fmt = formats.get(name)
    for ids in walks(name, fmt.grammar(None, reasoning=None), False, 8, Random(name)):
        text = spell(name, ids, False)
        with naming(repr(text)):
            calls = fmt.parse(text, reasoning=None).tool_calls
            assert calls
            assert all(call.complete for call in calls)


@pytest.mark.parametrize("name", NAMES)
def test_only_text(name: str) -> None:
    fmt = formats.get(name)
    for tools, choice in ((TOOLS, "none"), ([], "auto")):
        grammar = fmt.grammar(tools, tool_choice=choice, reasoning=None)
        for ids in walks(name, grammar, False, 8, Random(name)):
            text = spell(name, ids, False)
            message = fmt.parse(text, tools, tool_choice=choice, reasoning=None)
            assert (message.content or "", message.tool_calls) == (text, [])


ARGUMENTS = [
    {"city": "Paris"},
    {"city": "", "days": 0, "unit": "celsius"},
    {"city": 'a "quoted" \\ é🌦\n\ttext', "days": -12},
]


@pytest.mark.parametrize("name", NAMES)
def test_render_is_accepted_and_read_back(name: str) -> None:
    fmt = formats.get(name)
    vocab, _ = vocabulary(name, False)
    for choice in ("auto", "required"):
        constraint = vocab.compile(fmt.grammar(TOOLS, tool_choice=choice))
        for arguments in ARGUMENTS:
            for shape in fmt.written:
                for ids in (False, True):
                    for count in (1,) if facts(name).single else (1, 2):
                        calls = [
                            {"id": f"a1B2c3D4{i}", "function": {"name": "get_weather", "arguments": arguments}}
                            for i in range(count)
                        ]
                        message: dict[str, Any] = {"tool_calls": calls}
                        if fmt.reasoning is not None:
                            message["reasoning"] = "Hm.\nSo"
                        if choice == "auto" and not shape.at_start:
                            message["content"] = "Look:"
                        text = fmt.render(message, shape.form, ids)
                        with naming(repr(text)):
                            matcher = constraint.matcher()
                            assert matcher.accept_bytes(text.encode())
                            assert matcher.is_accepting
                            read = fmt.parse(text, TOOLS)
                            assert [json.loads(c.arguments) for c in read.tool_calls] == [arguments] * count
                            assert (read.content or "").strip() == message.get("content", "")
                            assert (read.reasoning or "").strip() == message.get("reasoning", "")


TURN = "<|im_start|>assistant\n"
STARTS = [  # prompt, what the grammar accepts with what the parser makes of it, what it refuses
    (TURN, {"<think>\nx\n</think>\n\ny": ("x", "y"), "y": (None, "y")}, ["<think>\nx"]),
    (TURN + "<think>\n", {"x\n</think>\n\ny": ("x", "y"), "x</think>": ("x", None)}, ["y", "<think>x</think>y"]),
    (TURN + "<think>\nalready ", {"x</think>y": ("x", "y")}, ["y"]),
    (TURN + "<think>\n\n</think>\n\n", {"y": (None, "y"), "y</think>": (None, "y</think>")}, ["<think>x</think>y"]),
    (TURN + "So ", {"y": (None, "y")}, []),
    (TURN + "<thi", {"nk>x</think>y": ("x", "y"), "s": (None, "s")}, ["nk>x"]),
]


@pytest.mark.parametrize(("prompt", "accepted", "refused"), STARTS)
@pytest.mark.parametrize("name", ["hermes_json", "qwen3_xml"])
def test_start_states(
    name: str, prompt: str, accepted: dict[str, tuple[str | None, str | None]], refused: list[str]
) -> None:
    fmt = formats.get(name)
    constraint = vocabulary(name, False)[0].compile(fmt.grammar(TOOLS, tool_choice="auto", prompt=prompt))
    for text in [*accepted, *refused]:
        matcher = constraint.matcher()
        assert (matcher.accept_bytes(text.encode()) and matcher.is_accepting) == (text in accepted), text
    for text, parts in accepted.items():
        message = fmt.parse(text, TOOLS, prompt=prompt)
        assert (message.reasoning, message.content) == parts


def a_call_that_the_prompt_has_begun(name: str, form: str | None, step: int) -> None:
    """Cut anywhere, the grammar generates ends of it, and the parser reads prompt and end together."""
    fmt = formats.get(name)
    markers = vocabulary(name, True)[1]
    arguments = {"city": 'Pa"ris\né', "days": 12}
    call = {"function": {"name": "get_weather", "arguments": arguments}}
    text = fmt.render({"content": "", "tool_calls": [call]}, form)
    random = Random(text)
    begin = max([text.find(m) + len(m) for m in openers(fmt) if text.startswith(m)], default=len(text))
    for cut in range(begin, len(text), step):
        with naming((text[:cut], text[cut:])):
            prompt = facts(name).turn + text[:cut]
            grammar = fmt.grammar(TOOLS, prompt=prompt)
            matcher = vocabulary(name, False)[0].compile(grammar).matcher()
            assert matcher.accept_bytes(text[cut:].encode())
            assert matcher.is_accepting
            assert json.loads(fmt.parse(text[cut:], TOOLS, prompt=prompt).tool_calls[0].arguments) == arguments
            for special in (False, True):
                if special and any(text[:cut].endswith(m[:n]) for m in markers for n in range(1, len(m))):
                    continue  # what may be half a marker is no token
                for ids in walks(name, grammar, special, 1, random):
                    parser = fmt.parser(TOOLS, prompt=prompt, vocab=vocabulary(name, special)[0])
                    check_calls(collect([*parser.feed_tokens(ids), *parser.finish()]), required=True)


FORMS = [(name, shape.form) for name in NAMES for shape in formats.get(name).written]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_a_call_that_the_prompt_has_begun(name: str, form: str | None) -> None:
    a_call_that_the_prompt_has_begun(name, form, 67)


@pytest.mark.soak
@pytest.mark.parametrize(("name", "form"), FORMS)
def test_a_call_that_the_prompt_has_begun_anywhere(name: str, form: str | None) -> None:
    a_call_that_the_prompt_has_begun(name, form, 1)


SECTIONS = ["kimi_k2", "deepseek_v3", "cohere_command3", "minimax_m1", "llama3_json"]
SECTIONS += ["minimax_m2", "deepseek_v32", "step3", "hunyuan_v3", "kimi_k3", "minimax_m3"]
SECTIONS += ["pythonic", "olmo3", "lfm2"]


@pytest.mark.parametrize("name", SECTIONS)
def test_the_second_call_that_the_prompt_has_begun(name: str) -> None:
    """The grammar goes on inside the section, the array or the list that the first call opened."""
    fmt = formats.get(name)
    calls = [{"function": {"name": "get_weather", "arguments": {"city": city}}} for city in ("Paris", "Rome")]
    text = fmt.render({"tool_calls": calls})
    for cut in (text.index("Rome") + 2, text.rindex("get_weather") + 3, text.index("Paris") + 7):
        with naming(text[:cut]):
            prompt = facts(name).turn + text[:cut]
            matcher = vocabulary(name, False)[0].compile(fmt.grammar(TOOLS, prompt=prompt)).matcher()
            assert matcher.accept_bytes(text[cut:].encode())
            assert matcher.is_accepting
            other = vocabulary(name, False)[0].compile(fmt.grammar(TOOLS, prompt=prompt)).matcher()
            assert not passes_through(fmt) or not other.accept_bytes(b"\0")


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("jamba", "\n]</tool_calls>"),
        ("xlam", "]"),
        ("pythonic", "]"),
        ("olmo3", "</function_calls>"),
        ("lfm2", "]<|tool_call_end|>"),
    ],
)
def test_the_prompt_ends_between_the_last_call_of_a_list_and_its_end(name: str, end: str) -> None:
    """The list is open, so its last call belongs to the answer: the parser says it, and the grammar asks for no other."""
    fmt = formats.get(name)
    calls = [{"function": {"name": "get_weather", "arguments": {"city": city}}} for city in ("Paris", "Rome")]
    text = fmt.render({"tool_calls": calls})
    assert text.endswith(end)
    begun = text[: -len(end)]
    another = {"function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}
    more = fmt.render({"tool_calls": [*calls, another]}).removeprefix(begun)
    for answer, cities in ((end, ["Rome"]), (more, ["Rome", "Oslo"])):
        prompt = facts(name).turn + begun
        matcher = vocabulary(name, False)[0].compile(fmt.grammar(TOOLS, prompt=prompt)).matcher()
        assert matcher.accept_bytes(answer.encode())
        assert matcher.is_accepting
        read = fmt.parse(answer, TOOLS, prompt=prompt)
        assert [json.loads(call.arguments)["city"] for call in read.tool_calls] == cities
        assert (read.content, read.tool_calls[-1].complete) == (None, True)


def test_a_call_in_the_prompt_that_the_grammar_cannot_go_on_from() -> None:
    fmt = formats.get("hermes_json")
    for begun in (
        '<tool_call>{"arguments": {',
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "' + "x" * 5000,
    ):
        with pytest.raises(NarrowsError) as error:
            fmt.grammar(TOOLS, prompt=TURN + begun)
        assert error.value.code == "prompt_inside_call"


def test_after_a_call_in_the_prompt() -> None:
    fmt = formats.get("hermes_json")
    call = fmt.render({"tool_calls": [{"function": {"name": "now", "arguments": {}}}]})
    vocab, _ = vocabulary("hermes_json", False)
    for parallel, more in ((True, True), (False, False)):
        grammar = fmt.grammar(TOOLS, prompt="<|im_start|>assistant\n" + call, parallel=parallel)
        matcher = vocab.compile(grammar).matcher()
        assert matcher.is_accepting
        assert matcher.accept_bytes(("\n" + call).encode()) == more


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "inkling",
            '<|content_invoke_tool_json|>{"name":"get_weather","args":{"city":"Seoul","days":2}}<|end_message|>',
        ),
        ("rwkv", '**Tool Call:**\n```json\n{"name": "get_weather", "arguments": {"city": "Seoul", "days": 2}}\n```'),
    ],
)
def test_what_templates_write_or_ask_for_besides_what_render_writes(name: str, text: str) -> None:
    fmt = formats.get(name)
    text = "<|message_model|>get_weather" + text if name == "inkling" else text
    assert Reference(fmt.grammar(TOOLS, tool_choice="required").module).accepts(text.encode())
    assert [json.loads(call.arguments) for call in fmt.parse(text, TOOLS).tool_calls] == [{"city": "Seoul", "days": 2}]


def test_an_id_that_is_a_header_is_written() -> None:
    fmt = formats.get("kimi_k2")
    for call_id, header in (
        ("functions.now:12", "functions.now:12"),
        ("now:12", "functions.now:0"),
        ("x1", "functions.now:0"),
    ):
        call = {"id": call_id, "function": {"name": "now", "arguments": {}}}
        text = fmt.render({"tool_calls": [call]}, ids=True)
        assert f"<|tool_call_begin|>{header}<|tool_call_argument_begin|>" in text
        assert vocabulary(fmt.name, False)[0].compile(fmt.grammar(TOOLS)).matcher().accept_bytes(text.encode())


@pytest.mark.parametrize("form", ["named", "array"])
def test_ids_are_written_as_the_templates_insist_and_read_as_they_come(form: str) -> None:
    """Mistral's templates raise where an id has not nine characters. A grammar that leaves it open lets a model fill the budget with an id."""
    fmt = formats.get("mistral")
    constraint = vocabulary(fmt.name, False)[0].compile(fmt.grammar(TOOLS))
    for call_id, written in (("a1B2c3D4e", True), ("a1B2c3D4", False), ("a1B2c3D4eF", False), ("a1B2-3D4e", False)):
        call = {"id": call_id, "function": {"name": "now", "arguments": {}}}
        text = fmt.render({"tool_calls": [call]}, form, ids=True)
        assert call_id in text
        matcher = constraint.matcher()
        assert (matcher.accept_bytes(text.encode()) and matcher.is_accepting) is written
        (read,) = fmt.parse(text, TOOLS).tool_calls
        assert (read.name, read.complete) == ("now", True)
        assert (
            form == "array" or read.id == call_id
        )  # in an array it stands behind the arguments, and is not waited for


def test_calls_that_stand_at_the_beginning_alone() -> None:
    fmt = formats.get("llama3_json")
    calls = [{"function": {"name": "now", "arguments": {}}}]
    assert fmt.render({"content": "Look: ", "tool_calls": calls}).startswith("Look: <|python_tag|>{")
    with pytest.raises(NarrowsError) as error:
        fmt.render({"content": "Look: ", "tool_calls": calls}, "bare")
    assert (error.value.code, error.value.pointer) == ("message_invalid", "/content")
    matcher = vocabulary(fmt.name, False)[0].compile(fmt.grammar(TOOLS, "auto")).matcher()
    assert not matcher.accept_bytes(b' {"a')


def test_errors_say_whose_schema_it_is() -> None:
    bad = {"name": "bad", "parameters": {"type": "object", "properties": {"x": {"type": "strin"}}}}
    for name in NAMES:
        with pytest.raises(NarrowsError) as error:
            formats.get(name).grammar([TOOLS[0], bad])
        assert (error.value.pointer or "").startswith("/tools/1/function/parameters/properties/x/type")


def test_report_is_per_tool() -> None:
    for name in NAMES:
        report = formats.get(name).grammar(TOOLS).report
        assert report["/tools/0/function/parameters/properties/city/type"] == "exact"


@pytest.mark.parametrize(("name", "char"), [("qwen3_xml", ">"), ("mistral", "{"), ("harmony", "<")])
def test_names_that_cannot_be_written_are_refused(name: str, char: str) -> None:
    for tool in ("a b", "a\n", f"a{char}b"):
        with pytest.raises(NarrowsError) as error:
            formats.get(name).grammar([{"name": tool}])
        assert error.value.code == "tool_name_unsupported"


def test_a_name_with_quotes_is_written_in_json() -> None:
    fmt = formats.get("hermes_json")
    tool = {"name": 'we"ird\\'}
    text = fmt.render({"tool_calls": [{"function": {"name": tool["name"], "arguments": {}}}]})
    assert vocabulary("hermes_json", False)[0].compile(fmt.grammar([tool])).matcher().accept_bytes(text.encode())
    assert fmt.parse(text, [tool]).tool_calls[0].known
