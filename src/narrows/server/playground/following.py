"""A text in a grammar, token by token: where it fits, where it stops, and why. All of it runs in a thread (turns.py).

Cost: a mask and some questions to the core for each token, some 0.1 ms; at most `MOST_TOKENS`. The work of the masks is
bounded by `Limits.sequence_work`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from narrows.constraint import Constraint, Explanation, Matcher
from narrows.decoding.draw import allowed_ids
from narrows.errors import InputError, NarrowsError
from narrows.events import ToolCallArguments, ToolCallEnd, ToolCallStart
from narrows.explaining import Tried, schema_place
from narrows.server.errors import body_of
from narrows.server.playground.definition import Read, is_schema

if TYPE_CHECKING:
    from narrows.engines.api import Engine
    from narrows.vocabulary import Vocabulary

MOST_TOKENS = 2_000
"""Tokens of a text that are followed."""
EXPLAIN_WORK = 20_000
"""Units of `Limits.reading_work` for the keywords that refuse a token: some 20 ms."""
SAMPLE = 40
"""Allowed tokens that are shown."""
_GHOST_BYTES = 2_000
"""Most bytes of forced text that are shown."""


class Texts:
    """What tokens are, for people. `describe(token)`: text and bytes, as `answers.token_texts` has it."""

    def __init__(self, vocabulary: Vocabulary, describe: Callable[[int], tuple[str, bytes]]) -> None:
        self._describe = describe
        self._ends = frozenset(vocabulary.eos_ids)

    def of(self, token: int) -> dict[str, Any]:
        """Id and text. `bytes`, if the token is no whole text. `special`, if it is a control token, whose name is the
        text. `end`, if it ends the text."""
        text, data = self._describe(token)
        entry: dict[str, Any] = {"id": token, "text": text}
        if not data:
            entry["special"] = True
        elif text.encode() != data:
            entry["bytes"] = list(data)
        if token in self._ends:
            entry["end"] = True
        return entry


def tokens_of(engine: Engine, text: str, names_tokens: bool) -> list[int]:
    """The text as the model's tokens. Where the tokenizer writes more than the text (a space before it), the text's own
    bytes are cut instead."""
    ids = engine.encode(text, parse_special=names_tokens)
    vocabulary = engine.vocabulary
    names = {token: name.encode() for name, token in vocabulary.special.items()}
    if b"".join(vocabulary.token_bytes(token) or names.get(token, b"") for token in ids) == text.encode():
        return list(ids)
    return list(vocabulary._core.segment(text.encode()) or ids)


def follow(
    read: Read,
    constraint: Constraint,
    by_rule: Constraint | None,
    ids: Sequence[int],
    texts: Texts,
    given_up: Callable[[], bool],
) -> dict[str, Any]:
    """The tokens of a text, and for each place before one: how many tokens are allowed, whether the text may end, the
    time of the mask, and whether the token is forced. `stopped`: why the first token that does not fit does not."""
    vocabulary: Any = constraint.vocabulary
    matcher = constraint.matcher()
    masks = _Masks(vocabulary.size)
    ids = ids[:MOST_TOKENS]
    places: list[dict[str, Any]] = []
    answer: dict[str, Any] = {"tokens": [texts.of(token) for token in ids], "fits": 0, "places": places}
    try:
        for token in ids:
            if given_up():
                break
            place = masks.place(matcher)
            data = vocabulary.token_bytes(token)
            place["forced"] = bool(data) and matcher.forced_bytes(len(data)).startswith(data)
            places.append(place)
            if not matcher.accept(token):
                answer["stopped"] = explain(read, matcher, by_rule, token, texts)
                break
            answer["fits"] += 1
        else:
            places.append(masks.place(matcher))
        answer["complete"] = matcher.is_accepting or matcher.is_finished
        answer.update(_to_the_end(matcher, texts))
        if "stopped" not in answer and not answer["complete"] and vocabulary.eos_ids:
            answer["stopped"] = explain(read, matcher, by_rule, vocabulary.eos_ids[0], texts)
    except NarrowsError as error:  # a limit of the sequence
        answer["error"] = body_of(error)["error"]
    return answer


def _to_the_end(matcher: Matcher, texts: Texts) -> dict[str, Any]:
    """What must come next, and the shortest way to the end."""
    if matcher.is_finished:
        return {"forced": "", "shortest": []}
    forced = matcher.forced_bytes(_GHOST_BYTES).decode("utf-8", "replace")
    try:
        shortest = matcher.shortest_end()
    except InputError:  # the vocabulary cannot spell it
        shortest = []
    return {"forced": forced, "shortest": [texts.of(token) for token in shortest[:500]]}


class _Masks:
    """Makes masks, and counts and times them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.row = np.zeros((size + 31) // 32, dtype=np.int32)

    def place(self, matcher: Matcher) -> dict[str, Any]:
        started = time.perf_counter()
        matcher.fill_mask(self.row)
        seconds = time.perf_counter() - started
        return {
            "allowed": int(np.unpackbits(self.row.view(np.uint8)).sum()),
            "end": matcher.is_accepting,
            "us": round(seconds * 1e6, 1),
        }

    def allowed(self) -> Any:
        """The ids that the last mask allows."""
        return allowed_ids(self.row, self._size)


def look_at(
    read: Read, constraint: Constraint, by_rule: Constraint | None, ids: Sequence[int], token: int, texts: Texts
) -> dict[str, Any]:
    """One place: what is allowed there, some of the tokens, and why `token` is or is not. Raises `InputError` where the
    tokens before do not fit."""
    matcher = constraint.matcher()
    matcher.replay(ids)
    masks = _Masks(constraint.vocabulary.size)
    place = masks.place(matcher)
    return {
        **place,
        "token": texts.of(token),
        "sample": _sample(masks.allowed(), texts),
        "why": explain(read, matcher, by_rule, token, texts),
    }


def _sample(ids: Any, texts: Texts) -> list[dict[str, Any]]:
    """Some of the tokens: the first ones that differ in more than the spaces around them."""
    shown: dict[str, dict[str, Any]] = {}
    for token in ids[: 50 * SAMPLE].tolist():
        entry = texts.of(token)
        shown.setdefault(entry["text"].strip(), entry)
        if len(shown) == SAMPLE:
            break
    return list(shown.values())


def allowed_at(constraint: Constraint, ids: Sequence[int]) -> frozenset[int]:
    """All tokens that are allowed after these."""
    matcher = constraint.matcher()
    matcher.replay(ids)
    masks = _Masks(constraint.vocabulary.size)
    masks.place(matcher)
    return frozenset(masks.allowed().tolist())


def explain(read: Read, matcher: Matcher, by_rule: Constraint | None, token: int, texts: Texts) -> dict[str, Any]:
    """Why a token is allowed at the matcher's place, or why not."""
    tokens = matcher.history()
    explained = matcher.explain(token)
    rules: Sequence[str] = explained.rules
    if by_rule is not None:
        other = by_rule.matcher()
        other.replay(tokens)
        rules = other.explain(token).rules
    answer: dict[str, Any] = {
        "allowed": explained.allowed,
        "offset": explained.offset,
        "rules": [rule for rule in rules if rule],
        "expected": list(explained.expected),
        "end_expected": explained.end_expected,
        "tokens": [texts.of(one)["text"] for one in explained.tokens[:20]],
    }
    place = _place(read, matcher.constraint, tokens, token, explained)
    if place is not None:
        answer["place"] = place
    return answer


def _place(
    read: Read, constraint: Constraint, tokens: Sequence[int], token: int, explained: Explanation
) -> dict[str, Any] | None:
    """The place in the schema, or in the schema of the tool that is being called."""
    vocabulary: Any = constraint.vocabulary
    names = {number: name.encode() for name, number in vocabulary.special.items()}
    before = b"".join(vocabulary.token_bytes(one) or names.get(one, b"") for one in tokens)
    data = vocabulary.token_bytes(token)
    refused: bytes | None = None
    if not explained.allowed and (data or token in vocabulary.eos_ids):
        before += data[: explained.offset]
        refused = data[explained.offset : explained.offset + 1]
    if is_schema(read):
        place = schema_place(read.source, read.options, Tried(before, refused), vocabulary, EXPLAIN_WORK)
        return asdict(place) if place is not None else None
    return _place_in_tool(read, before, refused, vocabulary) if read.turn is not None else None


def _place_in_tool(read: Read, before: bytes, refused: bytes | None, vocabulary: Any) -> dict[str, Any] | None:
    """The place in the arguments of the call that is open, if one is. The keywords that refuse a token are known only
    in formats that write arguments as JSON."""
    assert read.turn is not None
    assert read.format is not None
    text = before.decode("utf-8", "ignore")
    name, arguments = "", ""
    for event in read.format.parser(**read.turn.arguments()).feed(text):
        if isinstance(event, ToolCallStart):
            name, arguments = event.name, ""
        elif isinstance(event, ToolCallArguments):
            arguments += event.text
        elif isinstance(event, ToolCallEnd):
            name = ""
    found = read.tool(name) if name else None
    if found is None:
        return None
    position, schema = found
    prefix = f"/{position}/function/parameters"
    is_json = bool(arguments) and text.endswith(arguments)
    tried = Tried(arguments.encode(), refused if is_json else None)
    place = schema_place(schema, read.options, tried, vocabulary, EXPLAIN_WORK) if schema is not None else None
    if place is None:
        return {
            "tool": name,
            "schemas": [prefix],
            "keywords": [],
            "value": "",
            "part": "value",
            "expected": "arguments",
        }
    return {
        **asdict(place),
        "tool": name,
        "schemas": [prefix + pointer for pointer in place.schemas],
        "keywords": [prefix + pointer for pointer in place.keywords],
    }
