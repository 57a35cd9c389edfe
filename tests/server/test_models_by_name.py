"""Several models in one server: the request's name picks one, whatever the API, and what is told of each is its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from scripted import ScriptedEngine
from serving import metric, serving

from narrows.errors import EngineError, InputError
from narrows.server import ServedModel, Settings, create_app

CHAT = "/v1/chat/completions"
ASK = [{"role": "user", "content": "Where?"}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
HERMES = (
    "{{ messages[0].content }}"
    '{% if tools %}<tool_call>{"name": <function-name>, "arguments": <args-json-object>}</tool_call>{{ tools }}{% endif %}'
)
MISTRAL = "> {{ messages[0].content }}{% if tools %}[TOOL_CALLS]{{ tools }}{% endif %}"
FACES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {"messages": ASK}),
    "completions": ("/v1/completions", {"prompt": "x"}),
    "responses": ("/v1/responses", {"input": "x"}),
    "messages": ("/v1/messages", {"messages": ASK, "max_tokens": 50}),
    "ollama chat": ("/api/chat", {"messages": ASK, "stream": False}),
    "ollama generate": ("/api/generate", {"prompt": "x", "stream": False}),
    "llama.cpp": ("/completion", {"prompt": "x"}),
    "tgi": ("/generate", {"inputs": "x"}),
}
SAYS = {"one": "I am one.", "two": "I am two."}


@pytest.fixture(scope="module")
def engines() -> dict[str, ScriptedEngine]:
    return {
        "one": ScriptedEngine(SAYS["one"], chat_template=HERMES, max_model_len=1_000),
        "two": ScriptedEngine(SAYS["two"], chat_template=MISTRAL, max_model_len=2_000),
    }


@pytest.fixture(scope="module")
def url(engines: dict[str, ScriptedEngine]) -> Iterator[str]:
    with serving(engines) as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=60) as client:
        yield client


def post(client: httpx.Client, path: str, **body: Any) -> httpx.Response:
    return client.post(path, json=body)


@pytest.mark.parametrize("face", FACES)
def test_each_api_picks_by_name_and_refuses_an_unknown_one(client: httpx.Client, face: str) -> None:
    path, body = FACES[face]
    for name, text in SAYS.items():
        answer = post(client, path, model=name, **body)
        assert answer.status_code == 200, answer.text
        assert text in answer.text
        assert answer.json().get("model", name) == name
    if not face.startswith("ollama"):
        assert SAYS["one"] in post(client, path, **body).text, "no name stands for the first"
    refused = post(client, path, model="three", **body)
    assert refused.status_code == 404
    assert "'three' does not exist" in refused.text
    assert "one, two" in refused.text


@pytest.mark.parametrize("face", [face for face in FACES if face != "tgi"])
def test_each_api_streams_from_the_model_that_is_named(client: httpx.Client, face: str) -> None:
    path, body = FACES[face]
    seen = post(client, path, model="two", **{**body, "stream": True})
    assert seen.status_code == 200
    said = "".join(seen.text.split())
    assert "three" not in said
    assert '"one"' not in said
    assert "two" in said


def test_the_lists_have_all_models(client: httpx.Client) -> None:
    listed = client.get("/v1/models").json()["data"]
    assert [(one["id"], one["max_model_len"], one["root"]) for one in listed] == [
        ("one", 1_000, "scripted"),
        ("two", 2_000, "scripted"),
    ]
    assert client.get("/v1/models/two").json()["max_model_len"] == 2_000
    assert client.get("/v1/models/three").status_code == 404
    assert [one["name"] for one in client.get("/api/tags").json()["models"]] == ["one", "two"]
    for name, template in (("two", MISTRAL), ("two:latest", MISTRAL), ("one", HERMES)):
        assert post(client, "/api/show", model=name).json()["template"] == template
    assert client.get("/props").json()["chat_template"] == HERMES
    assert client.get("/props?model=two").json()["chat_template"] == MISTRAL
    assert client.get("/props?model=three").status_code == 404


def test_tokens_and_prompts_are_those_of_the_model(client: httpx.Client) -> None:
    assert post(client, "/tokenize", content="ab", model="two").json()["max_model_len"] == 2_000
    assert post(client, "/tokenize", content="ab").json()["max_model_len"] == 1_000
    assert post(client, "/detokenize", tokens=[97], model="two").json()["content"] == "a"
    assert post(client, "/apply-template", messages=ASK, model="two").json()["prompt"] == "> Where?"
    assert post(client, "/apply-template", messages=ASK).json()["prompt"] == "Where?"
    counts = [post(client, "/v1/messages/count_tokens", messages=ASK, model=name).json() for name in SAYS]
    assert [count["input_tokens"] for count in counts] == [6, 8]


def test_each_model_has_its_own_wire_format() -> None:
    markup = {"one": '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>', "two": "[TOOL_CALLS]f[ARGS]{}"}
    templates = {"one": HERMES, "two": MISTRAL}
    with (
        serving({name: ScriptedEngine(markup[name], chat_template=templates[name]) for name in markup}) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        for name in markup:
            answer = post(client, CHAT, model=name, messages=ASK, tools=TOOLS).json()["choices"][0]
            assert [call["function"]["name"] for call in answer["message"]["tool_calls"]] == ["f"], name
        each = client.get("/health").json()["models"]
    assert [one["format"] for one in each] == ["hermes_json", "mistral"]


def test_grammars_of_one_model_are_not_taken_for_the_other(client: httpx.Client, url: str) -> None:
    before = {name: metric(url, "narrows_grammar_cache_misses_total", name) for name in SAYS}
    for name in SAYS:
        body = {"structured_outputs": {"regex": "I am (one|two)\\."}}
        answer = post(client, CHAT, model=name, messages=ASK, **body).json()
        assert answer["choices"][0]["message"]["content"] == SAYS[name]
    after = {name: metric(url, "narrows_grammar_cache_misses_total", name) for name in SAYS}
    assert {name: after[name] - before[name] for name in SAYS} == {"one": 1, "two": 1}


def test_models_share_what_is_the_servers(engines: dict[str, ScriptedEngine]) -> None:
    models = list(create_app(engines).state.models)
    assert len({id(one.grammars.compiler._lanes) for one in models}) == 1
    assert len({id(one.shared) for one in models}) == 1


def test_metrics_tell_the_models_apart(client: httpx.Client, url: str) -> None:
    def counts(name: str) -> list[float]:
        names = ("narrows_sequences_finished_total", "narrows_time_to_first_token_seconds_count")
        return [metric(url, one, name) for one in names]

    before = {name: counts(name) for name in SAYS}
    post(client, CHAT, model="two", messages=ASK)
    assert counts("one") == before["one"]
    assert [new - old for new, old in zip(counts("two"), before["two"], strict=True)] == [1, 1]
    families = list(text_string_to_metric_families(client.get("/metrics").text))
    assert len({family.name for family in families}) == len(families), "each metric has one block"
    with_models = {s.name: s.labels["model_name"] for f in families for s in f.samples if "model_name" in s.labels}
    assert len(with_models) > 20
    assert set(with_models.values()) <= {"one", "two"}


def test_a_response_goes_on_with_another_model(client: httpx.Client, engines: dict[str, ScriptedEngine]) -> None:
    first = post(client, "/v1/responses", model="one", input="x").json()
    then = post(client, "/v1/responses", model="two", input="y", previous_response_id=first["id"]).json()
    assert (first["model"], then["model"]) == ("one", "two")
    assert then["previous_response_id"] == first["id"]
    assert client.get(f"/v1/responses/{then['id']}").json()["model"] == "two"


def test_the_playground_asks_the_model_that_is_chosen(client: httpx.Client) -> None:
    api = "/playground/api/"
    told = {name: client.get(f"{api}about", params={"model": name} if name else None).json() for name in ("", *SAYS)}
    assert told[""] == told["one"]
    assert [(told[name]["model"], told[name]["format"], told[name]["models"]) for name in SAYS] == [
        ("one", "hermes_json", ["one", "two"]),
        ("two", "mistral", ["one", "two"]),
    ]
    for name, text in SAYS.items():
        body = {"prompt": "x", "tokens": list(text[:5].encode())}
        assert post(client, f"{api}next", model=name, **body).json()["token"]["text"] == text[5]
    assert post(client, f"{api}next", model="three", prompt="x").status_code == 404
    assert client.get(f"{api}about?model=three").status_code == 404


def test_health_says_which_engine_is_dead(caplog: pytest.LogCaptureFixture) -> None:
    engines = {name: ScriptedEngine(text) for name, text in SAYS.items()}
    with (
        caplog.at_level(logging.CRITICAL),
        serving(engines) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        health = client.get("/health")
        assert (health.status_code, health.json()["model"]) == (200, "one")
        assert [(one["model"], one["status"]) for one in health.json()["models"]] == [("one", "ok"), ("two", "ok")]
        engines["two"].dead = EngineError("it broke", code="engine_dead")
        assert post(client, CHAT, model="two", messages=ASK).status_code == 503
        health = client.get("/health")
        assert health.status_code == 503
        told = health.json()
        assert (told["status"], told["model"], told["error"]["code"]) == ("dead", "two", "engine_dead")
        assert [(one["model"], one["status"]) for one in told["models"]] == [("one", "ok"), ("two", "dead")]
        assert post(client, CHAT, model="one", messages=ASK).status_code == 200, "the others go on"
    dead = [record.getMessage() for record in caplog.records if "is dead" in record.getMessage()]
    assert len(dead) == 1
    assert dead[0].startswith("the engine is dead (model two)")


def test_two_names_of_one_engine_are_one_model() -> None:
    engine = ScriptedEngine("Hello.")
    with serving({"a": engine, "b": engine}) as url, httpx.Client(base_url=url, timeout=60) as client:
        assert [one["id"] for one in client.get("/v1/models").json()["data"]] == ["a", "b"]
        assert post(client, CHAT, model="b", messages=ASK).json()["model"] == "a"
        assert metric(url, "narrows_sequences_finished_total", "a") == 1
        assert metric(url, "narrows_sequences_finished_total", "b") == 0
        assert "models" not in client.get("/health").json()


def test_an_engine_may_be_two_models_and_is_counted_once() -> None:
    engine = ScriptedEngine("[TOOL_CALLS]f[ARGS]{}")
    models = {"a": ServedModel(engine), "b": ServedModel(engine, tool_call_parser="mistral", chat_template=MISTRAL)}
    with serving(models) as url, httpx.Client(base_url=url, timeout=60) as client:
        texts = [post(client, CHAT, model=name, messages=ASK, tools=TOOLS).json() for name in ("a", "b")]
        assert [bool(text["choices"][0]["message"].get("tool_calls")) for text in texts] == [False, True]
        assert metric(url, "narrows_sequences_finished_total") == 2
        assert metric(url, "narrows_grammar_cache_misses_total", "b") > 0


@pytest.mark.parametrize(
    ("served", "settings", "says"),
    [
        ({}, {}, "no model"),
        ({"": 0}, {}, "empty"),
        ({"a": 0, "b": 1}, {"served_model_names": ("c",)}, "names already"),
        ({"a": 0, "b": 1}, {"tool_call_parser": "mistral"}, "tool_call_parser"),
        ({"a": 0, "b": 1}, {"chat_template": "x"}, "chat_template"),
        ({"a": 0, "b": 1}, {"reasoning_parser": "think"}, "reasoning_parser"),
    ],
)
def test_what_is_of_one_model_is_refused_for_several(
    served: dict[str, int], settings: dict[str, Any], says: str
) -> None:
    engines = [ScriptedEngine(), ScriptedEngine()]
    with pytest.raises(InputError, match=says):
        create_app({name: engines[i] for name, i in served.items()}, Settings(**settings))


def test_settings_hold_for_two_names_of_one_model() -> None:
    engine = ScriptedEngine()
    app = create_app({"a": engine, "b": engine}, Settings(tool_call_parser="mistral", chat_template=MISTRAL))
    [service] = app.state.models
    assert (service.format.name, service.template.source) == ("mistral", MISTRAL)


def test_an_unclear_format_is_named_with_the_model() -> None:
    unclear = "{{ tools }}[TOOL_CALLS] functools["
    engines = {"a": ScriptedEngine(chat_template=HERMES), "b": ScriptedEngine(chat_template=unclear)}
    with pytest.raises(InputError) as caught:
        create_app(engines)
    assert caught.value.code == "format_ambiguous"
    assert "--tool-call-parser b=NAME" in (caught.value.hint or "")
