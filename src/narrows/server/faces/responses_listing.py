"""`GET /v1/responses/{id}/input_items`: the items that a response was made from, a page at a time.

They are all of the conversation before the answer, also what earlier responses hold (OpenAI's API reference, "List
input items"). Each has an id, which it got when it was kept, and the form of OpenAI's lists: content is parts, and
there is a status. Cost: the conversation is read once for each page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from typing_extensions import TypedDict  # pydantic reads it on every Python, and brings it

from narrows import json_pieces
from narrows.arguments import quoted
from narrows.limits import Limits
from narrows.server.errors import RequestError
from narrows.server.exchange import written
from narrows.server.faces.reading import left_out, unknown
from narrows.server.faces.responses_references import input_id
from narrows.server.remembered import Response

Item = dict[str, Any]
_ORDERS = ("asc", "desc")
_MOST = 100
"""Items of a page. OpenAI's number."""


class ItemList(TypedDict):
    """A page of items."""

    object: Literal["list"]
    data: list[Item]
    first_id: str | None
    last_id: str | None
    has_more: bool


PARAMETERS = {
    "parameters": [
        {
            "name": "after",
            "in": "query",
            "schema": {"type": "string"},
            "description": "The last item of the page before",
        },
        {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": _MOST, "default": 20}},
        {"name": "order", "in": "query", "schema": {"enum": [*_ORDERS], "default": "desc"}},
    ]
}
"""For the API page."""


class Asked:
    """What the query asks for. Raises `RequestError` and `UnsupportedError`."""

    def __init__(self, query: Mapping[str, str]) -> None:
        if query.get("before"):
            raise left_out("before", "/before", "Use after, and order")
        self.after = query.get("after") or None
        order = query.get("order") or "desc"
        if order not in _ORDERS:
            raise unknown(order, _ORDERS, "/order")
        self.newest_first = order == "desc"
        number = query.get("limit") or "20"
        self.limit = int(number) if number.isascii() and number.isdigit() and len(number) < 4 else 0
        if not 1 <= self.limit <= _MOST:
            raise RequestError(
                f"limit is a number from 1 to {_MOST}, not {quoted(number)}", code="invalid_value", pointer="/limit"
            )


def with_ids(items: list[Any], response_id: str) -> Iterator[Any]:
    """Items as they are kept: each with an id."""
    for number, item in enumerate(items):
        known = item.get("id")
        if isinstance(known, str) and known:
            yield item
        else:
            prefix = _PREFIXES[item.get("type") or "message"]
            yield {**item, "id": input_id(prefix, response_id, number)}


def page(kept: Response, asked: Asked, limits: Limits) -> bytes:
    """The page as JSON. Raises `RequestError` code item_not_found where `after` names none."""
    items = json_pieces.parse(kept.items, limits)
    del items[len(items) - kept.outputs :]
    if asked.newest_first:
        items.reverse()
    begin = 0
    if asked.after is not None:
        begin = 1 + next((i for i, item in enumerate(items) if item["id"] == asked.after), len(items))
        if begin > len(items):
            raise RequestError(
                f"there is no item {quoted(asked.after)} among those of this response",
                code="item_not_found",
                pointer="/after",
            )
    data = [_listed(item) for item in items[begin : begin + asked.limit]]
    made: ItemList = {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": begin + asked.limit < len(items),
    }
    return written(made)


def _listed(item: Item) -> Item:
    kind = item.get("type") or "message"
    status = item.get("status")
    head = {"id": item["id"], "type": kind, "status": status if status in _STATUS else "completed"}
    return {**head, **_FIELDS[kind](item)}


def _message(item: Item) -> Item:
    role, content = item["role"], item["content"]
    write = _output_part if role == "assistant" else _input_part
    parts = [{"text": content}] if isinstance(content, str) else content
    return {"role": role, "content": [write(part) for part in parts]}


def _input_part(part: Item) -> Item:
    return {"type": "input_text", "text": part["refusal" if part.get("type") == "refusal" else "text"]}


def _output_part(part: Item) -> Item:
    if part.get("type") == "refusal":
        return {"type": "refusal", "refusal": part["refusal"]}
    lists = {name: part[name] if isinstance(part.get(name), list) else [] for name in ("annotations", "logprobs")}
    return {"type": "output_text", "text": part["text"], **lists}


def _reasoning(item: Item) -> Item:
    fields: Item = {"summary": [{"type": "summary_text", "text": part["text"]} for part in item.get("summary") or ()]}
    if item.get("content"):
        fields["content"] = [{"type": "reasoning_text", "text": part["text"]} for part in item["content"]]
    if isinstance(item.get("encrypted_content"), str):
        fields["encrypted_content"] = item["encrypted_content"]
    return fields


def _output(item: Item) -> Item:
    output = item["output"]
    parts = output if isinstance(output, str) else [_input_part(part) for part in output]
    return {"call_id": item["call_id"], "output": parts}


def _of(*names: str) -> Callable[[Item], Item]:
    return lambda item: {name: item[name] for name in names}


_STATUS = ("in_progress", "completed", "incomplete")
_FIELDS: dict[str, Callable[[Item], Item]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _of("call_id", "name", "arguments"),
    "function_call_output": _output,
    "custom_tool_call": _of("call_id", "name", "input"),
    "custom_tool_call_output": _output,
}
_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
}
