"""budget, select, drafts and token healing of requests, with the official client and the small model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import openai
import pytest
from openai import OpenAI
from serving import serving

from narrows import Limits
from narrows.engines import default_model
from narrows.engines.llama_cpp import LlamaCppEngine
from narrows.server import Settings

pytestmark = pytest.mark.model

ASK: list[Any] = [{"role": "user", "content": "Is the sky blue? Answer with one word."}]
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "size": {
            "type": "object",
            "properties": {"w": {"type": "integer"}, "h": {"type": "number"}},
            "required": ["w"],
        },
    },
    "required": ["name", "size"],
    "additionalProperties": False,
}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "thing", "schema": SCHEMA}}


@pytest.fixture(scope="module")
def client() -> Iterator[OpenAI]:
    limits = Limits(select_options=20)
    with (
        LlamaCppEngine(default_model.default_gguf(), model_name="small", max_model_len=1024) as engine,
        serving(engine, Settings(limits=limits)) as url,
    ):
        yield OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=200)


def chat(client: OpenAI, **options: Any) -> Any:
    body = {"extra_body": options.pop("extra", {})}
    return client.chat.completions.create(model="", messages=options.pop("messages", ASK), **body, **options)


@pytest.mark.parametrize("most", [20, 25, 40])
@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"temperature": 1.2, "seed": 3, "top_p": 0.9}])
def test_with_a_budget_the_json_is_whole(client: OpenAI, most: int, sampling: dict[str, Any]) -> None:
    long = [{"role": "user", "content": "Describe a very large house with as many details as you can, as JSON."}]
    answer = chat(
        client,
        messages=long,
        n=2,
        response_format=FORMAT,
        max_tokens=most,
        extra={"budget": True},
        **sampling,
    )
    for choice in answer.choices:
        assert jsonschema_rs.is_valid(SCHEMA, json.loads(choice.message.content))
        assert choice.finish_reason in ("length", "stop")
    assert answer.usage.completion_tokens <= 2 * most


def test_a_call_is_whole_within_its_budget(client: OpenAI) -> None:
    tool: Any = {"type": "function", "function": {"name": "save", "parameters": SCHEMA}}
    answer = chat(client, tools=[tool], tool_choice="required", max_tokens=60, temperature=0, extra={"budget": True})
    (call, *_) = answer.choices[0].message.tool_calls
    assert jsonschema_rs.is_valid(SCHEMA, json.loads(call.function.arguments))


@pytest.mark.parametrize(
    ("options", "code", "param"),
    [
        (
            {"response_format": FORMAT, "max_tokens": 3, "extra": {"budget": True}},
            "max_tokens_too_small",
            "max_tokens",
        ),
        ({"extra": {"budget": True}}, "invalid_value", "budget"),
        ({"extra": {"select": "sum"}}, "invalid_value", "select"),
        (
            {"n": 2, "extra": {"select": "sum", "structured_outputs": {"choice": ["a", "b"]}}},
            "invalid_value",
            "n",
        ),
        (
            {"extra": {"select": "sum", "structured_outputs": {"choice": [str(i) for i in range(21)]}}},
            "limit_reached",
            "structured_outputs.choice",
        ),
        ({"extra": {"select": "word", "structured_outputs": {"choice": ["a"]}}}, "invalid_value", "select"),
        ({"extra": {"token_healing": True}}, "invalid_value", "token_healing"),
        ({"logprobs": True, "extra": {"sample_first": "always"}}, "strategy_invalid", "sample_first"),
        ({"extra": {"draft": "often"}}, "invalid_value", "draft"),
    ],
)
def test_what_cannot_be_done_is_refused_at_its_place(
    client: OpenAI, options: dict[str, Any], code: str, param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, **options)
    assert isinstance(caught.value.body, dict)
    assert (caught.value.body["code"], caught.value.body["param"]) == (code, param)


@pytest.mark.parametrize("by", ["sum", "token", "byte"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_best_option_and_the_scores_of_all(client: OpenAI, by: str, stream: bool) -> None:
    options = ["Yes, it is blue.", "No", "Yes", "I like trains"]
    extra = {"select": by, "structured_outputs": {"choice": options}}
    if stream:
        content, last = "", None
        for chunk in chat(client, temperature=0, stream=True, extra=extra):
            content += chunk.choices[0].delta.content or ""
            last = chunk.choices[0]
        choice: Any = last
    else:
        choice = chat(client, temperature=0, extra=extra).choices[0]
        content = choice.message.content
    assert content in options
    assert choice.finish_reason == "stop"
    scores = choice.model_extra["options"]
    assert [s["text"] for s in scores] == options
    assert max(scores, key=lambda s: s["score"])["text"] == content
    assert sum(s["probability"] for s in scores) == pytest.approx(1)
    assert scores[3]["score"] < max(s["score"] for s in scores)


def test_options_of_plain_completions_and_their_tokens(client: OpenAI) -> None:
    answer = client.completions.create(
        model="",
        prompt=["The capital city of France is", "The capital city of Germany is"],
        temperature=0,
        logprobs=0,
        extra_body={"select": "sum", "structured_outputs": {"choice": [" Paris", " Berlin", " London"]}},
    )
    assert [choice.text for choice in answer.choices] == [" Paris", " Berlin"]
    for choice in answer.choices:
        best = max(choice.model_extra["options"], key=lambda s: s["logprob"])
        assert best["text"] == choice.text
        assert sum(choice.logprobs.token_logprobs) == pytest.approx(best["logprob"], abs=1e-3)


def test_a_prompt_that_ends_inside_a_word_is_healed(client: OpenAI) -> None:
    prompt = "The capital city of the country called France is Par"
    answer = client.completions.create(
        model="", prompt=prompt, temperature=0, max_tokens=4, extra_body={"token_healing": True}
    )
    assert answer.choices[0].text.startswith("is")
    held = client.completions.create(
        model="",
        prompt=prompt,
        temperature=0,
        max_tokens=20,
        extra_body={"token_healing": True, "structured_outputs": {"regex": "(is|ma)[.!]"}},
    )
    assert held.choices[0].text in ("is.", "is!", "ma.", "ma!")
    begun = [*ASK, {"role": "assistant", "content": "The capital city of France is Par"}]
    chatted = chat(
        client,
        messages=begun,
        temperature=0,
        max_tokens=4,
        extra={"token_healing": True, "continue_final_message": True, "add_generation_prompt": False},
    )
    assert chatted.choices[0].message.content.startswith("is")


def test_drafts_and_jumps_change_no_text(client: OpenAI) -> None:
    prompt = [{"role": "user", "content": "Repeat this JSON: " + json.dumps({"name": "a", "size": {"w": 3}})}]
    texts = {
        mode: chat(
            client,
            messages=prompt,
            response_format=FORMAT,
            temperature=0,
            max_tokens=60,
            extra={"draft": mode, "jump_forward": "always"},
        )
        .choices[0]
        .message.content
        for mode in ("never", "prompt", "grammar", "auto")
    }
    assert len(set(texts.values())) == 1
