"""The input of a custom tool out of a call's arguments, however they are spelled and cut."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from narrows.server.faces.custom_input import InputText, arguments

texts = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from('"\\\n\t/u{}:d8')), max_size=12)


@given(texts, st.booleans(), st.booleans(), st.lists(st.integers(1, 5), max_size=80))
def test_however_it_is_spelled_and_cut(text: str, as_ascii: bool, name_escaped: bool, cuts: list[int]) -> None:
    spelled = json.dumps({"input": text}, ensure_ascii=as_ascii)
    if name_escaped:
        spelled = spelled.replace('"input"', '"\\u0069n\\u0070ut"', 1)
    reader, read = InputText(), ""
    for cut in cuts:
        read += reader.feed(spelled[:cut])
        spelled = spelled[cut:]
    assert read + reader.feed(spelled) == text


@given(texts)
def test_arguments_are_read_back(text: str) -> None:
    assert InputText().feed(arguments(text)) == text
