"""From text to token ids, as the tokenizer of a model writes it: what `LLTokenizer` needs beside the tokens.

`encode` functions take text without control tokens and add nothing at its start. Those of a tokenizer.json need the
package `tokenizers`; masks do not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from narrows.compat.llguidance.token_table import SPECIAL, TokenTable, marked_id, valid_runs
from narrows.errors import VocabularyError

Encode = Callable[[str], Sequence[int]]

_LONGEST_NAME = 100
"""Bytes between the brackets of a special token's name."""


def of_tokenizer_json(content: Mapping[str, Any]) -> Encode | None:
    """None without the package `tokenizers`."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return None
    changed = {
        **content,
        "normalizer": _without_prefix(content.get("normalizer")),
        "pre_tokenizer": _without_prefix(content.get("pre_tokenizer")),
        "padding": None,
        "truncation": None,
    }
    try:
        tokenizer = Tokenizer.from_str(json.dumps(changed))
    except Exception as error:  # the package raises no class of its own
        raise VocabularyError(f"tokenizers cannot read the tokenizer.json: {error}") from None

    def encode(text: str) -> Sequence[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return encode


def _without_prefix(part: Any) -> Any:
    """A normalizer or pre-tokenizer that adds no space at the start of a text: what is forced stands in the middle."""
    if not isinstance(part, Mapping):
        return part
    kind = part.get("type")
    if kind == "Prepend":
        return None
    if kind == "Metaspace":
        return {**{key: value for key, value in part.items() if key != "add_prefix_space"}, "prepend_scheme": "never"}
    for name in ("normalizers", "pretokenizers"):
        if kind == "Sequence" and isinstance(part.get(name), list):
            inner = [_without_prefix(item) for item in part[name]]
            return {**part, name: [item for item in inner if item is not None]}
    return part


def encode_bytes(data: bytes, encode: Encode | None, table: TokenTable) -> list[int]:
    """The ids of bytes; those that are no UTF-8 get the longest tokens that fit. Without `encode`, all do."""
    if encode is None:
        return table.greedy(data)
    ids: list[int] = []
    for text, rest in valid_runs(data):
        if text:
            ids += encode(text)
        ids += table.greedy(rest)
    return ids


def encode_special(data: bytes, encode: Encode | None, table: TokenTable) -> list[int]:
    """The same, where `<name>` is the special token of this name, if there is one."""
    ids: list[int] = []
    done = place = 0
    while (place := data.find(b"<", place)) >= 0:
        end = data.find(b">", place, place + _LONGEST_NAME + 2) + 1
        again = data.find(b"<", place + 1, max(end, place + 1))
        if not end or again >= 0 or end == place + 2:
            place += 1
            continue
        found = table.special.get(data[place:end])
        ids += encode_bytes(data[done : place if found is not None else end], encode, table)
        if found is not None:
            ids.append(found)
        done = place = end
    return ids + encode_bytes(data[done:], encode, table)


def encode_marked(data: bytes, encode: Encode | None, table: TokenTable) -> tuple[list[int], int]:
    """The ids of bytes in which 0xFF marks special tokens, by id (`[5]`) or name (`<name>`). And how many of the ids,
    from the start, are fixed by such marks."""
    ids: list[int] = []
    fixed = place = 0
    while place < len(data):
        mark = data.find(bytes([SPECIAL]), place)
        end = len(data) if mark < 0 else mark
        for i in encode_bytes(data[place:end], encode, table):
            ids.append(i)
            if is_special_id(i, table):
                fixed = len(ids)
        if mark < 0:
            break
        place = mark + 1
        found = marked_id(data, place)
        if found is not None and found[0] < len(table):
            ids.append(found[0])
            place = found[1]
            fixed = len(ids)
        elif data[place : place + 1] == b"<":
            close = data.find(b">", place, place + _LONGEST_NAME) + 1
            named = table.special.get(data[place:close]) if close else None
            if named is not None:
                ids.append(named)
                place = close
                fixed = len(ids)
    return ids, fixed


def is_special_id(i: int, table: TokenTable) -> bool:
    """Whether the id is that of a special token."""
    token = table.token(i)
    return token[:1] == bytes([SPECIAL])
