"""Structural tags with texts, from tests/cases/structural_tag, and both implementations that read them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import narrows
from narrows.grammar.grammar import Grammar
from narrows.reference import Reference

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

FOLDER = Path(__file__).parents[2] / "cases" / "structural_tag"


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of one file. Each has a `tag`, as JSON text."""
    read: list[dict[str, Any]] = tomllib.loads((FOLDER / f"{name}.toml").read_text())["case"]
    for case in read:
        case.setdefault("tag", f'{{"type": "structural_tag", "format": {case.get("format")}}}')
    return read


class Both:
    """The reference and the engine over one vocabulary: a token for each byte, some longer ones, and special ones."""

    def __init__(self, grammar: Grammar, special: list[str]) -> None:
        longer = [b"<f", b"=a>", b"</", b"hi", b'{"', b'": ', b"``", b"\xc3\xa9"]
        self.tokens = [*(bytes([byte]) for byte in range(256)), *longer, *([b""] * (len(special) + 1))]
        self.special = {name: 256 + len(longer) + k for k, name in enumerate([*special, "<eos>"])}
        self.eos = self.special["<eos>"]
        self.reference = Reference(grammar.module, special=self.special, eos=[self.eos])
        tokens = [token if k < 256 + len(longer) else None for k, token in enumerate(self.tokens)]
        vocabulary = narrows.Vocabulary(tokens, special=self.special, eos=[self.eos])
        self.matcher = vocabulary.compile(grammar).matcher()

    def ids(self, text: str) -> list[int]:
        """The names of special tokens in the text as these tokens, all else byte by byte."""
        names = sorted(self.special, key=len, reverse=True)
        ids: list[int] = []
        for part in re.split("(" + "|".join(map(re.escape, names)) + ")", text):
            ids += [self.special[part]] if part in self.special else part.encode()
        return ids

    def reads(self, text: str) -> tuple[bool, bool]:
        """(accepted, viable), on which both agree."""
        ids = self.ids(text)
        self.matcher.reset()
        viable = self.matcher.accepts(ids) == len(ids)
        accepted = viable and all(map(self.matcher.accept, ids)) and self.matcher.is_accepting
        mask = self.reference.mask(ids, self.tokens)
        assert (accepted, viable) == (self.eos in mask, bool(mask)), f"the engine differs for {text!r}"
        return accepted, viable


def of_case(case: dict[str, Any]) -> Both:
    return Both(Grammar.from_structural_tag(json.loads(case["tag"])), case.get("special", []))
