"""What the two parser objects of a choice share and where they begin: several choices at once, prompts, other people's parsers beside, stop strings,
markers by id and by text, and where vLLM begins to mask."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from answers import TOOLS, Result, steps, tokenizer_or_skip
from serving import chat_request, complete, parser_class, stream

from narrows import formats

HERMES = formats.get("hermes_json")
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
ARGUMENTS = '{"city": "Paris"}'


@pytest.fixture(scope="module", autouse=True)
def registered() -> None:
    from narrows.plugins.vllm import plugin

    plugin.register()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tokenizer_or_skip()


def encode(tokenizer: Any, *parts: str) -> list[int]:
    """Each part by itself: a marker in two parts is spelled in ordinary tokens."""
    return [token for part in parts for token in tokenizer.encode(part, add_special_tokens=False)]


def read(
    tokenizer: Any,
    *parts: str,
    reasoning: str | None = "narrows_think",
    tool: str | None = "narrows_hermes_json",
    **more: Any,
) -> Result:
    """An answer streamed by token; the complete one must be equal."""
    prompt = encode(tokenizer, more.pop("prompt", "<|im_start|>assistant\n"))
    request = chat_request(more.pop("tools", TOOLS), request_id="r", **more)
    cls, ids = parser_class(tool, reasoning), encode(tokenizer, *parts)
    streamed = stream(cls, tokenizer, request, steps(tokenizer, ids), prompt)
    assert complete(cls, tokenizer, request, "".join(parts), ids, prompt) == streamed
    return streamed


# One stream per choice.


def test_choices_that_take_turns_do_not_mix(tokenizer: Any) -> None:
    """n = 3, as the serving layer does it: parsers first, then deltas as they come."""
    texts = [
        f"<think>\n{city}\n</think>\n\nIn {city}:\n{CALL.replace('Paris', city)}" for city in ("Paris", "Lima", "Oslo")
    ]
    cls, request = parser_class("narrows_hermes_json", "narrows_think"), chat_request(TOOLS, request_id="r", n=3)
    parsers = [cls(tokenizer, request.tools, chat_template_kwargs={}, model_config=None) for _ in texts]
    queues = [steps(tokenizer, encode(tokenizer, text)) for text in texts]
    results = [Result() for _ in texts]
    while any(queues):
        for parser, queue, result in zip(parsers, queues, results, strict=True):
            if queue:
                text, ids = queue.pop(0)
                result.add(parser.parse_delta(text, ids, request, prompt_token_ids=[0], finished=not queue))
    for city, result in zip(("Paris", "Lima", "Oslo"), results, strict=True):
        assert (result.reasoning, result.content.strip()) == (city, f"In {city}:")
        assert [call[:2] for call in result.calls] == [["get_weather", ARGUMENTS.replace("Paris", city)]]


def test_both_parsers_of_a_choice_hold_one_stream_and_no_other(tokenizer: Any) -> None:
    cls = parser_class("narrows_hermes_json", "narrows_think")
    first, second = cls(tokenizer, None), cls(tokenizer, None)
    assert first.reasoning_parser.turn is first.tool_parser.turn
    assert first.tool_parser.turn is not second.tool_parser.turn
    lone = parser_class("narrows_hermes_json")(tokenizer, None)
    assert lone.tool_parser.turn is not second.reasoning_parser.turn


def test_ids_of_calls_come_from_the_request(tokenizer: Any) -> None:
    cls, text = parser_class("narrows_hermes_json"), f"{CALL}\n{CALL}"
    ids = encode(tokenizer, text)

    def of(request_id: str) -> list[str]:
        return [
            call[2] for call in complete(cls, tokenizer, chat_request(TOOLS, request_id=request_id), text, ids).calls
        ]

    assert of("a") == of("a")
    assert len({*of("a"), *of("b")}) == 4


def test_choices_of_a_request_have_calls_of_their_own(tokenizer: Any) -> None:
    """vLLM's server makes a parser to adjust the request, which also reads the first choice of a complete answer; then one for each choice of a stream,
    or one for each further choice of a complete answer."""
    from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat

    from narrows.plugins.vllm.reading import delegating

    delegating.install()
    ids = encode(tokenizer, CALL)

    class Server:
        parser_cls, model_config = parser_class("narrows_hermes_json", "narrows_think"), None

    def choices(request: Any) -> list[str]:
        first = OpenAIServingChat._make_parser(Server(), request, tokenizer, {})
        more = [OpenAIServingChat._make_parser(Server(), request, tokenizer, {}) for _ in range(3)]
        if request.stream:
            read = [parser.parse_delta(CALL, ids, request, prompt_token_ids=[0], finished=True) for parser in more]
            return [delta.tool_calls[0].id for delta in read]
        read = [parser.parse(CALL, request, True, ids) for parser in (first, *more[:2])]
        return [calls[0].id for _, _, calls in read]

    streamed = choices(chat_request(TOOLS, request_id="r", n=3, stream=True))
    assert streamed == choices(chat_request(TOOLS, request_id="r", n=3))
    assert len(set(streamed)) == 3


def test_no_character_is_read_twice(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from narrows.stream import StreamParser

    seen: list[str] = []
    spelled = StreamParser.feed_spelled
    monkeypatch.setattr(StreamParser, "feed_spelled", lambda self, text: seen.append(text) or spelled(self, text))
    parts = ("<think>", "\na\n", "</think>", "\n\nb\n", CALL)
    cls, request = parser_class("narrows_hermes_json", "narrows_think"), chat_request(TOOLS)
    stream(cls, tokenizer, request, steps(tokenizer, encode(tokenizer, *parts)))
    markers = ("<think>", "</think>", "<tool_call>", "</tool_call>")
    assert len("".join(seen)) == len("".join(parts)) - sum(map(len, markers))


# Where an answer begins.


@pytest.mark.parametrize(
    ("prompt", "text", "reasoning", "content"),
    [
        ("<|im_start|>assistant\n", "<think>\na\n</think>\n\nb", "a", "b"),
        ("<|im_start|>assistant\n", "b", "", "b"),
        ("<|im_start|>assistant\n<think>\n", "a\n</think>\n\nb", "a", "b"),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", "b", "", "b"),
        ("<|im_start|>user\nwhat is <think>?<|im_end|>\n<|im_start|>assistant\n", "b", "", "b"),
        ("<|im_start|>assistant\n<think>\nfirst", " a", " a", ""),
    ],
)
@pytest.mark.parametrize("tool", ["narrows_hermes_json", None])
def test_prompt_says_where_an_answer_begins(
    prompt: str, text: str, reasoning: str, content: str, tool: str | None, tokenizer: Any
) -> None:
    result = read(tokenizer, text, prompt=prompt, tool=tool)
    assert (result.reasoning, result.content) == (reasoning, content)


def test_long_prompt_is_not_read_as_a_whole(tokenizer: Any) -> None:
    from narrows.plugins.vllm.reading.ids import prompt_end, vocabulary_of

    vocab = vocabulary_of(tokenizer)
    assert vocab is not None
    turns = "<|im_start|>user\nwhat?<|im_end|>\n<|im_start|>assistant\nthat<|im_end|>\n" * 50
    ids = encode(tokenizer, f"{turns}<|im_start|>assistant\n<think>\n")
    end = prompt_end(vocab, ids, HERMES.markers(HERMES.reasoning))
    assert end.endswith("<|im_start|>assistant\n<think>\n")
    assert len(end) < 120


def test_call_inside_reasoning_ends_it(tokenizer: Any) -> None:
    result = read(tokenizer, f"<think>\na\n{CALL}")
    assert (result.reasoning.strip(), result.content) == ("a", "")
    assert [call[:2] for call in result.calls] == [["get_weather", ARGUMENTS]]


# Other people's parsers beside, or none.


def test_without_a_reasoning_parser_its_markers_are_content(tokenizer: Any) -> None:
    result = read(tokenizer, f"<think>\na\n</think>\n\nb\n{CALL}", reasoning=None)
    assert result.content.startswith("<think>\na\n</think>\n\nb")
    assert [call[:2] for call in result.calls] == [["get_weather", ARGUMENTS]]


def test_without_a_tool_parser_calls_are_content(tokenizer: Any) -> None:
    result = read(tokenizer, f"<think>\na\n</think>\n\nb\n{CALL}", tool=None)
    assert (result.reasoning, result.content) == ("a", f"b\n{CALL}")


@pytest.mark.parametrize(
    ("tool", "reasoning"),
    [("narrows_hermes_json", "deepseek_r1"), ("hermes", "narrows_think"), ("hermes", "narrows_hermes_json")],
)
def test_beside_vllms_own(tool: str, reasoning: str, tokenizer: Any) -> None:
    cls, request = parser_class(tool, reasoning), chat_request(TOOLS)
    text = f"<think>\na\n</think>\n\nb\n{CALL}"
    ids = encode(tokenizer, text)
    for result in (
        stream(cls, tokenizer, request, steps(tokenizer, ids)),
        complete(cls, tokenizer, request, text, ids),
    ):
        assert (result.reasoning.strip(), result.content.strip()) == ("a", "b")
        assert [call[:2] for call in result.calls] == [["get_weather", ARGUMENTS]]


# What is a call.


@pytest.mark.parametrize("more", [{"tool_choice": "none"}, {"tools": None}])
def test_markup_is_content_where_nothing_may_be_called(more: dict[str, Any], tokenizer: Any) -> None:
    result = read(tokenizer, f"b\n{CALL}", **more)
    assert (result.content, result.calls) == (f"b\n{CALL}", [])


def test_marker_spelled_in_ordinary_tokens_is_text(tokenizer: Any) -> None:
    spelled = ("<tool", "_call> is how it begins, and </tool", "_call> how it ends.\n")
    result = read(tokenizer, *spelled, CALL)
    assert result.content.strip() == "".join(spelled).strip()
    assert [call[:2] for call in result.calls] == [["get_weather", ARGUMENTS]]


def test_marker_token_inside_a_string_is_part_of_it(tokenizer: Any) -> None:
    result = read(tokenizer, CALL.replace("Paris", "</tool_call>"))
    assert result.calls[0][1] == ARGUMENTS.replace("Paris", "</tool_call>")


@pytest.mark.parametrize("skipped", [False, True])
def test_text_without_special_tokens(skipped: bool, tokenizer: Any) -> None:
    cls, request = parser_class("narrows_hermes_json"), chat_request(TOOLS)
    ids = encode(tokenizer, f"b\n{CALL}\nc")
    result = stream(cls, tokenizer, request, steps(tokenizer, ids, skip_special_tokens=skipped))
    assert result.content.split() == ["b", "c"]
    assert [call[:2] for call in result.calls] == [["get_weather", ARGUMENTS]]


def test_stop_string_is_cut_from_the_text_though_its_tokens_come(tokenizer: Any) -> None:
    """vLLM shows no more text than up to the stop string, and the ids of all of it."""
    cls, request = parser_class("narrows_hermes_json"), chat_request(TOOLS, stop=["END"])
    ids = encode(tokenizer, "one two END three")
    assert stream(cls, tokenizer, request, [("one ", ids[:2]), ("two ", ids[2:])]).content == "one two "
    assert complete(cls, tokenizer, request, "one two ", ids).content == "one two "


def test_ids_that_do_not_fit_the_text_are_not_believed(tokenizer: Any) -> None:
    cls, request = parser_class("narrows_hermes_json"), chat_request(TOOLS)
    result = stream(cls, tokenizer, request, [(piece, [5]) for piece in ("b\n", CALL[:20], CALL[20:])])
    assert [call[:2] for call in result.calls] == [["get_weather", ARGUMENTS]]


def test_end_token_leaves_nothing_over(tokenizer: Any) -> None:
    cls, request = parser_class("narrows_hermes_json"), chat_request(TOOLS)
    deltas = [*steps(tokenizer, encode(tokenizer, "a <tool")), ("", [tokenizer.eos_token_id])]
    assert stream(cls, tokenizer, request, deltas) == Result("a <tool")


# The end.


@pytest.mark.parametrize("length", range(len(CALL)))
def test_cut_call_is_not_made_whole(length: int, tokenizer: Any) -> None:
    result = read(tokenizer, CALL[:length], reasoning=None)
    if result.calls:
        assert CALL[:length].endswith(result.calls[0][1]) or result.calls[0][1] == ARGUMENTS
    else:
        assert result.content.strip() == CALL[:length].strip()


@pytest.mark.parametrize("length", range(1, len(f"\n{CALL}"), 5))
def test_no_half_of_a_second_call_is_content_where_only_calls_may_come(length: int, tokenizer: Any) -> None:
    """In text alone: a vocabulary that has the markers as tokens cannot be cut inside one."""
    cls, begun = parser_class("narrows_hermes_json"), f"\n{CALL}"[:length]

    def read_text(choice: str) -> Result:
        request = chat_request(TOOLS, request_id="r", tool_choice=choice)
        streamed = stream(cls, tokenizer, request, [(character, []) for character in CALL + begun])
        assert complete(cls, tokenizer, request, CALL + begun, []) == streamed
        return streamed

    required, free = read_text("required"), read_text("auto")
    assert required.content == ""
    assert required.calls == free.calls
    assert len(free.calls) == 2 or free.content.strip() == begun.strip()


def test_text_after_a_required_call_is_not_lost(tokenizer: Any) -> None:
    """Where a server was told not to constrain it."""
    result = read(tokenizer, f"{CALL}\nSo <tool", reasoning=None, tool_choice="required")
    assert result.content == "\nSo <tool"


def test_second_end_says_nothing(tokenizer: Any) -> None:
    parser = parser_class("narrows_hermes_json")(tokenizer, chat_request(TOOLS).tools)
    parser.parse_delta("a <tool", [], chat_request(TOOLS), prompt_token_ids=[0], finished=True)
    assert parser.tool_parser.finish_streaming() is None
    assert parser.tool_parser.get_remaining_unstreamed_args() == ""


def test_complete_answer_that_the_budget_cut_says_so(tokenizer: Any) -> None:
    """vLLM's serving says "tool_calls" for every complete answer with a call; the stream says "length"."""
    from vllm.entrypoints.openai.chat_completion import serving
    from vllm.outputs import CompletionOutput

    from narrows.plugins.vllm.reading import delegating

    delegating.install()

    class Choice:
        index, finish_reason = 0, "tool_calls"

    class Response:
        choices = (Choice(),)

    class Results:
        outputs = (CompletionOutput(0, "", [], None, None, finish_reason="length"),)

    async def results() -> Any:
        yield Results()

    async def of_vllm(self: Any, request: Any, result_generator: Any, *args: Any) -> Any:
        async for _ in result_generator:
            pass
        return Response()

    class Serving:
        parser_cls = parser_class("narrows_hermes_json")
        chat_completion_full_generator = of_vllm

    assert hasattr(serving.OpenAIServingChat, "_told_by_narrows")
    delegating._wrap_serving(Serving)
    response = asyncio.run(Serving().chat_completion_full_generator(None, results(), "r"))
    assert response.choices[0].finish_reason == "length"


