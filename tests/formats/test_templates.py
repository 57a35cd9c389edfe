"""What real chat templates write for real conversations is read, accepted by the grammar, and what `render` writes.

What they write is recorded in tests/cases/formats/renders.json, for the templates belong to the models' makers and are not here:
`python tests/formats/test_templates.py` writes it anew. Where the templates are at hand, a test compares them with the record. They are
rendered as transformers renders them. The prompt is what the template makes of the conversation up to the answer, of which the end is
recorded; the model's output is what it adds for the answer.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from datetime import date
from functools import cache
from pathlib import Path
from types import GeneratorType
from typing import Any

import pytest
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment

from narrows import formats
from narrows.formats.prompt import open_part
from narrows.reference import Reference

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES = Path(__file__).parents[1] / "cases" / "formats"
TEMPLATES = Path(__file__).parents[3] / "shared" / "templates"
PEERS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "narrows" / "templates"
"""Templates that other projects ship; tests/cases/formats/README.md says how they come there."""
RECORD = CASES / "renders.json"
ENTRIES: list[dict[str, Any]] = tomllib.loads((CASES / "templates.toml").read_text(encoding="utf-8"))["template"]
DETECTED: dict[str, dict[str, Any]] = tomllib.loads((CASES / "detection.toml").read_text(encoding="utf-8"))
TOOLS = json.loads((CASES / "tools.json").read_text(encoding="utf-8"))[:2]
del TOOLS[1]["function"]["parameters"]["properties"]["mode"]  # one template recurses without end over a nullable type
for _property in [
    *TOOLS[0]["function"]["parameters"]["properties"].values(),
    *TOOLS[1]["function"]["parameters"]["properties"].values(),
]:
    _property["description"] = "a value"  # one template wants one

TODAY = date(2026, 11, 21)
USER = {"role": "user", "content": "What is the weather in Paris & <Rome>?"}
CALLS = [
    {
        "id": "a1B2c3D4e",
        "type": "function",
        "function": {"name": "get_weather", "arguments": {"city": 'Pa"ris', "days": 3}},
    },
    {
        "id": "b1B2c3D4e",
        "type": "function",
        "function": {"name": "write_file", "arguments": {"path": "é\n\n", "text": "</b> <a>\n\tx"}},
    },
]
ANSWERS: dict[str, dict[str, Any]] = {
    "text": {"content": "It rains.\n\nTake <b>care</b>."},
    "calls": {"content": "", "tool_calls": CALLS},
    "one call": {"content": "", "tool_calls": CALLS[:1]},
    "text and calls": {"content": "Let me look.", "tool_calls": CALLS},
    "reasoning and text": {"content": "It rains.", "reasoning_content": "Hm.\n\nRain?"},
    "reasoning, text and calls": {"content": "Let me look.", "reasoning_content": "Hm.", "tool_calls": CALLS},
    "reasoning and a call": {"content": "", "reasoning_content": "Hm.", "tool_calls": CALLS[:1]},
}


def _raise(message: str) -> None:
    raise TemplateError(message)


class Generation(Extension):
    """`{% generation %}`: transformers marks with it what the model is trained on. It writes nothing."""

    tags = frozenset({"generation"})

    def parse(self, parser: Any) -> Any:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _tojson(value: Any, **options: Any) -> str:
    return json.dumps(list(value) if isinstance(value, GeneratorType) else value, **{"ensure_ascii": False, **options})


@cache
def template(file: str, mutable: bool) -> Any:
    kind = SandboxedEnvironment if mutable else ImmutableSandboxedEnvironment
    environment = kind(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation])
    environment.filters["tojson"] = _tojson
    environment.globals.update(raise_exception=_raise, strftime_now=TODAY.strftime)
    return environment.from_string(path_of(file).read_text(encoding="utf-8"))


def path_of(file: str) -> Path:
    return (PEERS if "/" in file else TEMPLATES) / file


def message_of(entry: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """The answer as this template wants to be given it."""
    message = {"role": "assistant", **json.loads(json.dumps(answer))}
    if entry.get("arguments") == "text":
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=False)
    if entry.get("null") and not message["content"]:
        message["content"] = None
    if "reasoning_content" in message:
        thoughts = message.pop("reasoning_content")
        if entry.get("blocks"):
            text = [{"type": "text", "text": message["content"]}] if message["content"] else []
            message["content"] = [{"type": "thinking", "thinking": thoughts}, *text]
        else:
            message[entry.get("reasoning_key", "reasoning_content")] = thoughts
    return message


def cut(entry: dict[str, Any], answer: dict[str, Any]) -> tuple[str, str]:
    """(prompt, what the model writes)."""
    prompt, whole = prompt_of(entry), rendered(entry, [message_of(entry, answer)], False)
    if "begin" in entry:
        before, begin, text = whole.rpartition(entry["begin"])
        text = text[: text.index(entry["end"])] if entry["end"] else text
        return (prompt if entry.get("generation", True) else before + begin), text
    fmt = formats.get(entry["format"])
    same = next(
        (n for n, (a, b) in enumerate(zip(prompt, whole, strict=False)) if a != b), min(len(prompt), len(whole))
    )
    # What the template opens for the model is left out where it shows an answer that has no use for it.
    kept = next((n for n in range(same, max(same - 40, -1), -1) if not plain(fmt, prompt[n:], empty=True)), None)
    if entry.get("opened") and "reasoning_content" in answer:
        return prompt, whole[len(prompt) - len(open_part(prompt, fmt, fmt.reasoning)) :]
    assert kept is not None, (
        f"the prompt goes on with {prompt[same:]!r}, the conversation with {whole[same : same + 80]!r}"
    )
    prompt, text = prompt[:kept], whole[kept:]
    ends = [entry["end"]] if isinstance(entry["end"], str) else entry["end"]
    return prompt, text[: max(text.rfind(end) for end in ends)]


def prompt_of(entry: dict[str, Any]) -> str:
    return rendered(entry, [], True)


def rendered(entry: dict[str, Any], answers: list[dict[str, Any]], prompt: bool) -> str:
    tools = [tool["function"] for tool in TOOLS] if entry.get("tools") == "functions" else TOOLS
    values = {"tools": tools, "bos_token": "<s>", "eos_token": "</s>", **entry.get("variables", {})}
    made = template(entry["file"], bool(entry.get("mutable")))
    before = [{"role": "system", "content": "Be brief."}, USER] if entry.get("system") else [USER]
    text: str = made.render(messages=[*before, *answers], add_generation_prompt=prompt, **values)
    return text


def expected(entry: dict[str, Any], name: str, answer: dict[str, Any]) -> dict[str, Any] | None:
    """The answer as far as the template keeps it; None where it loses what matters."""
    if name in entry.get("without", {}):
        return None
    if not entry.get("reasoning", True) and "reasoning_content" in answer:
        return None
    if not entry.get("content", True) and answer.get("tool_calls") and answer["content"]:
        return None
    return answer


def pairs() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(name, template, answer) of all that a template can write."""
    for entry in ENTRIES:
        for name, answer in ANSWERS.items():
            if expected(entry, name, answer) is not None:
                yield f"{entry['format']} {entry['file']}: {name}", entry, answer


