"""Reports the keywords of a request's schemas that are not enforced, where the request does not set `strict`.

The client gets a header of the answer, streamed or not. The operator gets a line in the log, once per definition, and a
metric by keyword.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from narrows.grammar.json_schema.keywords import KNOWN

if TYPE_CHECKING:
    from narrows.server.metrics import Metrics

HEADER = "x-narrows-unenforced"
_LONGEST = 1_024
"""Characters of the header's value. Proxies refuse headers of some thousands."""


def header(places: Sequence[str]) -> str:
    """The header's value: JSON pointers into the request's body, percent-encoded as in a URI (RFC 6901, section 6),
    with commas between. If there are too many, the first of them and the number of the others, as in `+12`. ASCII,
    one line, about a thousand characters at most."""
    written: list[str] = []
    size = 0
    for count, place in enumerate(places):
        text = quote(place[:_LONGEST], safe="/$-_.~", errors="replace")
        size += len(text) + 2
        if size > _LONGEST:
            return ", ".join([*written, f"+{len(places) - count}"])
        written.append(text)
    return ", ".join(written)


def line(places: Sequence[str], tools: Sequence[str]) -> str:
    """The same for the log, with the tools' names."""
    used = sorted({int(number) for place in places if (number := _tool(place)).isdigit()})
    named = ", ".join(f"{i} is {tools[i][:64]!r}" for i in used[:16] if i < len(tools))
    return header(places) + (f" (tools: {named})" if named else "")


def _tool(place: str) -> str:
    return place.removeprefix("/tools/").partition("/")[0] if place.startswith("/tools/") else ""


def count(metrics: Metrics, model: str, places: Sequence[str]) -> None:
    """Count each keyword once per place. The names of tools and properties come from clients, so they are no labels."""
    for keyword, times in Counter(map(_keyword, places)).items():
        metrics.unenforced.labels(model, keyword).inc(times)


def _keyword(place: str) -> str:
    last = place.rpartition("/")[2]
    return last if last in KNOWN else "schema"