# In the engine: where masks begin.


def engine_parser(name: str, tokenizer: Any) -> Any:
    from narrows.plugins.vllm.reading import reasoning_parser

    return reasoning_parser.class_of(name)(tokenizer=tokenizer, chat_template_kwargs={})


@pytest.mark.parametrize(
    ("prompt", "ended"),
    [
        ("<|im_start|>assistant\n", True),
        ("<|im_start|>assistant\n<think>\n", False),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", True),
        ("<|im_start|>assistant\n<think>\nb</think>c<|im_end|>\n<|im_start|>assistant\n<think>", False),
    ],
)
def test_whether_masks_begin_with_the_answer(prompt: str, ended: bool, tokenizer: Any) -> None:
    assert engine_parser("think", tokenizer).is_reasoning_end(encode(tokenizer, prompt)) is ended


def test_step_at_which_reasoning_ends(tokenizer: Any) -> None:
    parser, ids = engine_parser("hermes_json", tokenizer), encode(tokenizer, "a ", "</think>", "\n\nb")
    at = ids.index(tokenizer.convert_tokens_to_ids("</think>"))
    assert [parser.is_reasoning_end_streaming(ids[: i + 1], ids[i : i + 1]) for i in range(len(ids))] == [
        i == at for i in range(len(ids))
    ]
    assert parser.extract_content_ids(ids) == ids[at + 1 :]


