"""Lark grammars read by narrows, by the Lark package and by llguidance: where do they differ?

    pip install lark llguidance==1.9.1
    python tests/support/lark_peers.py cases               # the cases of tests/cases/lark
    python tests/support/lark_peers.py random --count 500  # random grammars

Each case says where a peer differs: `lark` and `llguidance` are "refuses", or the texts that the peer reads otherwise.
"cases" prints what is not so. Lark is asked with `lexer="dynamic_complete"`, which tries all readings. It is not asked
for beginnings of texts. llguidance takes the longest terminal, so on random grammars it is asked for soundness alone:
each text that it accepts is accepted here. The few it accepts more are those that a lazy quantifier would refuse.
"""

from __future__ import annotations

import argparse
import re
import sys
from itertools import product
from random import Random
from typing import Any, Literal, Union

from lark_cases import READ, name, texts
from random_lark import RandomLark

from narrows import Grammar
from narrows.errors import NarrowsError
from narrows.reference import Reference

OF_LLGUIDANCE = ("llguidance", "parametric", "captures")
"""The files of cases that Lark refuses, all of them."""
Verdict = Literal["sentence", "beginning", "neither"]
Difference = Union[Literal["refuses"], list[str]]


def by_lark(grammar: str, start: str = "start") -> Any:
    """The parser, or None if it is refused."""
    import lark

    try:
        return lark.Lark(grammar, parser="earley", lexer="dynamic_complete", start=start)
    except (lark.exceptions.LarkError, re.error, AttributeError):  # the last for some empty strings
        return None


def lark_accepts(parser: Any, text: str) -> bool:
    import lark

    try:
        parser.parse(text)
    except lark.exceptions.LarkError:
        return False
    return True


class ByLLGuidance:
    """Reads texts byte by byte: each byte is a token."""

    eos_token_id = 256
    bos_token_id = None

    def __init__(self) -> None:
        import llguidance
        from llguidance._tokenizer import TokenizerWrapper

        self.tokens = [*[bytes([b]) for b in range(256)], b"<|eos|>"]
        self.special_token_ids = [256]
        self._matcher = llguidance.LLMatcher
        self._tokenizer = llguidance.LLTokenizer(TokenizerWrapper(self))

    def __call__(self, text: bytes) -> list[int]:
        return list(text)

    def matcher(self, grammar: str) -> Any:
        """None if it is refused."""
        found = self._matcher(self._tokenizer, self._matcher.grammar_from_lark(grammar), log_level=0)
        return None if found.is_error() else found

    @staticmethod
    def verdict(matcher: Any, text: str) -> Verdict:
        matcher.reset()
        data = list(text.encode())
        if matcher.try_consume_tokens(data) < len(data):
            return "neither"
        return "sentence" if matcher.is_accepting() else "beginning"


def lark_differs(case: dict[str, Any]) -> Difference:
    parser = by_lark(case["grammar"])
    if parser is None:
        return "refuses"
    return [text for text in texts(case) if lark_accepts(parser, text) is not (text in case["matches"])]


def llguidance_differs(case: dict[str, Any], peer: ByLLGuidance) -> Difference:
    if peer.matcher(case["grammar"]) is None:
        return "refuses"
    ours = Reference(Grammar.from_lark(case["grammar"]).module)
    # A matcher for each text: what `stop` has hidden outlives a reset.
    return [text for text in texts(case) if peer.verdict(peer.matcher(case["grammar"]), text) != _verdict(ours, text)]


def _verdict(reference: Reference, text: str) -> Verdict:
    data = text.encode()
    return "sentence" if reference.accepts(data) else "beginning" if reference.viable(data) else "neither"


def cases() -> int:
    peer, wrong = ByLLGuidance(), 0
    for case in READ:
        found = {"lark": lark_differs(case), "llguidance": llguidance_differs(case, peer)}
        for kind, difference in found.items():
            said = case.get(kind, "refuses" if kind == "lark" and case["file"] in OF_LLGUIDANCE else [])
            if sorted(difference) != sorted(said):
                wrong += 1
                print(f"{name(case)}\n    {kind} = {difference!r}\n    not {said!r}")
    return wrong


def random(count: int, first: int) -> int:
    peer, wrong = ByLLGuidance(), 0
    read = more = fewer = 0
    for seed in range(first, first + count):
        made = RandomLark(seed, templates=False)
        grammar = made.text()
        matcher = peer.matcher(grammar)
        if matcher is None:
            continue
        read += 1
        try:
            ours = Reference(Grammar.from_lark(grammar).module)
        except NarrowsError as error:
            wrong += 1
            print(f"seed {seed} is refused: {error}\n{grammar}")
            continue
        everything = ["".join(chars) for length in range(5) for chars in product("ab" + made.ignored, repeat=length)]
        for text in Random(seed).sample(everything, min(50, len(everything))):
            theirs, accepted = peer.verdict(matcher, text) == "sentence", ours.accepts(text.encode())
            more += theirs and not accepted
            fewer += accepted and not theirs
            if theirs and not accepted:
                wrong += 1
                print(f"seed {seed}: llguidance accepts {text!r}\n{grammar}")
    print(f"{read} of {count} grammars are read by llguidance; it accepts {more} texts more and {fewer} fewer")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=("cases", "random"))
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    wrong = cases() if arguments.what == "cases" else random(arguments.count, arguments.first)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
