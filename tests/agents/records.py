"""What a scenario of a client gave, and what is asked of it.

Each scenario, in Python or in a process of its own (tests/agents/node), gives an object with some of these fields:

text, pieces                the last answer's text, and the pieces that were streamed
calls                       all calls as {id, name, arguments}; the arguments as JSON text
argumentPieces              for each call of a stream, the pieces of its arguments
results                     what the tools gave back, for each call
value                       the answer that the client parsed
finish                      the reason or the status, as the client gives it
usage                       tokens of the prompt and of the answer
steps                       answers of the model
error                       {class, message, code}, in place of all that
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from checking import VALID, Verdict, failed, judge_json, repeated

Record = dict[str, Any]

CITY = {"type": "string", "maxLength": 30}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


FORECAST = _object(
    city=CITY,
    celsius={"type": "integer", "minimum": -60, "maximum": 60},
    sky={"enum": ["clear", "cloudy", "rain"]},
)
TOOLS = {
    "get_weather": _object(city=CITY),
    "thermostat": _object(room={"enum": ["kitchen", "bedroom"]}, degrees={"enum": [18, 20, 22]}),
    "forecast": FORECAST,
}
"""The arguments of the tools that scenarios offer, by name."""

CUT = ("length", "max_output_tokens", "max_tokens")
"""How clients say that the budget ended an answer."""


@dataclass(frozen=True)
class Expected:
    finish: tuple[str, ...] = ("stop",)
    """How the answer may end, besides by its budget."""
    calls: bool = False
    schema: Any = None
    """Of the value, or of the text where the client parses none."""
    streamed: bool = False
    steps: int = 1
    usage: bool = True
    refused: str = ""
    """The error's code, where the request is wrong on purpose."""


def judge(record: Record, expected: Expected) -> Verdict:
    cut = record.get("finish") in CUT
    error = record.get("error")
    if error is not None:
        if expected.refused and error["code"] == expected.refused:
            return Verdict("refused")
        return Verdict("length") if cut and not expected.refused else failed(f"{error}")
    if expected.refused:
        return failed(f"not refused: {record}")
    wrong = (
        _ending(record, expected, cut) or _pieces(record, expected) or _calls(record, expected, cut) or _results(record)
    )
    if wrong:
        return failed(f"{wrong}: {record}")
    return _value(record, expected, cut)


def _ending(record: Record, expected: Expected, cut: bool) -> str:
    if not cut and record.get("finish") not in expected.finish:
        return f"it ends with {record.get('finish')}, not {expected.finish}"
    if expected.usage and not (record.get("usage") and all(count > 0 for count in record["usage"])):
        return f"usage {record.get('usage')}"
    steps = record.get("steps", 1)
    return "" if steps == expected.steps or (cut and steps < expected.steps) else f"{steps} steps"


def _pieces(record: Record, expected: Expected) -> str:
    """Streamed pieces add up to what the client holds to be the whole."""
    pieces, arguments = record.get("pieces"), record.get("argumentPieces") or []
    if not expected.streamed:
        return ""
    if pieces is None or len(pieces) + sum(map(len, arguments)) < 2:
        return "nothing was streamed"
    if "".join(pieces) != (record.get("text") or ""):
        return "the pieces are not the text"
    if len(arguments) < len(record.get("calls") or ()):
        return "calls that were not streamed"
    for made, call in zip(arguments, record.get("calls") or (), strict=False):
        # Some clients give the arguments as a value.
        whole = "".join(made)
        if whole != call["arguments"] and json.loads(whole) != json.loads(call["arguments"]):
            return f"the pieces {whole!r} are not the arguments"
    return ""


def _calls(record: Record, expected: Expected, cut: bool) -> str:
    calls = record.get("calls") or []
    if expected.calls and not calls and not cut:
        return "no call"
    if len({call["id"] for call in calls}) != len(calls) or not all(call["id"] for call in calls):
        return "ids that are not one for each call"
    for place, call in enumerate(calls):
        if call["name"] not in TOOLS:
            return f"no such tool: {call['name']}"
        verdict = judge_json(call["arguments"], TOOLS[call["name"]], cut=cut and place == len(calls) - 1)
        if not verdict.sound:
            return verdict.why
    # With several answers, the same call may come in each.
    return repeated([(call["name"], call["arguments"]) for call in calls]) if expected.steps == 1 else ""


def _results(record: Record) -> str:
    results = record.get("results")
    if results is None:
        return ""
    known = [result for result in results if "21 degrees" in result or "will have" in result]
    return "" if len(known) == len(record["calls"]) else f"{len(known)} results"


def _value(record: Record, expected: Expected, cut: bool) -> Verdict:
    if expected.schema is not None:
        value = record.get("value")
        text = record.get("text") or "" if value is None else json.dumps(value)
        return judge_json(text, expected.schema, cut=cut)
    if not record.get("text") and not record.get("calls") and not cut:
        return failed(f"nothing was answered: {record}")
    return Verdict("length") if cut else VALID


def lines_of(command: Sequence[str], **environment: str) -> Iterator[Record]:
    """What a script says of its scenarios, as it says it. Raises `RuntimeError` with its last words where it fails."""
    # No request may leave the machine, and a proxy of the user's is not for it.
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")} | environment
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, env=env) as process,
    ):
        assert process.stdout is not None
        try:
            yield from (json.loads(line) for line in process.stdout if line.startswith("{"))
        except BaseException:
            process.terminate()
            raise
        if process.wait():
            said.seek(0)
            raise RuntimeError(said.read()[-2000:])