def test_step_at_which_a_spelled_marker_ends(tokenizer: Any) -> None:
    """Where the vocabulary has no token for it: the answer's tokens before the last ones count."""
    parser = engine_parser("think", tokenizer)
    from narrows import Vocabulary

    letters = Vocabulary([bytes([i]) for i in range(128)], {"<eos>": 0}, [0])
    parser.turn._vocab, parser.turn._has_vocab = letters, True
    ids = list(b"abc</think>d")
    ended = [parser.is_reasoning_end_streaming(ids[: i + 1], [ids[i]]) for i in range(len(ids))]
    assert ended == [i == 10 for i in range(len(ids))]
    assert parser.is_reasoning_end_streaming(ids, ids[4:])
    assert not parser.is_reasoning_end_streaming(ids, ids[11:])
    assert parser.extract_content_ids(ids) == list(b"d")


def test_a_step_costs_what_is_new(tokenizer: Any) -> None:
    class Counted(list[int]):
        taken = 0

        def __getitem__(self, key: Any) -> Any:
            found = super().__getitem__(key)
            Counted.taken += len(found) if isinstance(key, slice) else 1
            return found

    parser = engine_parser("think", tokenizer)
    for size in (1_000, 100_000):
        Counted.taken = 0
        parser.is_reasoning_end_streaming(Counted([500] * size), [500])
        assert Counted.taken < 20


