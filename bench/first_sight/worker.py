"""One engine in a process of its own, which answers one request after the other.

    python worker.py ENGINE TOKENIZER_FOLDER GIGABYTES

A request is a line of JSON on standard input: `{"do": name, ...}`, where `name` is one of `TASKS`. The answer is a line
on standard output. What an engine prints itself goes to standard error. The first line says that the vocabulary is
loaded, and what it cost. The process may be killed at any time: nothing is lost but what the engine remembers.

Times are CPU nanoseconds of all threads of this process. Python's collector of garbage is off while something is
measured. What loading left is frozen, so that the collections between requests are short.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers import ENGINES, Engine, NotRead, Session

from first_sight import operations

now = time.process_time_ns
Answer = dict[str, Any]
REASON = 300
"""So many characters of an engine's own words are kept."""


def refusal(error: Exception) -> str:
    # narrows' errors have a code, which tells more than their class.
    return f"{getattr(error, 'code', type(error).__name__)}: {error}"[:REASON]


def replay(session: Session, tokens: list[int], masks: list[int], accepts: list[int]) -> str:
    """Takes `tokens` one by one, and adds the times. Returns why it stopped early, or nothing."""
    for step, token in enumerate(tokens):
        t0 = now()
        session.fill()
        t1 = now()
        allowed = session.row[token >> 5] >> (token & 31) & 1
        t2 = now()
        taken = session.accept(token)
        t3 = now()
        masks.append(t1 - t0)
        accepts.append(t3 - t2)
        if not (allowed and taken):
            return f"token {step} ({token}): in the mask {bool(allowed)}, accepted {bool(taken)}"
    return ""


def definition(engine: Engine, source: Any, kind: str, texts: list[list[int]], again: bool = True) -> Answer:
    """A definition that is new to the engine, and the texts that it allows.

    `first` is the time from the definition to its first mask, which is also the first of `masks`. `again` is the same
    when the definition comes once more.
    """
    start = now()
    try:
        begin = engine.compile(source, kind)
        compiled = now()
        session = begin()
        session.fill()
        first = now()
    except NotRead:
        return {"unread": True}
    except Exception as error:  # any refusal of any engine
        return {"refused": refusal(error), "spent": now() - start}
    answer: Answer = {"compile": compiled - start, "first": first - start, "masks": [], "accepts": [], "wrong": []}
    masks, accepts = answer["masks"], answer["accepts"]
    for number, tokens in enumerate(texts):
        if number:
            session = begin()
        before = len(masks)
        try:
            why = replay(session, tokens, masks, accepts)
        except Exception as error:  # an engine that gives up in the middle of a text
            why = refusal(error)
        if number == 0 and len(masks) > before:
            masks[0] = first - compiled  # filling it a second time found what the first time had made
        if why:
            answer["wrong"].append([number, why])
    if again:
        start = now()
        engine.compile(source, kind)().fill()
        answer["again"] = now() - start
    return answer


class Host:
    """The engine, which can be made anew."""

    def __init__(self, name: str, folder: Path) -> None:
        self._make = ENGINES[name]
        self._folder = folder
        self.renew()

    def renew(self) -> None:
        """An engine that has seen no definition but the smallest, which make what is made once per process."""
        gc.unfreeze()
        self.engine: Engine = self._make(self._folder)
        definition(self.engine, '{"type": "boolean"}', "json_schema", [])
        definition(self.engine, 'start: "x"', "lark", [])
        definition(self.engine, 'root ::= "x"', "gbnf", [])
        gc.collect()
        gc.freeze()


def asked_definition(host: Host, request: Answer) -> Answer:
    return definition(host.engine, request["source"], request["kind"], request["texts"], request.get("again", True))


def asked_renewal(host: Host, request: Answer) -> Answer:
    host.renew()
    return {}


def asked_operations(host: Host, request: Answer) -> Answer:
    return operations.all_of(host.engine, request)


TASKS: dict[str, Callable[[Host, Answer], Answer]] = {
    "definition": asked_definition,
    "renew": asked_renewal,
    "operations": asked_operations,
}


def main() -> None:
    name, folder, gigabytes = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    bytes_ = int(float(gigabytes) * 1e9)
    resource.setrlimit(resource.RLIMIT_DATA, (bytes_, bytes_))
    gc.disable()
    host = Host(name, Path(folder))
    loading, ahead = host.engine.loading, getattr(host.engine, "ahead", None)
    ready = {"ready": name, "seconds": loading.seconds, "bytes": loading.bytes}
    if ahead is not None:
        ready["ahead"] = {"seconds": ahead.seconds, "bytes": ahead.bytes}
    print(json.dumps(ready), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        answer = TASKS[request["do"]](host, request)
        print(json.dumps(answer), file=answers, flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
