"""The answers of tests/cases/vllm/answers.toml in a wire format's markup and a real tokenizer's tokens, cut into deltas as an engine hands them out.

Nine cuttings: by character, by token, by 1 to 8 tokens at random (as speculation does it) with six seeds, and in one piece. The last delta is the end
token with no text. By character, a token's id comes with its first character.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers.decoders import DecodeStream

from narrows import Vocabulary, formats
from narrows.errors import InputError
from narrows.formats.render import render

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES = Path(__file__).parents[2] / "cases"
sys.path.append(str(CASES.parent / "support"))  # for scripts; pytest has it already
TOOLS: list[dict[str, Any]] = json.loads((CASES / "formats" / "tools.json").read_text(encoding="utf-8"))
SEEDS = range(6)
CUTTINGS = ("characters", "tokens", *(f"1 to 8 tokens, seed {seed}" for seed in SEEDS), "whole")

Delta = tuple[str, list[int]]
"""Text and ids."""


@dataclass(slots=True)
class Result:
    """What a parser made of an answer."""

    content: str = ""
    reasoning: str = ""
    calls: list[list[str]] = field(default_factory=list)
    """Name, arguments and id of each."""

    def add(self, delta: Any) -> None:
        """A DeltaMessage, or None, as OpenAI's clients add them up. Raises where a client would."""
        if delta is None:
            return
        self.content += delta.content or ""
        self.reasoning += delta.reasoning or ""
        for call in delta.tool_calls:
            if call.index == len(self.calls):
                assert call.id, "a call begins without an id"
                assert call.function.name, "a call begins without a name"
                self.calls.append([call.function.name, call.function.arguments or "", call.id])
            else:
                assert call.index < len(self.calls), "a call leaves an index out"
                assert not call.id, "an id is repeated"
                assert not call.function.name, "a name is repeated"
                self.calls[call.index][1] += call.function.arguments or ""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer in one format."""

    name: str
    kind: str
    content: str
    calls: tuple[tuple[str, Any], ...]
    pieces: tuple[tuple[str, bool], ...]
    """The markup; False: spelled in ordinary tokens, whatever it says."""

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.pieces)

    def tokens(self, tokenizer: Any) -> list[int]:
        ids: list[int] = []
        for text, as_token in self.pieces:
            parts = [text] if as_token else [text[:3], text[3:]]
            for part in parts:
                ids += tokenizer.encode(part, add_special_tokens=False)
        return ids

    def spelled(self, markers: Iterable[str]) -> Answer:
        """The same with these markers in ordinary tokens."""
        pieces = list(self.pieces)
        for marker in markers:
            for at in reversed(range(len(pieces))):
                text, as_token = pieces[at]
                if marker in text and (as_token or text != marker):
                    parts = [(part, as_token) for part in text.split(marker)]
                    pieces[at : at + 1] = [piece for part in parts for piece in (part, (marker, False))][:-1]
        return replace(self, pieces=tuple(pieces))

    def problem(self, streamed: Result, complete: Result, flushed: bool = True) -> str | None:
        """What is wrong with these, the same answer streamed and complete; None: nothing. How much blank is between words does not count.

        Streamed must equal complete, and both what the answer says. Of a call that was cut, the arguments must be the beginning; where nobody says
        that the answer is over (not `flushed`), the stream may come a little later.
        """
        for how, result in (("streamed", streamed), ("complete", complete)):
            if result.content.split() != self.content.split():
                return f"{how} content {result.content!r}"
            if [call[0] for call in result.calls] != [name for name, _ in self.calls]:
                return f"{how} calls {result.calls!r}"
            for (_, expected), (_, arguments, _) in zip(self.calls, result.calls, strict=True):
                if self.kind == "truncated":
                    if not _begins(arguments, expected):
                        return f"{how} arguments {arguments!r}, which was cut"
                elif _value(arguments) != expected:
                    return f"{how} arguments {arguments!r}"
        if self.kind != "truncated":
            return None
        pairs = zip(streamed.calls, complete.calls, strict=True)
        if not all(said == whole or (not flushed and whole.startswith(said)) for (_, said, _), (_, whole, _) in pairs):
            return f"streamed {streamed.calls!r}, complete {complete.calls!r}"
        return None


def _value(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return None


def _begins(arguments: str, expected: dict[str, Any]) -> bool:
    """Whether these arguments are the beginning of the expected ones, however they are spaced, and not made whole."""
    whole, part = ("".join(text.split()) for text in (json.dumps(expected), arguments))
    return len(part) < len(whole) - 1 and whole.startswith(part)


@cache
def answers(format_name: str, by_text: bool = False) -> tuple[Answer, ...]:
    """Every answer in this format. by_text: the hostile one says what the format can say in text, where no ids tell markers apart."""
    fmt = formats.get(format_name)
    entries = tomllib.loads((CASES / "vllm" / "answers.toml").read_text(encoding="utf-8"))["answer"]
    return tuple(_answer(fmt, entry, by_text) for entry in entries)


def closing(fmt: formats.Format) -> str:
    """A marker that ends a call of the format, or opens one where it has none that does."""
    shape = fmt.calls[0]
    return getattr(shape, "close", "") or getattr(shape, "call_close", "") or shape.open


def sayable(fmt: formats.Format, text: str) -> bool:
    """Whether this text, spelled in bytes, is an answer that the format's grammar allows."""
    matcher = _letters().compile(fmt.grammar(TOOLS, "auto")).matcher()
    return matcher.accept_bytes(text.encode()) and matcher.is_accepting


