"""Long definitions are read in a child process, with the same result, errors included. If the child dies, one request
gets an error."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripted import SPECIAL, byte_vocabulary
from serving import eventually

from narrows import Limits, Vocabulary, formats
from narrows.compiling import process
from narrows.compiling.child import KEPT_BYTES
from narrows.compiling.definition import FlatGrammar, read_definition
from narrows.compiling.messages import ReadingFailed, Setup, grammar_from, of_bug
from narrows.compiling.process import Reader, Stopped
from narrows.errors import LimitError, NarrowsError
from narrows.server import compiler
from narrows.server.grammars import GrammarCache
from narrows.tools.turn import TurnOptions

VOCABULARY = byte_vocabulary()
HOLES = Vocabulary([b"a", None, b"b", None, None, b"c", b""], special={"<e>": 6}, eos=[6], size=9)
SETUP = Setup(formats.get("hermes_json"), VOCABULARY.facts, Limits())
STATUS = Path("/proc/self/status").exists()


def schema(count: int) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{i}": {"type": "string", "minLength": i % 50} for i in range(count)}}


def text(language: str, source: Any, **options: str) -> list[Any]:
    return ["text", language, source, options]


TOOLS = [
    {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"ä😀": {}}}}},
    {"type": "function", "function": {"name": "g", "strict": True, "parameters": {"required": ["x"]}}},
]


def chat(shape: list[Any] | None = None, **more: Any) -> list[Any]:
    options = {"tools": TOOLS, "choice": "auto", "prompt": "<|im_start|>assistant\n", **more}
    turn = TurnOptions(tools=options["tools"], tool_choice=options["choice"], prompt=options["prompt"])
    return ["chat", turn.arguments(), 16, "declared", "by_tool", shape]


GOOD = {
    "schema": text("json", {"properties": {"a": {"enum": [1.0, 1, 1e30, "é😀", None, 12345678901234567890]}}}),
    "schema text": text("json", '{"type": "integer", "minimum": 1e2}'),
    "left out": text(
        "json",
        {"type": "array", "uniqueItems": True, "contains": {"type": "string"}, "minContains": 2},
        on_unsupported="ignore",
    ),
    "regex": text("regex", "(a|b)+[c-é]"),
    "choice": text("choice", ["one", "two", "ü"]),
    "gbnf": text("grammar", 'root ::= "a" root | [b-d]+'),
    "tools": chat(),
    "tools and a shape": chat(text("json", {"type": "object"})[1:]),
    "one tool": chat(choice={"type": "function", "function": {"name": "f"}}),
}
BAD = {
    "schema": text("json", {"properties": {"x": {"type": "strin"}}}),
    "unsupported": text(
        "json", {"contentEncoding": "base64", "contains": {"type": "string"}, "minContains": 2, "uniqueItems": True}
    ),
    "a long message": text("json", {"$ref": "#/" + "x" * 3_000}),
    "half a character": text("json", {"enum": ["\ud83d"]}),
    "regex": text("regex", "a("),
    "gbnf": text("grammar", 'root ::= "a" \n  ::= b'),
    "limit": text("regex", "a" * 70_000),
    "content": chat(text("json", {"type": 3})[1:]),
    "tool": chat(tools=[{"type": "function", "function": {"name": "f", "parameters": {"type": "strin"}}}]),
}


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    reader = Reader(SETUP)
    yield reader
    reader.close()


def read(reader: Reader, definition: list[Any]) -> Any:
    return reader.read(json.dumps(definition).encode(), "a test")


def hold(reader: Reader | None) -> subprocess.Popen[bytes]:
    """Stops the child, as if its definition had no end."""
    assert reader is not None
    assert reader._child is not None
    os.kill(reader._child.pid, signal.SIGSTOP)
    return reader._child


def here(definition: list[Any], setup: Setup = SETUP) -> Any:
    return read_definition(definition, setup.fmt, setup.facts, setup.limits)


def same(a: FlatGrammar, b: FlatGrammar) -> bool:
    """Compares results, since the order of nodes depends on what was flattened before."""
    seen = []
    for flat in (a, b):
        constraint = VOCABULARY.assemble(flat.arrays)
        row = np.zeros(9, np.int32)
        constraint.matcher().fill_mask(row)
        kinds = {name: v.dtype if isinstance(v, np.ndarray) else v for name, v in flat.arrays.items()}
        seen.append((flat.loose, constraint.stats()["states"], row.tolist(), kinds))
    return seen[0] == seen[1]


@pytest.mark.parametrize("name", GOOD)
def test_what_comes_back_is_what_reading_here_gives(reader: Reader, name: str) -> None:
    there, expected = read(reader, GOOD[name]), here(GOOD[name])
    assert same(there, expected)
    assert bool(there.loose) == (name == "left out")


@pytest.mark.parametrize("name", BAD)
def test_errors_come_back_whole(reader: Reader, name: str) -> None:
    with pytest.raises(NarrowsError) as there:
        read(reader, BAD[name])
    with pytest.raises(NarrowsError) as expected:
        here(BAD[name])
    assert type(there.value) is type(expected.value)
    assert vars(there.value) == vars(expected.value)
    assert str(there.value) == str(expected.value)


@pytest.mark.parametrize("name", formats.names())
def test_a_child_knows_every_format(name: str) -> None:
    setup = Setup(formats.get(name), VOCABULARY.facts, Limits(nesting=7))
    assert Reader.can_read(setup)
    crossed = Setup.from_bytes(setup.to_bytes())
    assert crossed.fmt == setup.fmt
    assert crossed.limits == setup.limits
    assert same(here(chat(), setup), here(chat(), crossed))


def test_a_declared_format_is_known_too_and_one_whose_source_is_another_is_not() -> None:
    declared = formats.from_response_template(
        {
            "start_anchor": "<|im_start|>assistant\n",
            "fields": {
                "content": {},
                "tool_calls": {"open": "<call>", "close": "</call>", "repeats": True, "content": "json"},
            },
        }
    )
    assert Reader.can_read(replace(SETUP, fmt=declared))
    assert not Reader.can_read(replace(SETUP, fmt=replace(SETUP.fmt, between="\n\n\n")))
    assert not Reader.can_read(replace(SETUP, fmt=replace(SETUP.fmt, source="no = toml = ")))


def test_a_vocabulary_with_holes_crosses() -> None:
    crossed = Setup.from_bytes(Setup(SETUP.fmt, HOLES.facts, Limits()).to_bytes()).facts
    assert list(crossed.usable) == list(HOLES.facts.usable) == [0, 2, 5, 6]
    assert dict(crossed.special) == {"<e>": 6}
    assert tuple(crossed.end_tokens) == (6,)


def test_a_bug_in_the_child_is_told_with_its_traceback() -> None:
    with pytest.raises(ReadingFailed, match="KeyError"):
        grammar_from(of_bug("KeyError: 3"))


@pytest.mark.skipif(not STATUS, reason="the system does not tell how much of it is mapped")
def test_a_definition_that_takes_too_much_memory_is_an_error_and_the_next_is_read() -> None:
    reader = Reader(replace(SETUP, limits=Limits(reading_bytes=20_000_000)))
    try:
        for _ in range(4):
            with pytest.raises(LimitError) as caught:
                read(reader, text("json", schema(20_000)))
            assert (caught.value.code, caught.value.limit) == ("limit_reached", "reading_bytes")
            assert read(reader, text("regex", "a+")).arrays
        assert reader.starts == 5, "each has a child with room for it"
    finally:
        reader.close()


@pytest.mark.skipif(not STATUS, reason="the system does not tell how much of it is mapped")
def test_a_long_definition_is_not_what_runs_out_of_memory() -> None:
    """The child receives the text, and sends the error, outside of the memory bound."""
    reader = Reader(replace(SETUP, limits=Limits(reading_bytes=100_000)))
    try:
        for _ in range(3):
            with pytest.raises(LimitError) as caught:
                read(reader, text("regex", "a" * 3_000_000))
            assert caught.value.limit == "reading_bytes"
    finally:
        reader.close()


@pytest.mark.skipif(not STATUS, reason="the system does not tell how much of it is mapped")
def test_a_bound_that_the_server_was_started_with_holds_as_well(tmp_path: Path) -> None:
    """A bound as from `ulimit -v`. The smaller of it and the child's own holds."""
    script = tmp_path / "bounded.py"
    script.write_text(
        "import resource\n"
        "from narrows import Limits, formats\n"
        "from narrows.compiling.messages import Setup\n"
        "from narrows.compiling.process import Reader\n"
        "from scripted import byte_vocabulary\n"
        "for bounds in ((6 << 30, 8 << 30), (6 << 30, resource.RLIM_INFINITY)):\n"
        "    if bounds[1] == resource.RLIM_INFINITY:\n"
        "        bounds = bounds[0], resource.getrlimit(resource.RLIMIT_AS)[1]\n"
        "    resource.setrlimit(resource.RLIMIT_AS, bounds)\n"
        "    setup = Setup(formats.get('hermes_json'), byte_vocabulary().facts, Limits(reading_bytes=9 << 30))\n"
        "    reader = Reader(setup)\n"
        '    assert reader.read(b\'["text", "regex", "a+", {}]\', object()).arrays\n'
        "    reader.close()\n"
    )
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "support")}
    done = subprocess.run([sys.executable, str(script)], env=here, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_child_that_held_much_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    # The child's own bound, lowered in the text that starts it.
    monkeypatch.setattr(
        process, "_START", process._START.replace("\nmain()", "\nsys.modules[main.__module__].KEPT_BYTES = 1\nmain()")
    )
    reader = Reader(SETUP)
    try:
        for _ in range(2):
            assert read(reader, text("regex", "a+")).arrays
        assert reader.starts == 2
    finally:
        reader.close()
    assert KEPT_BYTES > 100_000_000


def test_a_child_that_is_killed_is_an_error_and_the_next_is_a_new_one() -> None:
    reader = Reader(SETUP)
    try:
        assert read(reader, text("regex", "a+")).arrays
        child = reader._child
        assert child is not None
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        assert read(reader, text("regex", "a+")).arrays  # it was idle: nothing is lost
        child = reader._child
        assert child is not None
        hold(reader)
        killer = threading.Timer(0.2, os.kill, (child.pid, signal.SIGKILL))
        killer.start()
        with pytest.raises(NarrowsError) as caught:
            read(reader, text("regex", "b+"))
        killer.join()
        assert caught.value.code == "reading_died"
        assert "status -9" in str(caught.value)
        assert read(reader, text("regex", "a+")).arrays
        assert reader.starts == 3
    finally:
        reader.close()


def test_a_child_that_cannot_be_started_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(SETUP)
    for there in ("/nowhere/python", sys.executable):
        monkeypatch.setattr(sys, "executable", there)
        monkeypatch.setattr(process, "_START", "raise SystemExit(3)")
        with pytest.raises(NarrowsError) as caught:
            read(reader, text("regex", "a+"))
        assert caught.value.code == "reading_died"
    reader.close()


def test_stopping_ends_the_child_and_closing_leaves_none() -> None:
    reader = Reader(SETUP)
    for stop in (lambda: reader.stop("a test"), reader.close):
        assert read(reader, text("regex", "a+")).arrays
        hold(reader)
        timer = threading.Timer(0.2, stop)
        timer.start()
        with pytest.raises(Stopped):
            read(reader, text("regex", "b+"))
        timer.join()
        assert reader._child is None
    with pytest.raises(Stopped):
        read(reader, text("regex", "a+"))


# Through the cache.


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every definition counts as long."""
    monkeypatch.setattr(compiler, "QUICK_BYTES", 0)


def cache_of(limits: Limits | None = None) -> GrammarCache:
    return GrammarCache(VOCABULARY, SETUP.fmt, limits or Limits())


def test_what_meets_a_bound_of_the_quick_lane_is_read_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "QUICK", {"ir_nodes": 200})

    async def main() -> None:
        cache = cache_of()
        wide = text("regex", "(" + "|".join(f"{i:x}[a-f]" for i in range(500)) + ")")
        await cache.get(text("regex", "a+"))
        assert cache.reader_starts == 0
        lease = await cache.get(wide)
        assert cache.reader_starts == 1
        assert lease.value.constraint.matcher().accept_bytes(b"1f3f")
        cache.close()
        small = cache_of(Limits(ir_nodes=100))  # the server's own bound: no lane goes beyond
        with pytest.raises(LimitError) as caught:
            await small.get(wide)
        assert (caught.value.limit, small.reader_starts) == ("ir_nodes", 0)
        small.close()

    asyncio.run(main())


@pytest.mark.usefixtures("apart")
def test_the_client_that_leaves_takes_its_reading_with_it() -> None:
    async def main() -> None:
        cache = cache_of()
        await cache.get(text("regex", "a"))
        first = hold(cache.compiler.reader)
        leaving = asyncio.ensure_future(cache.get(text("regex", "c"), "one"))
        await asyncio.sleep(0.2)
        leaving.cancel()
        await cache.get(text("regex", "b"), "another")
        assert first.returncode == -signal.SIGKILL
        assert (cache.reader_starts, len(cache), len(cache.compiler)) == (2, 2, 0)
        cache.close()

    asyncio.run(main())


@pytest.mark.usefixtures("apart")
def test_closing_while_something_is_read_ends_it() -> None:
    async def main() -> None:
        cache = cache_of()
        await cache.get(text("regex", "a"))
        child = hold(cache.compiler.reader)
        asked = asyncio.ensure_future(cache.get(text("regex", "b")))
        await asyncio.sleep(0.2)
        cache.close()
        with pytest.raises(NarrowsError) as caught:
            await asked
        assert caught.value.code == "server_stopping"
        assert eventually(lambda: child.returncode is not None)

    asyncio.run(main())


SCRIPT = """
import asyncio
from narrows import Vocabulary, formats
from narrows.server import compiler
from narrows.server.grammars import GrammarCache

print("here")
compiler.QUICK_BYTES = 0
cache = GrammarCache(Vocabulary([bytes([b]) for b in range(256)]), formats.get("hermes_json"))
asyncio.run(cache.get(["text", "regex", "a+", {}]))
print(cache.reader_starts)
"""


def test_a_script_needs_no_guard_and_what_lies_beside_it_is_not_imported(tmp_path: Path) -> None:
    """multiprocessing's children would run the script again, and import from the working directory."""
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "json.py").write_text("raise SystemExit('imported')")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")],
        cwd=tmp_path / "elsewhere",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == (
        "here\n1\n",
        "",
        0,
    )  # and it ended, since the child does not keep it running


ENDS = """
import os, signal
from narrows import Limits, Vocabulary, formats
from narrows.compiling.messages import Setup
from narrows.compiling.process import Reader

reader = Reader(Setup(formats.get("hermes_json"), Vocabulary([b"a"]).facts, Limits()))
reader.read(b'["text", "regex", "a+", {}]', None)
print(reader._child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_child_ends_with_its_parent_however_that_ends() -> None:
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL

    def gone() -> bool:
        try:
            os.kill(int(done.stdout), 0)
        except ProcessLookupError:
            return True
        stat = Path(f"/proc/{int(done.stdout)}/stat")  # it may still be there as a zombie
        return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z"

    assert eventually(gone, 10)


def test_a_frozen_program_has_no_interpreter_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert not Reader.can_read(SETUP)
    cache = cache_of()
    assert asyncio.run(cache.get(GOOD["tools"])).value.constraint.bytes
    assert cache.reader_starts == 0
    cache.close()


def test_the_special_tokens_of_the_tests_cross() -> None:
    assert dict(Setup.from_bytes(SETUP.to_bytes()).facts.special) == SPECIAL
