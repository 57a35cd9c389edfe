"""An installed narrows in whatever Python this is: which module was built for it, and many threads at once.

Without the GIL the threads really run side by side. What they may share, and what belongs to one thread, is the same
with and without it. `make sanitize` runs the core's own part of this under ThreadSanitizer.
"""

from __future__ import annotations

import importlib.machinery
import json
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import narrows
from narrows import Grammar, Vocabulary, _core, formats

HAS_GIL = not sysconfig.get_config_var("Py_GIL_DISABLED")
THREADS = 8
END = 259
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "size": {"type": "integer", "minimum": 3, "maximum": 5000},
        "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 3},
    },
    "required": ["name"],
    "additionalProperties": False,
}
CALL = '<tool_call>\n{"name": "draw", "arguments": {"prompt": "a d\u00f6g and a \u72d7 \\"x\\"", "n": [1, 2.5]}}\n</tool_call>'


FIRST_READINGS = r"""
import threading
from narrows import Grammar, formats

start, said = threading.Barrier(8), []

def work():
    start.wait()
    for dialect in ("python", "rust", "ecma"):
        Grammar.from_regex(r"\w+\s(?:stra\u00dfe|[^\d])", dialect=dialect)
    Grammar.from_json_schema({"type": "string", "format": "date-time"})
    Grammar.from_json_schema({"type": "number", "multipleOf": 0.25})
    for name in formats.names():
        formats.get(name).parser().feed("<x>")
    said.append(len(formats.names()))

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(said), len(set(said)))
"""


def vocabulary() -> Vocabulary:
    return Vocabulary([bytes([b]) for b in range(256)] + [b'": "', b'{"', b"name", b""], {"</s>": END}, eos=END)


def in_threads(work: Callable[[int], object], threads: int = THREADS) -> list[object]:
    """What `work` returns for each thread's number. All start at once; an exception in one is raised here."""
    found: list[object] = [None] * threads
    raised: list[BaseException] = []
    start = threading.Barrier(threads)

    def run(number: int) -> None:
        start.wait()
        try:
            found[number] = work(number)
        except BaseException as error:  # raised where pytest sees it
            raised.append(error)

    started = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if raised:
        raise raised[0]
    return found


def masks(matcher: narrows.Matcher, text: bytes) -> list[bytes]:
    rows = []
    for byte in text:
        row = np.zeros(9, np.int32)
        matcher.fill_mask(row)
        rows.append(row.tobytes())
        assert matcher.accept(byte)
    assert len(matcher) == len(text)
    assert matcher.is_accepting
    return rows


def text_of(number: int) -> bytes:
    value = {"name": "n" * (number % 30), "size": 3 + number, "tags": ["red", "green"][: number % 3]}
    return json.dumps(value).encode()


def test_the_module_was_built_for_this_python() -> None:
    suffixes = importlib.machinery.EXTENSION_SUFFIXES
    path = Path(_core.__file__)
    assert any(path.name == f"_core{suffix}" for suffix in suffixes)
    is_stable = sys.version_info >= (3, 12) and HAS_GIL
    if sys.platform != "win32":
        assert (".abi3." in path.name) == is_stable


@pytest.mark.skipif(HAS_GIL, reason="this Python has the GIL")
def test_importing_narrows_leaves_the_gil_off() -> None:
    """Python turns it on for a module that does not say that it can do without."""
    code = "import narrows, sys; sys.exit(sys._is_gil_enabled())"
    assert subprocess.run([sys.executable, "-W", "error", "-c", code], check=False).returncode == 0


def test_threads_share_a_vocabulary_and_a_constraint() -> None:
    vocab = vocabulary()
    shared = vocab.compile(Grammar.from_json_schema(SCHEMA))

    def work(number: int) -> object:
        own = vocab.compile(Grammar.from_json_schema(SCHEMA if number % 2 else {"type": "object"}))
        return [
            masks(constraint.matcher(), text_of(i)) for i in range(number, number + 6) for constraint in (shared, own)
        ]

    found = in_threads(work)
    alone = vocabulary()
    for number, rows in enumerate(found):
        other = alone.compile(Grammar.from_json_schema(SCHEMA if number % 2 else {"type": "object"}))
        same = alone.compile(Grammar.from_json_schema(SCHEMA))
        assert rows == [masks(c.matcher(), text_of(i)) for i in range(number, number + 6) for c in (same, other)]


def test_threads_read_grammars_and_formats_at_once() -> None:
    """In a new process, where all caches of the modules are empty."""
    done = subprocess.run([sys.executable, "-c", FIRST_READINGS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["8", "1"], "")


def test_each_thread_has_its_parser() -> None:
    fmt = formats.get("hermes_json")

    def work(number: int) -> object:
        size = 1 + number % 4
        answers = []
        for _ in range(40):
            parser = fmt.parser(id_factory=str)
            events = [event for at in range(0, len(CALL), size) for event in parser.feed(CALL[at : at + size])]
            events += parser.finish()
            answers.append("".join(e.text for e in events if isinstance(e, narrows.ToolCallArguments)))
        return answers

    (message,) = fmt.parse(CALL).tool_calls
    for answers in in_threads(work):
        assert answers == [message.arguments] * 40


def test_one_matcher_in_many_threads_is_refused_or_waits_and_stays_whole() -> None:
    matcher = vocabulary().compile(Grammar.from_json_schema(SCHEMA)).matcher()
    row = np.zeros(9, np.int32)

    def work(number: int) -> object:
        done = 0
        for _ in range(400):
            try:
                if number % 2:
                    matcher.accept_bytes(b'{"name": "n"')
                    matcher.reset()
                else:
                    matcher.fill_mask(np.zeros(9, np.int32))
                    assert len(matcher) <= 12
                    assert len(matcher.history()) <= 12
                    assert not matcher.is_finished
                done += 1
            except narrows.ConcurrentUseError:
                pass
        return done

    assert sum(map(int, map(str, in_threads(work)))) > 0
    matcher.reset()
    matcher.fill_mask(row)
    assert row.any()


def test_one_parser_in_many_threads_does_not_break_the_process() -> None:
    """It is meant for one thread; what comes out of it here is anybody's guess."""
    parser = formats.get("hermes_json").parser()

    def work(number: int) -> object:
        for at in range(0, len(CALL) * 20, 3):
            with suppress(Exception):
                parser.feed(CALL[at % len(CALL) : at % len(CALL) + 3])
        return None

    in_threads(work)
