"""Compares `Grammar.from_ebnf` with xgrammar itself, over random grammars. Run by hand, because xgrammar brings torch:

    python -m venv /tmp/xgrammar && /tmp/xgrammar/bin/pip install xgrammar==0.2.8
    python tests/support/xgrammar_difference.py --python /tmp/xgrammar/bin/python --grammars 1000

Each side writes texts from its own masks, and both sides read them, together with short texts over the alphabet.
Prints each grammar that only one side refuses, and each text that only one side accepts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

WALKS, LONGEST = 12, 12


def answers_of_xgrammar() -> None:
    """Reads a line for each grammar, and writes one. Runs where xgrammar is installed, without narrows."""
    import torch
    import xgrammar

    vocabulary = [bytes([byte]) for byte in range(256)] + [b"</s>"]
    info = xgrammar.TokenizerInfo(vocabulary, stop_token_ids=[256])
    compiler = xgrammar.GrammarCompiler(info, cache_enabled=False)
    bitmask = xgrammar.allocate_token_bitmask(1, len(vocabulary))

    def matcher(compiled: Any) -> Any:
        return xgrammar.GrammarMatcher(compiled, terminate_without_stop_token=False)

    def accepts(compiled: Any, text: str) -> bool:
        at = matcher(compiled)
        return all(at.accept_token(byte) for byte in text.encode()) and at.accept_token(256)

    def walk(compiled: Any, rng: Random) -> str | None:
        at, data = matcher(compiled), b""
        while len(data) < LONGEST:
            xgrammar.reset_token_bitmask(bitmask)
            at.fill_next_token_bitmask(bitmask)
            bits = bitmask[0].to(torch.int64)
            allowed = [i for i in range(257) if bits[i // 32] >> i % 32 & 1]
            likely = [i for i in allowed if i == 256 or chr(i) in "ab<c\n"] or allowed
            if not likely or (chosen := rng.choice(likely)) == 256:
                break
            at.accept_token(chosen)
            data += bytes([chosen])
        try:
            return data.decode()
        except UnicodeDecodeError:
            return None

    for line in sys.stdin:
        asked = json.loads(line)
        try:
            compiled = compiler.compile_grammar(xgrammar.Grammar.from_ebnf(asked["grammar"]))
        except Exception as error:
            print(json.dumps({"error": str(error).strip().splitlines()[0]}), flush=True)
            continue
        rng = Random(asked["seed"])
        written = [text for _ in range(WALKS) if (text := walk(compiled, rng)) is not None]
        texts = [*asked["texts"], *written]
        print(json.dumps({"texts": texts, "accepts": [accepts(compiled, text) for text in texts]}), flush=True)


def compare(python: str, first: int, count: int) -> int:
    """The number of differences, which are printed."""
    from random_ebnf import ALPHABET, RandomEbnf

    from narrows import Grammar, Vocabulary
    from narrows.errors import NarrowsError

    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)] + [None], special={"</s>": 256}, eos=[256])
    peer = _Peer(python)
    differences = 0
    refused: Counter[str] = Counter()
    for seed in range(first, first + count):
        grammar = RandomEbnf(seed).text()
        rng = Random(seed)
        ours, error, texts = None, None, []
        try:
            ours = vocabulary.compile(Grammar.from_ebnf(grammar))
            texts = [text for _ in range(WALKS) if (text := _walk(ours, rng)) is not None]
        except NarrowsError as refusal:
            error = refusal
        short = ["".join(chars) for length in range(4) for chars in product(ALPHABET, repeat=length)]
        texts += rng.sample(short, 40)
        theirs = peer.answer({"grammar": grammar, "seed": seed, "texts": texts})
        if error is not None or "error" in theirs:
            refused[error.code if error is not None else "by xgrammar alone"] += 1
            if error is None or (error.code == "ebnf_invalid" and "error" not in theirs):
                differences += 1
                print(f"seed {seed}, refused by one: narrows {error}, xgrammar {theirs.get('error')}\n{grammar}\n")
            continue
        found = [
            (text, accepted)
            for text, accepted in zip(theirs["texts"], theirs["accepts"], strict=True)
            if _accepts(ours, text) is not accepted
        ]
        if found:
            differences += 1
            print(f"seed {seed}: (text, xgrammar's answer) {found[:5]}\n{grammar}\n")
    print(f"{count} grammars, {differences} differences, refused: {dict(refused)}")
    return differences


class _Peer:
    """This file as a process with xgrammar. It is started again if it dies of a grammar."""

    def __init__(self, python: str) -> None:
        self._command = [python, __file__, "--answer"]
        self._start()

    def _start(self) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(asked) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            status = self._process.wait()
            self._start()
            return {"error": f"the process ended with {status}"}
        answer: dict[str, Any] = json.loads(line)
        return answer


def _accepts(constraint: Any, text: str) -> bool:
    matcher = constraint.matcher()
    return bool(matcher.accept_bytes(text.encode()) and matcher.is_accepting)


def _walk(constraint: Any, rng: Random) -> str | None:
    import numpy as np

    matcher, data = constraint.matcher(), b""
    row = np.zeros(9, np.int32)
    while len(data) < LONGEST:
        matcher.fill_mask(row)
        allowed = [i for i in range(257) if int(row[i // 32]) >> i % 32 & 1]
        likely = [i for i in allowed if i == 256 or chr(i) in "ab<c\n"] or allowed
        if not likely or (chosen := rng.choice(likely)) == 256:
            break
        matcher.accept(chosen)
        data += bytes([chosen])
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="an interpreter that has xgrammar")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--grammars", type=int, default=300)
    parser.add_argument("--answer", action="store_true", help="answer for xgrammar: the other side of the comparison")
    options = parser.parse_args()
    if options.answer:
        answers_of_xgrammar()
    elif options.python is None or not Path(options.python).exists():
        parser.error("--python names an interpreter that has xgrammar")
    else:
        sys.exit(compare(options.python, options.first, options.grammars) > 0)
