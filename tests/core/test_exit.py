"""A process ends in order while daemon threads are in the core, or in Python that it calls."""

from __future__ import annotations

import subprocess
import sys

import pytest

BUSY = """
import random, sys, threading, time
import numpy as np
from narrows import Grammar, Limits, NarrowsError, Vocabulary, formats
choose = random.Random(1)
words = ["".join(choose.choices("abcdefghijklm", k=choose.randint(2, 6))).encode() for _ in range(20_000)]
vocabulary = Vocabulary([bytes([b]) for b in range(256)] + words)
rules = "".join(f'\\nr{i} ::= [a-z]* [a-m]{{{i % 7 + 1},{i % 9 + 20}}} "x{i}" root?' for i in range(30))
heavy = Grammar.from_gbnf("root ::= " + " | ".join(f"r{i}" for i in range(30)) + rules)
little = Limits(step_work=20)

def masks():
    row = np.zeros((vocabulary.size + 31) // 32, np.int32)
    while True:
        matcher = vocabulary.compile(heavy).matcher()
        for byte in b"abcdef":
            matcher.fill_mask(row)
            matcher.accept(byte)

def errors():
    while True:
        try:
            vocabulary.compile(heavy, limits=little)
        except NarrowsError:
            pass

def streams():
    form = formats.get("hermes_json")
    while True:
        parser = form.parser()
        for character in '<think>so</think>text <tool_call>\\n{"name": "f", "arguments": {"a": "xyz", "b": [1, 2]}}\\n</tool_call>':
            parser.feed(character)

for _ in range(3):
    threading.Thread(target=globals()[sys.argv[1]], daemon=True).start()
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize("count", [5, pytest.param(40, marks=[pytest.mark.soak, pytest.mark.timeout(900)])])
@pytest.mark.parametrize("what", ["masks", "errors", "streams"])
def test_a_process_ends_while_daemon_threads_are_in_the_core(what: str, count: int) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", BUSY, what, str(0.4 * number / count)], stderr=subprocess.PIPE, text=True
        )
        for number in range(count)
    ]
    for child in children:
        _, said = child.communicate(timeout=120)
        assert (child.returncode, said) == (0, "")