@cache
def _letters() -> Vocabulary:
    return Vocabulary([bytes([i]) for i in range(256)] + [b""], {"<end>": 256}, [256])


def _answer(fmt: formats.Format, entry: dict[str, Any], by_text: bool) -> Answer:
    answer = _marked(fmt, entry, closing(fmt))
    if by_text and entry["kind"] == "hostile" and not sayable(fmt, answer.text):
        marker = closing(fmt)
        for token in fmt.tokens:  # what no string can hold in text; a string can hold the rest of the marker
            marker = marker.replace(token, "")
        answer = _marked(fmt, entry, marker)
        assert marker
        assert sayable(fmt, answer.text)
    return answer


def _marked(fmt: formats.Format, entry: dict[str, Any], marker: str) -> Answer:
    """`marker`: what the hostile answer holds."""
    calls = _filled(entry.get("calls", []), marker)
    message = {
        "content": entry.get("content"),
        "tool_calls": [{"function": {"name": call["name"], "arguments": call["arguments"]}} for call in calls],
    }
    content = entry.get("content", "")
    try:
        text = render(fmt, message)  # also what no parser could read back
    except InputError as error:
        if error.pointer != "/content":
            raise
        content, text = (
            "",
            render(fmt, {**message, "content": None}),
        )  # no text stands before such a call
    if "trailing" in entry:
        text += "\n\n" + entry["trailing"]
        content += " " + entry["trailing"]
    if entry["kind"] == "truncated":
        text = text[: text.index("that the budget") + 8]
    pieces = ((text, True),)
    if entry["kind"] == "hostile" and _is_xml(fmt):
        # Between tags the marker as a token is the marker: there is no quote around a value. As ordinary tokens it is not.
        before, _, after = text.partition(marker)
        pieces = ((before, True), (marker, False), (after, True))
    expected = tuple((call["name"], call["arguments"]) for call in calls)
    return Answer(entry["name"], entry["kind"], content, expected, pieces)


def _filled(value: Any, marker: str) -> Any:
    if isinstance(value, str):
        return value.replace("$close", marker)
    if isinstance(value, list):
        return [_filled(item, marker) for item in value]
    return {key: _filled(item, marker) for key, item in value.items()} if isinstance(value, dict) else value


def _is_xml(fmt: formats.Format) -> bool:
    return "xml" in type(fmt.calls[0]).__module__


@cache
def marked_tokenizer() -> Any:
    """Qwen3's tokenizer with tokens for the markers that models have as tokens: those that are a whole tag or a bracketed word.

    Raises real_tokenizers.UnreachableError where it is not cached and cannot be fetched.
    """
    import real_tokenizers
    from transformers import AutoTokenizer
    from transformers.utils import logging
    from vllm.tokenizers.hf import get_cached_tokenizer

    logging.set_verbosity_error()
    tokenizer = AutoTokenizer.from_pretrained(real_tokenizers.folder("qwen3"))
    every = [formats.get(name) for name in formats.names()]
    wanted = {
        marker for fmt in every for marker in fmt.markers(fmt.reasoning) if _is_token(marker) or marker in fmt.tokens
    }
    tokenizer.add_tokens(sorted(wanted), special_tokens=True)
    return get_cached_tokenizer(tokenizer)


def tokenizer_or_skip() -> Any:
    """The same for a test, which is skipped where it cannot be had."""
    import pytest
    import real_tokenizers

    try:
        return marked_tokenizer()
    except real_tokenizers.UnreachableError as error:
        pytest.skip(str(error))


def _is_token(marker: str) -> bool:
    bracketed = (marker[0], marker[-1]) in (("<", ">"), ("[", "]"))
    return bracketed and any(word in marker.lower() for word in ("tool", "think", "|", "\uff5c", "args", "call_id"))


def cuttings(answer: Answer, tokenizer: Any, skip_special_tokens: bool = False) -> Iterator[tuple[str, list[Delta]]]:
    """Every cutting of an answer, by name."""
    deltas = steps(tokenizer, answer.tokens(tokenizer), skip_special_tokens)
    for name in CUTTINGS:
        yield name, cut(deltas, None if answer.kind == "truncated" else tokenizer.eos_token_id, name)


def steps(tokenizer: Any, ids: Sequence[int], skip_special_tokens: bool = False) -> list[Delta]:
    """One token each, with the text that an engine would show for it."""
    stream = DecodeStream(skip_special_tokens=skip_special_tokens)
    return [(stream.step(tokenizer.backend_tokenizer, token) or "", [token]) for token in ids]


def cut(deltas: list[Delta], end: int | None, cutting: str) -> list[Delta]:
    """The deltas of one cutting. end: the end token; None where the budget ended the answer."""
    last: list[Delta] = [("", [end])] if end is not None else []
    if cutting == "characters":
        return [*_characters(deltas), *last]
    if cutting == "tokens":
        return [*deltas, *last]
    if cutting == "whole":
        return [_join(deltas), *last]
    return [*_random(deltas, int(cutting.rpartition(" ")[2])), *last]


def _characters(deltas: list[Delta]) -> Iterator[Delta]:
    for text, ids in deltas:
        if not text:
            yield text, ids
        for position, character in enumerate(text):
            yield character, ids if position == 0 else []


def _random(deltas: list[Delta], seed: int) -> Iterator[Delta]:
    choice = random.Random(seed)
    begin = 0
    while begin < len(deltas):
        size = choice.randint(1, 8)
        yield _join(deltas[begin : begin + size])
        begin += size


def _join(deltas: list[Delta]) -> Delta:
    return "".join(text for text, _ in deltas), [token for _, ids in deltas for token in ids]
