"""Compares narrows' structural tags with xgrammar's: random tags, and texts that each side writes and the other reads.

    python bench/structural_tags.py --seconds 60 [--seed 1] [--case file.json]

Needs xgrammar 0.2.8 beside narrows. Prints each tag that one side refuses and each text that one side accepts and the
other does not, with the reason if it is one of those that docs/grammars.md names, and ends with counts. The exit code
is 1 if a difference has no name.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from typing import Any

import numpy as np
import xgrammar

import narrows

TOKENS = [bytes([byte]) for byte in range(256)]
EOS = 256
VOCABULARY = narrows.Vocabulary([*TOKENS, None], special={"<eos>": EOS}, eos=[EOS])
INFO = xgrammar.TokenizerInfo(
    [*TOKENS, b"<eos>"], vocab_type=xgrammar.VocabType.RAW, vocab_size=257, stop_token_ids=[EOS]
)
COMPILER = xgrammar.GrammarCompiler(INFO, max_threads=1, cache_enabled=False)
LONGEST = 60

WORDS = ["a", "b", "ab", "ba", "aab", "<a>", "<b>", "</a>", "<a", "<", ">", "``", "`", "x", "é"]


class Tags:
    """Random structural tags."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def word(self) -> str:
        return self.chance.choice(WORDS)

    def words(self, most: int) -> list[str]:
        return self.chance.sample(WORDS, self.chance.randint(0, most))

    def format(self, depth: int) -> dict[str, Any]:
        leaves = [self.const_string, self.schema, self.regex, self.any_text, self.grammar]
        inner = [
            self.sequence,
            self.either,
            self.repeated,
            self.tag,
            self.triggered_tags,
            self.separated,
            self.dispatch,
        ]
        made: dict[str, Any] = self.chance.choice(leaves if depth == 0 else leaves + 2 * inner)(depth - 1)
        return made

    def const_string(self, depth: int) -> dict[str, Any]:
        return {"type": "const_string", "value": self.word()}

    def schema(self, depth: int) -> dict[str, Any]:
        schemas = [
            {"type": "boolean"},
            {"enum": ["a", 1]},
            {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
            {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
        ]
        return {"type": "json_schema", "json_schema": self.chance.choice(schemas), "max_whitespace_cnt": 1}

    def regex(self, depth: int) -> dict[str, Any]:
        return {"type": "regex", "pattern": self.chance.choice(["a+", "[ab]{1,2}", "<a|b>", "\\w\\d?", "[^a]"])}

    def grammar(self, depth: int) -> dict[str, Any]:
        texts = ['root ::= "a" root | "b"', "root ::= [ab]+", 'root ::= "<" root ">" | ""']
        return {"type": "grammar", "grammar": self.chance.choice(texts)}

    def any_text(self, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "any_text"}
        if self.chance.random() < 0.5:
            made["excludes"] = self.words(2)
        if self.chance.random() < 0.2:
            made["max_chars"] = self.chance.randint(0, 3)
        return made

    def sequence(self, depth: int) -> dict[str, Any]:
        return {"type": "sequence", "elements": [self.format(depth) for _ in range(self.chance.randint(1, 3))]}

    def either(self, depth: int) -> dict[str, Any]:
        return {"type": "or", "elements": [self.format(depth) for _ in range(self.chance.randint(1, 3))]}

    def repeated(self, depth: int) -> dict[str, Any]:
        kind = self.chance.choice(["optional", "plus", "star", "repeat"])
        made = {"type": kind, "content": self.format(depth)}
        if kind == "repeat":
            made |= {"min": self.chance.randint(0, 2), "max": self.chance.choice([-1, 2, 3])}
        return made

    def tag(self, depth: int, begin: str | None = None) -> dict[str, Any]:
        end = self.word() if self.chance.random() < 0.8 else self.words(2) or [self.word()]
        return {"type": "tag", "begin": begin or self.word(), "content": self.format(depth), "end": end}

    def triggered_tags(self, depth: int) -> dict[str, Any]:
        triggers = self.words(2) or [self.word()]
        begins = [self.chance.choice(triggers) + self.chance.choice(["", "a", ">"]) for _ in range(2)]
        return {
            "type": "triggered_tags",
            "triggers": triggers,
            "tags": [self.tag(depth, begin) for begin in begins],
            "at_least_one": self.chance.random() < 0.3,
            "stop_after_first": self.chance.random() < 0.3,
            "excludes": self.words(1) if self.chance.random() < 0.3 else [],
        }

    def separated(self, depth: int) -> dict[str, Any]:
        return {
            "type": "tags_with_separator",
            "tags": [self.tag(depth) for _ in range(self.chance.randint(1, 2))],
            "separator": self.chance.choice(["", ",", "a"]),
            "at_least_one": self.chance.random() < 0.3,
            "stop_after_first": self.chance.random() < 0.3,
        }

    def dispatch(self, depth: int) -> dict[str, Any]:
        rules = [[word, self.format(depth)] for word in self.words(2) or [self.word()]]
        return {"type": "dispatch", "rules": rules, "loop": self.chance.random() < 0.6, "excludes": self.words(1)}


def narrows_writes(constraint: narrows.Constraint, chance: random.Random) -> bytes | None:
    """A text that narrows accepts, if a random walk comes to one."""
    matcher = constraint.matcher()
    row = np.zeros((VOCABULARY.size + 31) // 32, dtype=np.int32)
    return _walk(lambda: (matcher.fill_mask(row), row)[1], matcher.accept, chance)


def xgrammar_writes(compiled: xgrammar.CompiledGrammar, chance: random.Random) -> bytes | None:
    matcher = xgrammar.GrammarMatcher(compiled)
    mask = xgrammar.allocate_token_bitmask(1, 257)

    def fill() -> Any:
        mask.fill_(-1)
        matcher.fill_next_token_bitmask(mask)
        return mask[0].numpy()

    return _walk(fill, matcher.accept_token, chance)


PREFERRED = {byte for word in (*WORDS, '"{}:[],1truefalse') for byte in word.encode()}


def _walk(fill: Any, accept: Any, chance: random.Random) -> bytes | None:
    text = bytearray()
    for _ in range(LONGEST):
        words = fill()
        allowed = [t for t in range(257) if int(words[t >> 5]) >> (t & 31) & 1]
        if not allowed:
            return None
        liked = [t for t in allowed if t in PREFERRED]
        if EOS in allowed and (chance.random() < 0.25 or not liked):
            return bytes(text)
        token = chance.choice(liked or allowed)
        if not accept(token):
            return None
        text.append(token)
    return None


def changed(text: bytes, chance: random.Random) -> bytes:
    """The text with one small change."""
    at = chance.randint(0, len(text))
    word = chance.choice(WORDS).encode()
    return text[:at] + (word if chance.random() < 0.5 else b"") + text[at + chance.randint(0, 2) :]


def narrows_reads(constraint: narrows.Constraint, text: bytes) -> bool:
    matcher = constraint.matcher()
    return all(map(matcher.accept, text)) and matcher.is_accepting


def xgrammar_reads(compiled: xgrammar.CompiledGrammar, text: bytes) -> bool:
    matcher = xgrammar.GrammarMatcher(compiled)
    return bool(all(map(matcher.accept_token, text)) and matcher.accept_token(EOS))


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def compare(tag: dict[str, Any], chance: random.Random, counts: Counter[str]) -> list[str]:
    """The differences for one tag, in words."""
    refusals: dict[str, str] = {}
    constraint = compiled = None
    try:
        constraint = VOCABULARY.compile(narrows.Grammar.from_structural_tag(tag, additional="declared"))
    except narrows.NarrowsError as error:
        refusals["narrows"] = f"{error.code}: {error}"
    try:
        compiled = COMPILER.compile_structural_tag(json.dumps(tag))
    except Exception as error:  # xgrammar raises several kinds
        refusals["xgrammar"] = str(error).splitlines()[-1][:200]
    if constraint is None or compiled is None:
        counts[f"refused by {' and '.join(refusals)}"] += 1
        if len(refusals) == 2:
            return []
        name = next((name for words, name in REFUSALS.items() if words in str(refusals)), None)
        counts[name or "unnamed refusals"] += 1
        return [] if name else [f"{who} refuses: {why}" for who, why in refusals.items()]
    counts["tags"] += 1
    texts: set[bytes] = {b""}
    for write, made in ((narrows_writes, constraint), (xgrammar_writes, compiled)):
        for _ in range(8):
            text = write(made, chance)  # type: ignore[operator]
            if text is not None:
                texts |= {text, changed(text, chance), changed(text, chance)}
    found = []
    for text in sorted(texts, key=len):
        if not _is_text(text):  # xgrammar's free text may be any bytes where something is excluded
            continue
        counts["texts"] += 1
        ours, theirs = narrows_reads(constraint, text), xgrammar_reads(compiled, text)
        counts["accepted"] += ours
        if ours != theirs:
            name = named(tag, text, ours)
            counts[name or "unnamed differences"] += 1
            if name is None:
                found.append(f"{text!r}: narrows {ours}, xgrammar {theirs}")
    return found[:1]


REFUSALS = {
    "new_choice_ids.size() >= 1": "a trigger without tags",
    "matches multiple triggers": "triggers that begin with one another",
    "at least one end string must be non-empty": "a tag of free text without an end",
}
"""What xgrammar refuses and narrows does not."""


def named(tag: dict[str, Any], text: bytes, ours: bool) -> str | None:
    """The name of a difference that docs/grammars.md lists."""
    if any("max_chars" in format_ for format_ in formats(tag)) and not text.isascii():
        return "a character of several tokens counts more than once"
    if not text.isascii() and not ours:
        return "free text that is cut inside a character"
    for format_ in formats(tag):
        strings = [*format_.get("triggers", ()), *(rule[0] for rule in format_.get("rules", ()))]
        ends = format_.get("end", [])
        banned = [*strings, *format_.get("excludes", ()), *around_of(tag, format_)]
        if strings and any(one in other for k, one in enumerate(banned) for other in banned[:k] + banned[k + 1 :]):
            return "strings of one free text that hold one another"
        if strings and overlap(strings, banned):
            return "a trigger that overlaps with another string"
        ends = [ends] if isinstance(ends, str) else ends
        if not ours and overlap([end for end in ends if end], [*ends, *inner_strings(format_)]):
            return "the end of a tag, read at its first occurrence"
    return None


def overlap(stops: list[str], banned: list[str]) -> bool:
    """Whether one of `banned` can be complete before or with a stop, and begin before it."""
    return any(stop.startswith(string[k:]) for string in banned for stop in stops for k in range(1, len(string)))


def formats(tag: Any) -> list[dict[str, Any]]:
    """All formats in the tag."""
    found: list[dict[str, Any]] = []
    todo = [tag]
    while todo:
        here = todo.pop()
        if isinstance(here, dict):
            found.append(here)
            todo += here.values()
        elif isinstance(here, list):
            todo += here
    return found


def around_of(tag: dict[str, Any], inner: dict[str, Any]) -> list[str]:
    """The end strings of all tags around a format."""
    ends: list[str] = []
    for format_ in formats(tag):
        if format_.get("type") == "tag" and any(one is inner for one in formats(format_)):
            ends += [format_["end"]] if isinstance(format_["end"], str) else format_["end"]
    return ends


def inner_strings(format_: dict[str, Any]) -> list[str]:
    """What free text inside a format leaves out."""
    inner = formats(format_)
    return [text for one in inner for text in (*one.get("excludes", ()), *one.get("triggers", ()))] + [
        rule[0] for one in inner for rule in one.get("rules", ())
    ]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=60)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--depth", type=int, default=2)
    given = arguments.parse_args()
    counts: Counter[str] = Counter()
    chance = random.Random(given.seed)
    ends = time.monotonic() + given.seconds
    while time.monotonic() < ends:
        tag = {"type": "structural_tag", "format": Tags(chance).format(chance.randint(0, given.depth))}
        for difference in compare(tag, chance, counts):
            counts["differences"] += 1
            print(f"{json.dumps(tag, ensure_ascii=False)}\n    {difference}", flush=True)
    print(dict(counts), file=sys.stderr)
    return int(bool(counts["differences"]))


if __name__ == "__main__":
    sys.exit(main())