def test_tokens_of_reasoning_are_counted(tokenizer: Any) -> None:
    parser = engine_parser("think", tokenizer)
    inside, outside = encode(tokenizer, "one two three " * 40), encode(tokenizer, "\n\nfour five " * 40)
    markers = encode(tokenizer, "<think>"), encode(tokenizer, "</think>")
    count = parser.count_reasoning_tokens([*markers[0], *inside, *markers[1], *outside])
    assert len(inside) <= count <= len(inside) + 1
    assert parser.count_reasoning_tokens(outside) == 0
    assert parser.count_reasoning_tokens([]) == 0


# Registration.


def test_names_are_registered() -> None:
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    from narrows.formats.registry import aliases, reasoning_names

    own = {"hermes", "qwen3_coder", "mistral", "deepseek_r1"}
    tools, reasoning = set(ToolParserManager.list_registered()), set(ReasoningParserManager.list_registered())
    assert own <= tools | reasoning
    assert {f"narrows_{name}" for name in (*formats.names(), *aliases())} <= tools
    assert {f"narrows_{name}" for name in reasoning_names()} <= reasoning
    assert ToolParserManager.get_tool_parser("narrows_qwen3_coder").format_name == "qwen3_xml"
    assert ReasoningParserManager.get_reasoning_parser("narrows_glm47").format_name == "glm_xml"
    assert ReasoningParserManager.get_reasoning_parser("narrows_holo2").style_name == "think"
    assert ToolParserManager.lazy_parsers["narrows_hermes_json"][0] == "narrows.plugins.vllm.reading.tool_parser"