RENDERS: dict[str, dict[str, Any]] = json.loads(RECORD.read_text(encoding="utf-8"))
PAIRS = [
    pytest.param(entry, answer, *RENDERS["answers"][name], id=name)
    for name, entry, answer in pairs()
    if name in RENDERS["answers"]
]


def end_of(fmt: formats.Format, prompt: str) -> str:
    """As much of a prompt as says where it leaves the answer."""
    begun = open_part(prompt, fmt, fmt.reasoning)
    return next(end for n in (100, 200, 400, len(prompt)) if open_part(end := prompt[-n:], fmt, fmt.reasoning) == begun)


def recorded() -> dict[str, Any]:
    """What the templates that are here write."""
    answers, prompts = {}, {}
    for name, entry, answer in pairs():
        if path_of(entry["file"]).is_file():
            prompt, text = cut(entry, answer)
            answers[name] = [end_of(formats.get(entry["format"]), prompt), text]
    for file, row in DETECTED.items():
        if row["format"] and "prompt" not in row and path_of(file).is_file():
            entry = next((entry for entry in ENTRIES if entry["file"] == file), {})
            prompts[file] = end_of(formats.get(row["format"]), prompt_of({**entry, "file": file}))
    return {"answers": answers, "prompts": prompts}


def test_the_templates_that_are_here_write_what_is_recorded() -> None:
    for kind, renders in recorded().items():
        for name, written in renders.items():
            assert RENDERS[kind][name] == written, name


