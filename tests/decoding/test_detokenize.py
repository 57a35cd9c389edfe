"""Whole characters, stop texts, and nothing lost, however the text is cut."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from narrows.decoding.detokenize import ContentStops, Detokenizer, StopTexts
from narrows.events import Content, Reasoning, ToolCallArguments


@given(st.binary(max_size=60), st.lists(st.integers(0, 60)))
def test_bytes_come_out_as_whole_characters_for_every_split(data, cuts):
    reader = Detokenizer()
    places = [0, *sorted(c for c in cuts if c < len(data)), len(data)]
    pieces = [reader.feed(data[a:b]) for a, b in itertools.pairwise(places)]
    assert "".join(pieces) + reader.finish() == data.decode("utf-8", "replace")


def test_no_half_character_is_shown():
    reader = Detokenizer()
    assert [reader.feed(bytes([b])) for b in "é😀".encode()] == ["", "é", "", "", "", "😀"]
    assert reader.feed(b"\xf0\x9f") == ""
    assert reader.finish() == "\ufffd"


def first_stop(text: str, stops: list[str]) -> tuple[str, str | None]:
    """By definition: the stop text that ends first; of those, the longest."""
    for end in range(1, len(text) + 1):
        met = [s for s in stops if text[:end].endswith(s)]
        if met:
            longest = max(met, key=len)
            return text[: end - len(longest)], longest
    return text, None


@given(
    st.text("ab", max_size=30),
    st.lists(st.text("ab", min_size=1, max_size=5), max_size=3),
    st.lists(st.integers(0, 30)),
)
@settings(max_examples=300)
def test_stop_texts_are_found_for_every_split(text, stops, cuts):
    places = [0, *sorted(c for c in cuts if c < len(text)), len(text)]
    reader = StopTexts(stops)
    shown = ""
    for a, b in itertools.pairwise(places):
        shown += reader.feed(text[a:b])
        held = len(text[:b]) - len(shown)
        if reader.found is None:
            assert held <= max((len(s) - 1 for s in stops), default=0)
            assert held == max((k for s in stops for k in range(len(s)) if text[:b].endswith(s[:k])), default=0), (
                "holds just what it must"
            )
    if reader.found is None:
        shown += reader.finish()
    assert (shown, reader.found) == first_stop(text, stops)


def test_a_stop_text_can_be_kept_and_nothing_follows_it():
    reader = StopTexts(["END"], include=True)
    assert reader.feed("one EN") == "one "
    assert reader.feed("D two") == "END"
    assert reader.feed("more") == ""
    assert reader.finish() == ""


def test_stop_texts_count_in_content_alone():
    stops = ContentStops(["END"])
    events = [Reasoning("END", (0, 3)), Content("one EN", (3, 9)), ToolCallArguments(0, '"END"', (9, 14))]
    shown = stops.feed(events)
    assert shown == [
        Reasoning("END", (0, 3)),
        Content("one ", (3, 7)),
        Content("EN", (7, 9)),
        ToolCallArguments(0, '"END"', (9, 14)),
    ]
    assert stops.found is None
    assert stops.feed([Content("two E", (14, 19)), Content("ND three", (19, 27)), Reasoning("x", (27, 28))]) == [
        Content("two ", (14, 18))
    ]
    assert stops.found == "END"
    assert stops.feed([Content("four", (28, 32))]) == []
    assert stops.finish() == []


@given(st.lists(st.text("ab", max_size=6), max_size=6), st.text("ab", min_size=1, max_size=4))
@settings(max_examples=200)
def test_content_events_keep_their_text_and_spans(texts, stop):
    place, events = 0, []
    for text in texts:
        events.append(Content(text, (place, place + len(text))))
        place += len(text)
    stops = ContentStops([stop])
    shown = [e for event in events for e in stops.feed([event])]
    shown += stops.finish()
    whole, found = first_stop("".join(texts), [stop])
    assert "".join(e.text for e in shown) == whole
    assert stops.found == found
    assert all("".join(texts)[slice(*e.span)] == e.text for e in shown)


def test_a_long_stop_text_costs_linear_time():
    reader = StopTexts(["a" * 20_000 + "b"])
    for _ in range(40):
        reader.feed("a" * 1_000)
    assert len(reader.finish()) == 20_000
