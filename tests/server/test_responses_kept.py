"""What can be asked of a response that the server has kept: its input items, a stream, an end, and to be forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI
from openai.types.responses import ResponseItem
from openai_shapes import Shape
from responses_served import WEATHER, Served, call, talking

TALK: list[Any] = [
    {"role": "developer", "content": "Be kind."},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "One"}, {"type": "text", "text": "2"}]},
    {"type": "reasoning", "id": "rs_mine", "summary": [{"type": "summary_text", "text": "S"}], "content": [{"type": "reasoning_text", "text": "Hm"}]},
    {"type": "reasoning", "summary": [], "encrypted_content": "xyz", "status": "strange"},
    {"role": "assistant", "content": "I call."},
    {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": '{"city": "Oslo"}', "status": "incomplete"},
    {"type": "function_call_output", "call_id": "c1", "output": "21 C"},
    {"type": "custom_tool_call", "call_id": "c2", "name": "note", "input": "x"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "3"}]},
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}, {"type": "output_text", "text": "Or so."}]},
    {"role": "user", "content": [{"type": "refusal", "refusal": "So?"}]},
]  # fmt: skip
LISTED: list[Any] = [
    {"type": "message", "status": "completed", "role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
    {"type": "message", "status": "completed", "role": "user", "content": [{"type": "input_text", "text": "One"}, {"type": "input_text", "text": "2"}]},
    {"type": "reasoning", "status": "completed", "summary": [{"type": "summary_text", "text": "S"}], "content": [{"type": "reasoning_text", "text": "Hm"}]},
    {"type": "reasoning", "status": "completed", "summary": [], "encrypted_content": "xyz"},
    {"type": "message", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "I call.", "annotations": [], "logprobs": []}]},
    {"type": "function_call", "status": "incomplete", "call_id": "c1", "name": "get_weather", "arguments": '{"city": "Oslo"}'},
    {"type": "function_call_output", "status": "completed", "call_id": "c1", "output": "21 C"},
    {"type": "custom_tool_call", "status": "completed", "call_id": "c2", "name": "note", "input": "x"},
    {"type": "custom_tool_call_output", "status": "completed", "call_id": "c2", "output": [{"type": "input_text", "text": "3"}]},
    {"type": "message", "status": "completed", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}, {"type": "output_text", "text": "Or so.", "annotations": [], "logprobs": []}]},
    {"type": "message", "status": "completed", "role": "user", "content": [{"type": "input_text", "text": "So?"}]},
]  # fmt: skip
ITEM = Shape(ResponseItem)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with talking(reasoning_parser="think") as served:
        yield served


def page(served: Served, response_id: str, **query: Any) -> Any:
    answer = httpx.get(f"{served.url}/v1/responses/{response_id}/input_items", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def without_ids(items: list[Any]) -> list[Any]:
    return [{name: value for name, value in item.items() if name != "id"} for item in items]


def test_every_kind_of_item_is_listed_in_openais_form(served: Served) -> None:
    made = served.create(input=TALK)
    listed = page(served, made.id, order="asc")
    assert without_ids(listed["data"]) == LISTED
    for item in listed["data"]:
        assert ITEM.strange(item) == set()
    assert listed["data"][2]["id"] == "rs_mine"
    assert len({item["id"] for item in listed["data"]}) == len(TALK)
    assert listed["has_more"] is False
    assert (listed["first_id"], listed["last_id"]) == (listed["data"][0]["id"], listed["data"][-1]["id"])
    assert page(served, made.id)["data"] == listed["data"][::-1]
    assert page(served, made.id, order="asc", include=["message.output_text.logprobs"]) == listed


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 4, 10, 11, 100])
def test_pages_add_up(served: Served, order: Any, limit: int) -> None:
    made = served.create(input=TALK)
    whole = page(served, made.id, order=order)["data"]
    seen: list[Any] = []
    more = True
    while more:
        after = {"after": seen[-1]["id"]} if seen else {}
        one = page(served, made.id, order=order, limit=limit, **after)
        assert len(one["data"]) == min(limit, len(whole) - len(seen))
        seen += one["data"]
        more = one["has_more"]
    assert seen == whole
    theirs = list(served.client.responses.input_items.list(made.id, order=order, limit=limit))
    assert [item.id for item in theirs] == [item["id"] for item in whole]
    past = page(served, made.id, order=order, after=whole[-1]["id"])
    assert past == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


def test_without_a_limit_there_are_twenty(served: Served) -> None:
    made = served.create(input=[{"role": "user", "content": str(i)} for i in range(25)])
    first = page(served, made.id)
    assert (len(first["data"]), first["has_more"]) == (20, True)
    assert first["data"][0]["content"][0]["text"] == "24"


def test_what_came_before_is_part_of_the_input(served: Served) -> None:
    served.writes(f"<think>Hm.</think>I look.{call('get_weather', {'city': 'Oslo'})}")
    first = served.create(input="One?", tools=[WEATHER])
    served.writes("Fine.")
    result = {"type": "function_call_output", "call_id": first.output[2].call_id, "output": "21 C"}
    second = served.create(input=[result], previous_response_id=first.id)
    third = served.create(input="And?", previous_response_id=second.id)
    items = page(served, third.id, order="asc")["data"]
    kinds = ["message", "reasoning", "message", "function_call", "function_call_output", "message", "message"]
    assert [item["type"] for item in items] == kinds
    assert [item["id"] for item in items[1:4]] == [item.id for item in first.output]
    assert items[5]["id"] == second.output[0].id
    assert page(served, second.id, order="asc")["data"] == items[:5]
    assert page(served, first.id)["data"] == items[:1]
    for item in items:
        assert ITEM.strange(item) == set()


def test_listed_items_may_be_referred_to(served: Served) -> None:
    served.writes("Fine.")
    first = served.create(input=[{"role": "user", "content": "Oslo?"}, {"role": "user", "content": "Rome?"}])
    listed = page(served, first.id, order="asc")["data"]
    references: list[Any] = [{"type": "item_reference", "id": item["id"]} for item in listed]
    served.create(input=[references[1], {"type": "item_reference", "id": first.output[0].id}, references[0]])
    assert served.prompt().index("Rome?") < served.prompt().index("Fine.") < served.prompt().index("Oslo?")
    wrong = {"type": "item_reference", "id": listed[0]["id"].replace("0000i", "0009i")}
    with pytest.raises(openai.NotFoundError, match="no item"):
        served.create(input=[wrong])


@pytest.mark.parametrize(
    ("query", "status", "code", "param"),
    [
        ({"limit": "0"}, 400, "invalid_value", "limit"),
        ({"limit": "101"}, 400, "invalid_value", "limit"),
        ({"limit": "-1"}, 400, "invalid_value", "limit"),
        ({"limit": "ten"}, 400, "invalid_value", "limit"),
        ({"limit": "9" * 5000}, 400, "invalid_value", "limit"),
        ({"limit": "\u0665"}, 400, "invalid_value", "limit"),
        ({"order": "up"}, 400, "invalid_value", "order"),
        ({"before": "x"}, 400, "field_unsupported", "before"),
        ({"after": "msg_none"}, 404, "item_not_found", "after"),
    ],
)
def test_what_is_refused(served: Served, query: dict[str, str], status: int, code: str, param: str) -> None:
    made = served.create()
    answer = httpx.get(f"{served.url}/v1/responses/{made.id}/input_items", params=query)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (status, code, param)


def test_a_kept_response_cannot_be_streamed_or_cancelled(served: Served) -> None:
    made = served.create()
    with pytest.raises(openai.BadRequestError, match="in the background") as caught:
        served.client.responses.retrieve(made.id, stream=True, starting_after=3)
    assert (caught.value.code, caught.value.param) == ("field_unsupported", "stream")
    with pytest.raises(openai.BadRequestError, match="in the background") as caught:
        served.client.responses.retrieve(made.id, starting_after=0)
    assert caught.value.param == "starting_after"
    with pytest.raises(openai.BadRequestError, match="synchronous") as caught:
        served.client.responses.cancel(made.id)
    assert caught.value.code == "response_not_cancellable"
    assert served.client.responses.retrieve(made.id, stream=False).id == made.id


def test_the_tokens_of_a_prompt_are_counted(served: Served) -> None:
    served.writes("Fine.")
    first = served.create(input=TALK)
    for fields in (
        {"input": "hi"},
        {"input": TALK},
        {"input": "And?", "previous_response_id": first.id, "tools": [WEATHER]},
    ):
        counted = served.client.responses.input_tokens.count(model="scripted", **fields)  # type: ignore[arg-type]
        assert counted.object == "response.input_tokens"
        usage = served.create(**fields).usage
        assert usage is not None
        assert counted.input_tokens == usage.input_tokens
    with pytest.raises(openai.BadRequestError, match="not known here"):
        served.client.responses.input_tokens.count(model="scripted", input="x", previous_response_id="resp_none")


def test_what_is_not_there_is_not_found() -> None:
    with talking(api_keys=["one", "two"]) as served:
        made = served.create()
        other = OpenAI(base_url=f"{served.url}/v1", api_key="two", max_retries=0)
        assert list(served.client.responses.input_items.list(made.id))
        served.client.responses.delete(served.create().id)
        for client, name in ((other, made.id), (served.client, "resp_none")):
            for ask in (client.responses.retrieve, client.responses.cancel, client.responses.delete):
                with pytest.raises(openai.NotFoundError, match="no response"):
                    ask(name)
            with pytest.raises(openai.NotFoundError, match="no response"):
                client.responses.input_items.list(name)
        deleted = httpx.delete(f"{served.url}/v1/responses/{made.id}", headers={"authorization": "Bearer one"})
        assert deleted.json() == {"id": made.id, "object": "response", "deleted": True}
