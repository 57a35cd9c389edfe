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

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES = Path(__file__).parents[1] / "cases" / "formats"
TEMPLATES = Path(__file__).parents[3] / "shared" / "templates"
WANTED: dict[str, dict[str, str]] = tomllib.loads((CASES / "detection.toml").read_text(encoding="utf-8"))
TRUTH = tomllib.loads((CASES / "templates.toml").read_text(encoding="utf-8"))["template"]
PEERS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "narrows" / "templates"
needs_templates = pytest.mark.skipif(not TEMPLATES.is_dir(), reason="the chat templates of real models are not here")
HERMES = '{{ \'<tool_call>{"name": .., "arguments": ..}</tool_call>\' }}'


@pytest.mark.parametrize("file", sorted(WANTED))
def test_template(file: str) -> None:
    wanted = WANTED[file]
    path = (PEERS if "/" in file else TEMPLATES) / file
    if not path.is_file():
        pytest.skip("the chat templates of real models, or those that vLLM ships, are not here")
    found = formats.detect_model(path)
    there = wanted["format"] in formats.names()
    assert found.name == (wanted["format"] if there else None), found
    assert (found.confidence > 0) == bool(found) == there
    assert found.reason
    if "reasoning" in wanted:
        style = formats.reasoning_style(found.reasoning) if found.reasoning else None
        markers = [marker for pair in style.pairs for marker in pair] if style else [""]
        assert wanted["reasoning"] in markers, found
    assert found.reasoning == wanted.get("style", found.reasoning)


@needs_templates
def test_every_template_has_a_row_and_the_rows_agree() -> None:
    assert {file for file in WANTED if "/" not in file} == {path.name for path in TEMPLATES.glob("*.jinja")}
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