@pytest.mark.parametrize(("entry", "answer", "prompt", "text"), PAIRS)
def test_output(entry: dict[str, Any], answer: dict[str, Any], prompt: str, text: str) -> None:
    fmt = formats.get(entry["format"])
    message = fmt.parse(text, TOOLS, prompt=prompt)
    assert (message.content or "").strip() == answer["content"]
    assert (message.reasoning or "").strip() == answer.get("reasoning_content", "")
    calls = answer.get("tool_calls", [])
    assert [call.name for call in message.tool_calls] == [call["function"]["name"] for call in calls]
    assert [json.loads(call.arguments) for call in message.tool_calls] == [
        call["function"]["arguments"] for call in calls
    ]
    assert all(call.complete and call.known for call in message.tool_calls)
    if entry.get("ids") and entry.get("form") != "array":
        assert [call.id for call in message.tool_calls] == [call["id"] for call in calls]
    rendered = fmt.render(answer, entry.get("form"), bool(entry.get("ids")))
    if not entry.get("escapes") and "only_read" not in entry:
        assert plain(fmt, rendered) == plain(fmt, open_part(prompt, fmt, fmt.reasoning) + text)


def plain(fmt: formats.Format, text: str, empty: bool = False) -> str:
    """Without what is layout: blanks around markers, and reasoning that is empty. `empty`: nor opened reasoning."""
    style = fmt.reasoning
    for marker in sorted(fmt.markers(style), key=len, reverse=True):
        if marker.strip():
            text = re.sub(r"\s*" + re.escape(marker.strip()) + r"\s*", lambda found: found.group().strip(), text)
    for opener, closer in style.wraps if style is not None else ():
        text = text.replace(opener + closer, "")
    for opener, closer in style.pairs if style is not None else ():
        label = style.after_open.strip() if style is not None else ""
        opener, closer = opener.strip(), closer.strip()
        text = text.replace(opener + label + closer, "").replace(opener + closer, "")
        if style is not None and style.close_alone:
            text = text.strip().removeprefix(closer)
        if empty:
            text = text.replace(opener + label, "").replace(opener, "").replace(closer, "")
    return text.strip()


@pytest.mark.parametrize(
    ("entry", "answer", "prompt", "text"), [pair for pair in PAIRS if "only_read" not in pair.values[0]]
)
def test_grammar_accepts_the_output(entry: dict[str, Any], answer: dict[str, Any], prompt: str, text: str) -> None:
    fmt = formats.get(entry["format"])
    grammar = fmt.grammar(TOOLS, tool_choice="auto", prompt=prompt)
    assert reference(grammar).accepts(text.rstrip("\n").encode()), (prompt[-60:], text)


def reference(grammar: Any) -> Reference:
    """One per grammar: equal grammars share what they have worked out."""
    key = repr(grammar.module.rules)
    if key not in _REFERENCES:
        _REFERENCES[key] = Reference(grammar.module)
    return _REFERENCES[key]


_REFERENCES: dict[str, Reference] = {}


@pytest.mark.parametrize("file", RENDERS["prompts"])
def test_a_prompt_leaves_the_answer_at_its_beginning(file: str) -> None:
    """Whatever the prompt holds of markers, in its tools or in its instructions: the answer goes on from reasoning that is opened or closed,
    or from the head of a message, at most."""
    fmt = formats.get(DETECTED[file]["format"])
    begun = plain(fmt, open_part(RENDERS["prompts"][file], fmt, fmt.reasoning), empty=True)
    half = [opener for opener, _ in fmt.reasoning.pairs if opener.startswith(begun)] if fmt.reasoning else []
    assert half or begun in ("", *(shape.open for shape in fmt.calls))


def test_formats_without_a_template_say_so() -> None:
    turns = tomllib.loads((CASES / "turns.toml").read_text(encoding="utf-8"))["format"]
    with_template = {entry["format"] for entry in ENTRIES if "only_read" not in entry}
    with_template |= {name for name, known in turns.items() if known["by"] == "renders"}
    for name in formats.names():
        assert formats.get(name).verified == (name in with_template), f"{name}.toml: verified = false, or a template"


if __name__ == "__main__":
    absent = sorted({file for file in DETECTED if not path_of(file).is_file()})
    written = recorded()
    for kind, renders in written.items():  # of those that are not here, what was recorded stays
        written[kind] = {**RENDERS.get(kind, {}), **renders}
    RECORD.write_text(json.dumps(written, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"recorded, but not {', '.join(absent)}" if absent else "recorded")
