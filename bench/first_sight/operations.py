"""Part e, in the engine's process: what a server asks of an engine besides one mask at a time.

An engine's own call is used where it has one. Where it has none, the calls that give the same are used: what a server
would have to write. `OPERATIONS` has a class per engine with these calls; the tasks below measure them.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from typing import Any

import numpy as np
from peers import Engine

Row = np.ndarray
now = time.process_time_ns


class Narrows:
    def __init__(self, engine: Any) -> None:
        self.module = engine.narrows

    def check(self, session: Any, token: int) -> bool:
        return bool(session.matcher.accepts([token]))

    def fill_many(self, sessions: list[Any], rows: Row) -> None:
        self.module.fill_masks([session.matcher for session in sessions], rows)

    def draft(self, session: Any, tokens: list[int], rows: Row) -> None:
        session.matcher.fill_draft_masks(tokens, rows)


class LLGuidance:
    def __init__(self, engine: Any) -> None:
        self.module = engine.module.numpy
        self.executor = engine.module.LLExecutor()

    def check(self, session: Any, token: int) -> bool:
        return bool(session.matcher.validate_tokens([token]))

    def fill_many(self, sessions: list[Any], rows: Row) -> None:
        pairs = [(session.matcher, number) for number, session in enumerate(sessions)]
        self.module.fill_next_token_bitmask_par(self.executor, pairs, rows)

    def draft(self, session: Any, tokens: list[int], rows: Row) -> None:
        chain = [(session.matcher, 0, tokens)]
        self.module.fill_next_token_bitmask_par_with_draft_tokens(self.executor, chain, rows)


class XGrammar:
    def __init__(self, engine: Any) -> None:
        import torch

        self.torch = torch
        self.batch = engine.module.BatchGrammarMatcher()

    def check(self, session: Any, token: int) -> bool:
        taken = session.matcher.accept_token(token)
        if taken:
            session.matcher.rollback(1)
        return bool(taken)

    def fill_many(self, sessions: list[Any], rows: Row) -> None:
        self.batch.batch_fill_next_token_bitmask([s.matcher for s in sessions], self.torch.from_numpy(rows))

    def draft(self, session: Any, tokens: list[int], rows: Row) -> None:
        rows_of_torch = self.torch.from_numpy(rows)
        session.matcher.fill_next_token_bitmask(rows_of_torch, 0)
        taken = 0
        for number, token in enumerate(tokens, 1):
            if not session.matcher.accept_token(token):
                break
            taken += 1
            session.matcher.fill_next_token_bitmask(rows_of_torch, number)
        session.matcher.rollback(taken)


class GLRMask:
    def __init__(self, engine: Any) -> None:
        pass

    def check(self, session: Any, token: int) -> bool:
        return bool(session.state.copy().commit_token(token))

    def fill_many(self, sessions: list[Any], rows: Row) -> None:
        for session, row in zip(sessions, rows, strict=True):
            session.state.fill_mask(row)

    def draft(self, session: Any, tokens: list[int], rows: Row) -> None:
        state = session.state.copy()
        state.fill_mask(rows[0])
        for row, token in zip(rows[1:], tokens, strict=True):
            if not state.commit_token(token):
                break
            state.fill_mask(row)


OPERATIONS: dict[str, Any] = {
    "narrows": Narrows, "llguidance": LLGuidance, "xgrammar": XGrammar, "glrmask": GLRMask,
}  # fmt: skip
PASSES = 5
CHAIN = 8


def median_us(nanoseconds: list[int]) -> float:
    return statistics.median(nanoseconds) / 1e3


def checks(engine: Engine, source: str, text: list[int]) -> dict[str, float]:
    """One sampled token, checked without a mask: the token of the text and, in turn, one by chance."""
    call = OPERATIONS[engine.name](engine).check
    begin = engine.compile(source)
    size = 32 * len(begin().row)
    times: dict[str, list[int]] = {"first": [], "known": []}
    for number in range(PASSES):
        chance = random.Random(1)
        session = begin()
        for token in text:
            for asked in (token, min(chance.randrange(size), size - 600)):
                start = now()
                allowed = call(session, asked)
                times["known" if number else "first"].append(now() - start)
                assert allowed or asked != token
            assert session.accept(token)
    return {"first pass": sum(times["first"]) / len(times["first"]) / 1e3, "known": median_us(times["known"])}


def batches(engine: Engine, source: str, text: list[int], counts: list[int]) -> dict[str, dict[str, float]]:
    """Known masks of many sequences that stand at different places. Microseconds for one mask."""
    call = OPERATIONS[engine.name](engine).fill_many
    begin = engine.compile(source)
    out = {}
    for count in counts:
        sessions = [begin() for _ in range(count)]
        for number, session in enumerate(sessions):
            for token in text[: number % len(text)]:
                session.fill()
                assert session.accept(token)
        rows = np.zeros((count, len(sessions[0].row)), np.int32)
        call(sessions, rows)
        cpu: list[int] = []
        wall: list[int] = []
        for _ in range(max(PASSES, 256 // count)):
            start, begun = now(), time.perf_counter_ns()
            call(sessions, rows)
            wall.append(time.perf_counter_ns() - begun)
            cpu.append(now() - start)
        out[str(count)] = {"cpu": median_us(cpu) / count, "wall": median_us(wall) / count}
    return out


def drafts(engine: Engine, source: str, text: list[int]) -> dict[str, float]:
    """The masks along a chain of drafted tokens, nine masks in all, at every eighth place of the text."""
    call = OPERATIONS[engine.name](engine).draft
    begin = engine.compile(source)
    rows = np.zeros((CHAIN + 1, len(begin().row)), np.int32)
    times: dict[str, list[int]] = {"first": [], "known": []}
    for number in range(PASSES):
        session = begin()
        for at in range(0, len(text) - CHAIN, CHAIN):
            chain = text[at : at + CHAIN]
            start = now()
            call(session, chain, rows)
            times["known" if number else "first"].append(now() - start)
            assert all(session.accept(token) for token in chain)
    return {"first pass": sum(times["first"]) / len(times["first"]) / 1e3, "known": median_us(times["known"])}


def beside(engine: Engine, source: str, text: list[int], others: list[list[Any]]) -> dict[str, float]:
    """How long a known mask takes while another thread compiles new definitions and makes their masks: wall time."""
    session = engine.compile(source)()
    for token in text[: len(text) // 2]:
        session.fill()
        assert session.accept(token)
    session.fill()
    started, done = threading.Event(), threading.Event()

    def work() -> None:
        started.wait()
        for other, tokens in others:
            try:
                one = engine.compile(other)()
                for token in tokens:
                    one.fill()
                    if not one.accept(token):
                        break
            except Exception:  # a definition that the engine refuses is no work
                continue
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    waits = []
    started.set()
    while not done.is_set():
        start = time.perf_counter_ns()
        session.fill()
        waits.append(time.perf_counter_ns() - start)
        time.sleep(0.0005)
    thread.join()
    waits.sort()
    return {"p50": median_us(waits), "p99": waits[len(waits) * 99 // 100] / 1e3, "max": waits[-1] / 1e3}


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"tool_{number}",
            "parameters": {"type": "object", "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}}},
        },
    }
    for number in range(20)
]


def parsers() -> dict[str, float]:
    """A stream parser and its first delta, without tools and with 20. narrows alone: no peer has one."""
    import narrows

    hermes = narrows.formats.get("hermes")
    out = {}
    for name, tools in (("no tools", None), ("20 tools", TOOLS)):
        times = []
        for _ in range(50):
            start = now()
            hermes.parser(tools).feed("Hello")
            times.append(now() - start)
        out |= {f"{name}, first": times[0] / 1e3, f"{name}, again": median_us(times[1:])}
    return out


def all_of(engine: Engine, request: dict[str, Any]) -> dict[str, Any]:
    source, text = request["source"], request["text"]
    answer: dict[str, Any] = {
        "checks": checks(engine, request["other source"], text),
        "drafts": drafts(engine, source, text),
        "batches": batches(engine, source, text, request["counts"]),
        "beside": beside(engine, source, text, request["others"]),
    }
    if engine.name == "narrows":
        answer["parsers"] = parsers()
    return answer
