"""The benchmark's own parts: processes that are ended and started again, sums over what engines took, and its tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import narrows

BENCH = str(Path(__file__).parents[2] / "bench")
sys.path.append(BENCH)
from first_sight import features, languages, maskbench, report, tables, workers  # noqa: E402

sys.path.remove(BENCH)  # bench/vllm.py is not vllm


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer of bytes."""
    shown = {}
    spare = 256
    for byte in range(256):
        plain = 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174
        shown[chr(byte if plain else spare)] = byte
        spare += not plain
    content = {
        "version": "1.0",
        "added_tokens": [{"id": 256, "content": "<end>", "special": True}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": shown, "merges": []},
    }
    place = tmp_path_factory.mktemp("tokenizer")
    (place / "tokenizer.json").write_text(json.dumps(content))
    (place / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>"}))
    return place


TEXT = list(b'{"a": 1}')


def test_a_worker_measures_a_definition(folder: Path) -> None:
    worker = workers.Worker("narrows", folder)
    try:
        answer = worker.ask("definition", source="{}", kind="json_schema", texts=[TEXT, TEXT])
        assert len(answer["masks"]) == len(answer["accepts"]) == 2 * len(TEXT)
        assert not answer["wrong"]
        assert answer["first"] >= answer["compile"] > 0
        assert answer["again"] > 0
        wrong = worker.ask("definition", source='{"type": "array"}', kind="json_schema", texts=[TEXT])
        assert wrong["wrong"][0][1].startswith("token 0 (123)")
        assert "schema_" in worker.ask("definition", source='{"type": 1}', kind="json_schema", texts=[])["refused"]
        assert worker.ask("definition", source="x", kind="nothing", texts=[]) == {"unread": True}
    finally:
        worker.close()


def test_a_worker_that_takes_too_long_is_lost_and_starts_again(folder: Path) -> None:
    worker = workers.Worker("narrows", folder)
    try:
        worker.seconds = 0.0
        assert "not done" in worker.ask("definition", source="{}", kind="json_schema", texts=[TEXT])["lost"]
        worker.seconds = 60.0
        assert "first" in worker.ask("definition", source="{}", kind="json_schema", texts=[TEXT])
        assert worker.restarts == 1
    finally:
        worker.close()


def test_a_worker_whose_process_ends_is_lost_and_starts_again(folder: Path) -> None:
    worker = workers.Worker("narrows", folder)
    try:
        assert "the process ended" in worker.ask("no such task")["lost"]
        assert "first" in worker.ask("definition", source="{}", kind="json_schema", texts=[TEXT])
    finally:
        worker.close()


def test_without_the_data_it_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="git clone"):
        maskbench.files_of(tmp_path)


def taken(first: int, *masks: int, wrong: bool = False) -> dict[str, Any]:
    return {"compile": first - masks[0], "first": first, "masks": list(masks), "accepts": [0] * len(masks),
            "again": first, "wrong": [[0, "why"]] if wrong else []}  # fmt: skip


ROWS: list[dict[str, Any]] = [
    {"name": "both", "engines": {"narrows": taken(2000, 1000, 3000), "llguidance": taken(8000, 4000, 4000)}},
    {"name": "refused", "engines": {"narrows": taken(9000, 9000), "llguidance": {"refused": "why", "spent": 1}}},
    {"name": "masked", "engines": {"narrows": taken(5000, 5000, wrong=True), "llguidance": taken(6000, 1000)}},
    {"name": "lost", "engines": {"narrows": {"lost": "why"}, "llguidance": taken(6000, 1000)}},
]


def test_sums_go_over_what_each_takes_and_over_what_all_take() -> None:
    found = maskbench.summaries(ROWS, ["narrows", "llguidance"])
    assert found["common"] == 1
    each, common = found["each"]["narrows"], found["all"]["narrows"]
    assert (each["schemas"], each["refused"], each["lost"], each["valid refused"]) == (3, 0, 1, 1)
    assert (common["token"]["mean"], common["token"]["max"]) == (2.0, 3.0)
    assert found["each"]["llguidance"]["refused"] == 1
    assert common["total beside llguidance"] == 5000 / 12000


def test_the_tables_come_from_the_numbers() -> None:
    numbers = {"schemas": maskbench.summaries(ROWS, ["narrows", "llguidance"])}
    page = tables.page(numbers)
    assert "over the 1 schemas that all take" in page
    assert "| mask and accept, mean | 2.00 | 4.00 |" in page


def row(narrows_: float, llguidance: float | None) -> dict[str, Any]:
    def one(mean: float) -> dict[str, Any]:
        return {"first": mean, "mean": mean, "max": mean, "tokens": 1, "wrong": []}

    return {"narrows": one(narrows_), "llguidance": {"refused": "why"} if llguidance is None else one(llguidance)}


def test_the_page_says_what_is_slower(tmp_path: Path) -> None:
    rows = {"pattern `a | b`": row(50.0, 10.0), "enum": row(10.0, 50.0), "uri": row(10.0, None)}
    about = {"date": "2026-11-25", "processor": "some", "python": "3", "versions": {"narrows": "1", "llguidance": "2"}}
    part = {"seed": 1, "seconds": 60, "tokenizer": "bytes", **maskbench.summaries(ROWS, ["narrows", "llguidance"])}
    report.write({"about": about, "features": rows, "schemas": part}, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    assert "mean mask: llguidance is faster in 1 of 2 rows. pattern `a | b` (5.0 times)" in page
    assert "| uri | 10.0 | refused |" in page
    assert r"| pattern `a \| b` | 50.0 | 10.0 |" in page
    assert "(page.svg)" in page
    drawn = (tmp_path / "page.svg").read_text()
    assert drawn.count("<rect") == 8


def test_tables_of_vocabularies_and_operations_leave_room_for_what_is_missing() -> None:
    one = {"loading": {"seconds": 2.0, "bytes": 3e6}, "token": {"mean": 1.0, "p99": 2.0}, "first": {"p50": 4.0}}
    lost: dict[str, Any] = {**one, "token": {}, "first": {}}
    found = {
        "large": {"size": 2000, "engines": {"narrows": one, "xgrammar": lost}},
        "small": {"size": 1000, "engines": {"narrows": one, "xgrammar": one}},
        "absent": {"left out": "there is no network"},
    }
    page = tables.vocabularies(found)
    assert page.index("| small, 1,000 tokens | 1.00 | 1.00 |") < page.index("| large, 2,000 tokens | 1.00 | - |")
    assert "absent is left out: there is no network" in page
    parts = {"loading": one["loading"], "lost": "not done after 60 s"}
    rows = tables.operations({"narrows": {**parts, "parsers": {"no tools, first": 5.0}}, "glrmask": parts})
    assert "| loading the vocabulary, megabytes | 3.00 | 3.00 |" in rows
    assert "| a known mask, of 64 filled in one call: CPU time | not done | not done |" in rows
    assert "| a stream parser and its first delta, no tools, first | 5.00 |  |" in rows


def test_prose_is_broken_outside_of_code_alone() -> None:
    words = report.wrapped("- " + "word " * 30 + "`a pattern with blanks` " + "word " * 30)
    assert max(map(len, words.splitlines())) <= 120
    assert "`a pattern with blanks`" in words


@pytest.mark.parametrize("name", features.FEATURES)
def test_the_instances_are_valid_and_narrows_takes_them(name: str) -> None:
    jsonschema_rs = pytest.importorskip("jsonschema_rs")
    schema, instances = features.FEATURES[name]
    end = 256
    vocabulary = narrows.Vocabulary([*(bytes([b]) for b in range(256)), b""], special={"<end>": end}, eos=[end])
    constraint = vocabulary.compile(narrows.Grammar.from_json_schema(schema))
    for instance in instances:
        assert jsonschema_rs.validator_for(schema, validate_formats=True).is_valid(instance)
        matcher = constraint.matcher()
        assert matcher.accept_bytes(json.dumps(instance, ensure_ascii=False).encode())
        assert matcher.is_accepting


def test_every_language_has_its_sources_and_narrows_reads_its_texts() -> None:
    end = 256
    vocabulary = narrows.Vocabulary([*(bytes([b]) for b in range(256)), b""], special={"<end>": end}, eos=[end])
    for name, (sources, texts) in languages.languages().items():
        assert set(sources) == {"narrows", "llguidance", "xgrammar", "glrmask"}
        kind, source = sources["narrows"][0]
        read = getattr(narrows.Grammar, kind if kind in ("choice", "substring") else f"from_{kind}", None)
        if read is None:  # a front end that is to come
            continue
        matcher = vocabulary.compile(read(source)).matcher
        for text in texts:
            one = matcher()
            assert one.accept_bytes(text.encode()), name
            assert one.is_accepting, name
