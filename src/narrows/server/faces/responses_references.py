"""References to items of remembered responses: `{"type": "item_reference", "id": ...}`, or the id alone.

Clients that leave the keeping of a conversation to the server send them in place of what the model wrote (OpenAI's API
reference, "Create a model response", item reference). An item's id holds that of its response, so no index is kept.

An item of the input has such an id, too, where the client gave none (responses_listing.py).

Cost: each response that is referred to is read once, and so is its input. All that is read has at most
`Limits.body_bytes` of JSON, and an item is taken once. So references are no way to have the server read more than a
body could hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from narrows import json_pieces
from narrows.arguments import quoted
from narrows.errors import LimitError
from narrows.limits import Limits
from narrows.server.errors import RequestError
from narrows.server.faces.reading import Fields
from narrows.server.remembered import Response

_ID = 32
"""Characters of a response's id behind `resp_`."""


def item_id(prefix: str, response_id: str, number: int) -> str:
    """The id of a response's item, by its kind and its place in the output."""
    return f"{prefix}_{response_id.partition('_')[2]}{number:04x}"


def input_id(prefix: str, response_id: str, number: int) -> str:
    """The id of an item of a response's input that had none."""
    return item_id(prefix, response_id, number) + _OF_INPUT


_OF_INPUT = "i"
"""No hexadecimal digit, with which the ids of the output end."""


def _response_id(item: str) -> str:
    return f"resp_{item.partition('_')[2][:_ID]}"


class References:
    """What the references of one request mean. `before`: the response of an id, if it is remembered."""

    def __init__(self, before: Callable[[str], Response | None], limits: Limits) -> None:
        self._before = before
        self._limits = limits
        self._bytes = 0
        self._items: dict[str, Any] = {}
        self._read: set[tuple[str, bool]] = set()
        self._taken: set[str] = set()

    def resolved(self, item: Any, place: str) -> Any:
        """The item that is meant. One that is no reference comes back as it is. Raises `RequestError` for an item that
        is not remembered or comes again, and `LimitError`."""
        if not isinstance(item, dict):
            return item
        kind = item.get("type")
        if kind != "item_reference" and not (kind is None and "id" in item and "role" not in item):
            return item
        fields = Fields(item, place)
        name = fields.text("id")
        source = _response_id(name), name.endswith(_OF_INPUT)
        if source not in self._read:
            self._read.add(source)
            self._read_items(*source, fields.at("id"))
        if name not in self._items:
            raise RequestError(
                f"there is no item {quoted(name)}",
                code="item_not_found",
                pointer=fields.at("id"),
                hint="Its response was not stored, or had to make room for others: send the item itself",
            )
        if name in self._taken:
            raise RequestError(
                f"the item {quoted(name)} stands twice in the input", code="duplicate_item", pointer=fields.at("id")
            )
        self._taken.add(name)
        return self._items[name]

    def _read_items(self, response: str, of_input: bool, place: str) -> None:
        known = self._before(response)
        if known is None:
            return
        text = known.items if of_input else known.body
        self._bytes += len(text)
        if self._bytes > self._limits.body_bytes:
            raise LimitError(
                "the responses that are referred to are too large together",
                limit="body_bytes",
                pointer=place,
                hint=f"at most {self._limits.body_bytes} bytes are read; send the items themselves",
            )
        read = json_pieces.parse(text, self._limits)
        self._items.update((item["id"], item) for item in (read if of_input else read["output"]))