def test_format_without_reasoning_says_what_to_do() -> None:
    """Its name is registered, for no format is read then."""
    from vllm.reasoning import ReasoningParserManager

    with pytest.raises(ValueError, match=r"do not reason.*narrows_think"):
        ReasoningParserManager.get_reasoning_parser("narrows_llama3_json")


@pytest.mark.parametrize("path", ["narrows.plugins.vllm.plugin", "file"])
def test_plugin_flag(path: str) -> None:
    """`--tool-parser-plugin` and `--reasoning-parser-plugin`: a module's name, or a file."""
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    from narrows.plugins.vllm import plugin

    for name in ("tool", "reasoning"):
        manager = ToolParserManager if name == "tool" else ReasoningParserManager
        getattr(manager, f"import_{name}_parser")(path if path != "file" else str(plugin.__file__))
    assert ToolParserManager.get_tool_parser("narrows_mistral").format_name == "mistral"
    assert ReasoningParserManager.get_reasoning_parser("narrows_mistral").style_name == "mistral_think"


@pytest.mark.parametrize(
    ("named", "then"), [(None, None), ("", "narrows"), ("a,narrows", "a,narrows"), ("a,b", "a,b,narrows")]
)
def test_flag_brings_narrows_to_the_engine_too(
    named: str | None, then: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where VLLM_PLUGINS leaves it out: a required call is held there, and else was an error of the server."""
    from vllm import envs
    from vllm.tool_parsers import ToolParserManager

    from narrows.plugins.vllm import plugin

    monkeypatch.delitem(sys.modules, plugin.__name__)
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)
    if named is not None:
        monkeypatch.setenv("VLLM_PLUGINS", named)
    ToolParserManager.import_tool_parser(plugin.__name__)
    assert os.environ.get("VLLM_PLUGINS") == then
    assert then is None or "narrows" in (envs.VLLM_PLUGINS or ())


def test_unknown_version_registers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.tool_parsers import ToolParserManager

    from narrows.plugins.vllm import compat, plugin

    monkeypatch.setattr(ToolParserManager, "lazy_parsers", {})
    monkeypatch.setattr(compat.vllm, "__version_tuple__", (0, 99, 0))
    plugin.register()
    assert not ToolParserManager.lazy_parsers


def test_tools_of_other_kinds_are_left_out() -> None:
    from narrows.plugins.vllm.reading.turn import function_tools

    flat = {"type": "function", "name": "now", "parameters": {}}
    assert function_tools([{"type": "web_search"}, flat, flat, TOOLS[0]]) == [flat, TOOLS[0]]
    assert function_tools(None) is None


def test_formats_of_one_s_own(tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A TOML file that NARROWS_FORMATS lists is there by its name: its calls, its reasoning style, and the grammar of a call that must come."""
    from narrows.plugins.vllm import grammar_request, plugin

    (tmp_path / "mine.toml").write_text(
        'name = "other"\nextends = "hermes_json"\nstrip = true\n[reasoning]\nname = "muse"\n[[reasoning.pair]]\nopen = "<muse>"\nclose = "</muse>"\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("NARROWS_FORMATS", str(tmp_path / "mine.toml"))
    plugin.register()
    result = read(
        tokenizer, f"<muse>Hm. </muse>\n\nSo:\n\n{CALL}", reasoning="narrows_mine", tool="narrows_mine", prompt="x"
    )
    assert (result.reasoning, result.content) == ("Hm.", "So:")
    assert [call[:2] for call in result.calls] == [["get_weather", ARGUMENTS]]
    request = chat_request(TOOLS, tool_choice="required")
    parser_class("narrows_mine").tool_parser_cls(tokenizer, TOOLS).adjust_request(request)
    wanted = grammar_request.read(request.structured_outputs.grammar)
    assert (wanted.format, bool(wanted.grammar().module.rules)) == ("mine", True)
