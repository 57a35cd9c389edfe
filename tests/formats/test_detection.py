"""What chat templates give away: of the right format or of none, never of a wrong one; from models' folders too."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from narrows import formats
from narrows.errors import InputError, NarrowsError
from narrows.formats.styles import styles

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES = Path(__file__).parents[1] / "cases" / "formats"
TEMPLATES = Path(__file__).parents[3] / "shared" / "templates"
WANTED: dict[str, dict[str, str]] = tomllib.loads((CASES / "detection.toml").read_text(encoding="utf-8"))
TRUTH = tomllib.loads((CASES / "templates.toml").read_text(encoding="utf-8"))["template"]
PEERS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "narrows" / "templates"
LITERALS: dict[str, list[str]] = json.loads((CASES / "detection_literals.json").read_text(encoding="utf-8"))
"""Of each template, the literals by which formats and reasoning styles are told. The templates belong to the models' makers and are not here;
`python tests/formats/test_detection.py` writes this anew."""
HERMES = '{{ \'<tool_call>{"name": .., "arguments": ..}</tool_call>\' }}'


def path_of(file: str) -> Path:
    return (PEERS if "/" in file else TEMPLATES) / file


def known_literals() -> list[str]:
    every = [formats.get(name) for name in formats.names()]
    told = {word for fmt in every if (d := fmt.detect) for word in (*d.all, *d.any, *d.none, *d.likely)}
    for style in map(formats.reasoning_style, styles()):
        told |= {marker for pair in (*style.pairs, *style.wraps) for marker in pair if marker}
        told |= {closer[:-1] + quote for _, closer in style.pairs for quote in "'\""}
    return sorted(told)


def literals(file: str) -> list[str]:
    template = path_of(file).read_text(encoding="utf-8")
    return [word for word in known_literals() if word in template]


def test_the_templates_that_are_here_hold_what_is_recorded() -> None:
    for file in WANTED:
        if path_of(file).is_file():
            assert LITERALS[file] == literals(file), file
            told, recorded = formats.detect_model(path_of(file)), formats.detect("\n\n".join(LITERALS[file]))
            assert (told.name, told.confidence, told.reasoning) == (
                recorded.name,
                recorded.confidence,
                recorded.reasoning,
            ), file


@pytest.mark.parametrize("file", LITERALS)
def test_template(file: str) -> None:
    wanted = WANTED[file]
    found = formats.detect("\n\n".join(LITERALS[file]))
    there = wanted["format"] in formats.names()
    assert found.name == (wanted["format"] if there else None), found
    assert (found.confidence > 0) == bool(found) == there
    assert found.reason
    if "reasoning" in wanted:
        style = formats.reasoning_style(found.reasoning) if found.reasoning else None
        markers = [marker for pair in style.pairs for marker in pair] if style else [""]
        assert wanted["reasoning"] in markers, found
    assert found.reasoning == wanted.get("style", found.reasoning)


def test_every_template_has_a_row_and_the_rows_agree() -> None:
    here = {path.name for path in TEMPLATES.glob("*.jinja")}
    assert not here or {file for file in WANTED if "/" not in file} == here
    for entry in TRUTH:
        assert WANTED[entry["file"]]["format"] == entry["format"]


@pytest.mark.parametrize(
    "name", ["beam", "iquest_coder_v2", "iquest_q1", "mirothinker", "rwkv", "solar_open2", "telechat4"]
)
def test_what_a_format_writes_gives_it_away(name: str) -> None:
    """For formats of which no template was at hand: one that shows such a call says what it is."""
    call = {"function": {"name": "now", "arguments": {"a": "b"}}}
    found = formats.detect(
        "{{ '" + formats.get(name).render({"reasoning": "r", "content": "c", "tool_calls": [call]}) + "' }}"
    )
    assert (found.name, found.confidence) == (name, 1.0), found
    style = formats.get(name).reasoning
    assert style is not None
    assert found.reasoning == style.name


def test_tokens_that_two_models_share() -> None:
    """openPangu and LFM2 have the same ones around calls."""
    shared = "{{ '<|tool_call_start|>[' }}"
    assert formats.detect(shared).name == "lfm2"
    assert formats.detect("{{ '<|pangu_text_start|>' }}" + shared).name == "openpangu_v2"


def test_a_closer_whose_last_character_is_left_to_the_model() -> None:
    found = formats.detect("{{ '**Tool Call:**' }}{{ 'Assistant: <think></think' }}")
    assert (found.name, found.reasoning) == ("rwkv", "think")


def test_several_formats_are_not_guessed() -> None:
    found = formats.detect('<tool_call></tool_call> "arguments" [TOOL_CALLS]')
    assert (found.format, found.name, found.confidence) == (None, None, 0.0)
    assert {"hermes_json", "mistral"} <= set(found.candidates)
    assert not formats.detect("")
    with pytest.raises(InputError):
        formats.detect(None)  # type: ignore[arg-type]


def test_reasoning_without_a_format() -> None:
    assert formats.detect("<think></think>").reasoning == "think"
    assert formats.detect("{{ content.split('</think>') }}").reasoning == "think"
    assert formats.detect("plain").reasoning is None
    assert formats.detect("Write <think></think>, then <response></response>").reasoning == "think_response"
    assert formats.detect("Write <think></think>, then <answer></answer>").reasoning == "think_answer"
    both = formats.detect("<think></think> <seed:think></seed:think>")
    assert both.reasoning is None
    assert "seed_think" in both.reasoning_reason


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("chat_template.jinja", HERMES),
        ("additional_chat_templates/tool_use.jinja", HERMES),
        ("tokenizer_config.json", json.dumps({"chat_template": HERMES})),
        ("chat_template.json", json.dumps({"chat_template": HERMES})),
        (
            "tokenizer_config.json",
            json.dumps(
                {
                    "chat_template": [
                        {"name": "default", "template": "[TOOL_CALLS]"},
                        {"name": "tool_use", "template": HERMES},
                    ]
                }
            ),
        ),
        ("tokenizer_config.json", json.dumps({"chat_template": [{"name": "default", "template": HERMES}]})),
    ],
)
def test_folder(tmp_path: Path, file: str, text: str) -> None:
    place = tmp_path / file
    place.parent.mkdir(exist_ok=True)
    place.write_text(text, encoding="utf-8")
    found = formats.detect_model(tmp_path)
    assert (found.name, Path(found.source)) == ("hermes_json", place)
    assert formats.detect_model(place).name == "hermes_json"


def test_the_template_for_tools_counts(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("[TOOL_CALLS]")
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text(HERMES)
    assert formats.detect_model(tmp_path).name == "hermes_json"


@pytest.mark.parametrize(
    ("file", "text", "code"),
    [
        ("tokenizer_config.json", "{", "template_invalid"),
        ("tokenizer_config.json", "[" * 100_000, "template_invalid"),
        ("tokenizer_config.json", '{"chat_template": 5}', "template_invalid"),
        ("model.gguf", "GGUF", "file_unreadable"),
    ],
)
def test_folders_that_are_broken(tmp_path: Path, file: str, text: str, code: str) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(NarrowsError) as error:
        formats.detect_model(tmp_path)
    assert error.value.code == code


def test_folders_without_a_template(tmp_path: Path) -> None:
    found = formats.detect_model(tmp_path)
    assert not found
    assert "no chat template" in found.reason
    with pytest.raises(NarrowsError) as error:
        formats.detect_model(tmp_path / "none")
    assert error.value.code == "template_unreadable"


def test_gguf(tmp_path: Path) -> None:
    gguf: Any = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(str(tmp_path / "model.gguf"), "llama")
    writer.add_chat_template(HERMES)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert formats.detect_model(tmp_path).name == "hermes_json"
    assert formats.detect_model(tmp_path / "model.gguf").name == "hermes_json"


if __name__ == "__main__":
    here = {file: literals(file) for file in WANTED if path_of(file).is_file()}
    LITERALS |= here
    text = json.dumps(LITERALS, ensure_ascii=False, indent=1) + "\n"
    (CASES / "detection_literals.json").write_text(text, encoding="utf-8")
    print(f"recorded {len(here)} of {len(WANTED)}")
