"""A process ends in order while daemon threads are in the core, wherever they are there."""

from __future__ import annotations

import subprocess
import sys

import pytest

BUSY = """
import random, sys, threading, time
import numpy as np
from narrows import Grammar, Limits, NarrowsError, Vocabulary
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

for _ in range(3):
    threading.Thread(target=globals()[sys.argv[1]], daemon=True).start()
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize("what", ["masks", "errors"])
def test_a_process_ends_while_daemon_threads_are_in_the_core(what: str) -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", BUSY, what, str(0.05 * number)], stderr=subprocess.PIPE, text=True)
        for number in range(10)
    ]
    for child in children:
        _, said = child.communicate(timeout=120)
        assert child.returncode == 0, said
