"""The command line: what it prints, what it says in JSON, and what its exit codes mean."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import last_json, run

from narrows import formats

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "x"}}\n</tool_call>'


@pytest.fixture
def schema(tmp_path: Path) -> str:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    return str(path)


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["serve"],
        ["generate"],
        ["check"],
        ["parse"],
        ["formats"],
        ["formats", "show"],
        ["formats", "detect"],
        ["formats", "check"],
    ],
)
def test_help_names_every_option_and_gives_examples(command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout
    if command and len(command) == 1:
        assert "Examples" in result.stdout
        assert "--json" in result.stdout


def test_version() -> None:
    assert run("--version").stdout.startswith("narrows ")


class TestCheck:
    def test_an_exact_schema(self, schema: str) -> None:
        result = run("check", schema)
        assert result.exit_code == 0
        assert "enforced exactly" in result.stdout
        said = last_json(run("check", schema, "--json"))
        assert said["enforced"] is True
        assert said["report"]["/properties/a/type"]["status"] == "exact"
        assert said["cost"]["compile_ms"] > 0

    def test_less_than_the_schema_allows_is_enforced(self, tmp_path: Path) -> None:
        path = tmp_path / "mail.json"
        path.write_text(json.dumps({"type": "string", "format": "email"}))
        result = run("check", str(path))
        assert result.exit_code == 0
        assert "less is allowed than the schema allows" in result.stdout
        said = last_json(run("check", str(path), "--json"))
        assert (said["enforced"], said["report"]["/format"]["status"]) == (True, "under")

    def test_objects_that_do_not_say_additionalproperties(self, tmp_path: Path) -> None:
        """Both readings are shown; the one that was asked for is no failure."""
        path = tmp_path / "open.json"
        inner = {"type": "object", "properties": {"b": {"type": "integer"}}}
        path.write_text(json.dumps({"type": "object", "properties": {"a": inner}, "additionalProperties": False}))
        closed = ["/properties/a/properties"]
        for additional, status in (("standard", "exact"), ("declared", "under")):
            result = run("check", str(path), "--json", "--additional", additional)
            assert result.exit_code == 0
            said = last_json(result)
            assert (said["enforced"], said["additional"], said["does_not_say"]) == (True, additional, closed)
            assert said["report"][closed[0]]["status"] == status
            assert said["report"]["/properties"]["status"] == "exact"
        assert "--additional declared" in run("check", str(path)).stdout
        assert "as asked" in run("check", str(path), "--additional", "declared").stdout
        path.write_text(
            json.dumps(
                {"properties": {"a": inner}, "contains": {"type": "string"}, "minContains": 2, "uniqueItems": True}
            )
        )
        assert run("check", str(path), "--additional", "declared").exit_code == 1
        assert run("check", str(path), "--additional", "closed").exit_code == 2

    def test_a_schema_that_is_not_enforced_says_where_and_exits_1(self, tmp_path: Path) -> None:
        path = tmp_path / "loose.json"
        path.write_text(
            json.dumps({"type": "array", "contains": {"type": "string"}, "minContains": 2, "uniqueItems": True})
        )
        result = run("check", str(path), "--json")
        assert result.exit_code == 1
        assert last_json(result)["report"]["/uniqueItems"]["status"] != "exact"

    @pytest.mark.parametrize(
        ("text", "options", "code"),
        [
            ('{"type": "string", "minLength": 3, "maxLength": 2}', [], 4),
            ("{", [], 4),
            ('{"items":' * 5000 + "1" + "}" * 5000, [], 3),
            ("(a", ["--regex"], 4),
            ("[a-z]+", ["--regex"], 0),
            ('root ::= "a" | "b"', ["--grammar"], 0),
            ('root ::= "a', ["--grammar"], 4),
        ],
    )
    def test_exit_codes(self, text: str, options: list[str], code: int) -> None:
        result = run("check", "-", *options, "--json", stdin=text)
        assert result.exit_code == code
        assert ("error" in last_json(result)) == (code > 1)

    def test_a_text_is_read_and_what_rules_capture_is_shown(self, tmp_path: Path) -> None:
        path = tmp_path / "names.lark"
        path.write_text('start: first " " last\nfirst[capture]: /[a-zé]+/\nlast[capture="surname"]: /[a-z]+/\n')
        shown = run("check", str(path), "--language", "lark", "--text", "zoé x")
        assert shown.exit_code == 0
        assert shown.stdout.split()[-6:] == ["first", "0-4", "zoé", "surname", "5-6", "x"]
        said = last_json(run("check", str(path), "--language", "lark", "--json", "--text", "-", stdin="zoé x"))
        (one,) = said["texts"]
        assert (one["source"], one["allowed"], one["refusal"]) == ("standard input", True, None)
        assert one["captures"] == [
            {"name": "first", "start": 0, "end": 4, "text": "zoé"},
            {"name": "surname", "start": 5, "end": 6, "text": "x"},
        ]
        wrong = run("check", str(path), "--language", "lark", "--text", "zoé")
        assert wrong.exit_code == 1
        assert "not allowed" in wrong.stdout
        assert last_json(run("check", str(path), "--language", "lark", "--json"))["texts"] == []

    @pytest.mark.parametrize(
        ("unit", "refused"), [("characters", []), ("words", ["a", "at s"]), ("lines", ["a", "at s", "cat sat"])]
    )
    def test_the_unit_of_a_text_whose_parts_are_allowed(self, tmp_path: Path, unit: str, refused: list[str]) -> None:
        path = tmp_path / "article.txt"
        path.write_text("The cat sat.\nIt purred.\n")
        for text in ("a", "at s", "cat sat", "It purred.", ""):
            result = run("check", str(path), "--language", "substring", "--unit", unit, "--text", text)
            assert result.exit_code == int(text in refused), text

    def test_usage_errors_exit_2(self, schema: str) -> None:
        assert run("check", "no-such-file").exit_code == 2
        assert run("check", schema, "--unit", "words").exit_code == 2
        assert run("check", schema, "--language", "substring", "--unit", "pages").exit_code == 2
        assert run("check", schema, "--regex", "--grammar").exit_code == 2
        assert run("check", schema, "--no-such-option").exit_code == 2
        assert run("no-such-command").exit_code == 2


class TestParse:
    def test_events_and_a_summary(self) -> None:
        result = run("parse", "hermes_json", "--json", stdin=f"Hi.\n{CALL}")
        assert result.exit_code == 0
        events = [json.loads(line) for line in result.stdout.splitlines()]
        assert next(event.get("event") for event in events) == "Content"
        assert next(e for e in events if e.get("event") == "ToolCallStart")["name"] == "f"
        assert events[-1]["summary"]["well_formed"] is True

    def test_it_loads_no_server(self) -> None:
        """Nor an HTTP library: reading a text needs neither."""
        program = (
            "import sys\n"
            "from typer.testing import CliRunner\n"
            "from narrows.cli.app import app\n"
            f"done = CliRunner().invoke(app, ['parse', 'hermes_json', '--message'], input={CALL!r})\n"
            "print(done.exit_code, [m for m in sys.modules if m.startswith(('narrows.server', 'fastapi', 'uvicorn'))])\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "0 []"

    @pytest.mark.parametrize(
        ("text", "content", "calls"),
        [("hello", "hello", 0), ("", "", 0), (CALL, None, 1), (f"hello{CALL}", "hello", 1)],
    )
    def test_the_content_of_the_message_is_null_only_beside_a_call(
        self, text: str, content: str | None, calls: int
    ) -> None:
        message = json.loads(run("parse", "hermes_json", "--message", "--json", stdin=text).stdout.splitlines()[0])
        assert (message["content"], len(message.get("tool_calls", ()))) == (content, calls)

    def test_the_message(self) -> None:
        message = json.loads(run("parse", "hermes_json", "--message", "--json", stdin=CALL).stdout.splitlines()[0])
        assert message["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a": "x"}'}

    def test_where_it_stops_being_well_formed(self) -> None:
        result = run(
            "parse", "hermes_json", "--json", stdin='<tool_call>\n{"name": "f", "arguments": [1]}\n</tool_call>'
        )
        assert result.exit_code == 1
        summary = last_json(result)["summary"]
        assert summary["well_formed"] is False
        assert summary["accepted_characters"] == len('<tool_call>\n{"name": "f", "arguments": ')
        assert "not well formed" in run("parse", "hermes_json", stdin="<tool_call>\n{").stdout

    def test_tools_hold_the_arguments(self, tmp_path: Path) -> None:
        tool = tmp_path / "tool.json"
        tool.write_text(json.dumps({"name": "f", "parameters": {**SCHEMA, "properties": {"a": {"type": "integer"}}}}))
        assert run("parse", "hermes_json", "--tool", str(tool), stdin=CALL).exit_code == 1
        assert run("parse", "hermes_json", "--tool", str(tool), stdin=CALL.replace('"x"', "5")).exit_code == 0
        unknown = last_json(
            run("parse", "hermes_json", "--tool", str(tool), "--json", stdin=CALL.replace('"f"', '"g"'))
        )
        assert unknown["summary"]["unknown_tools"] == ["g"]

    def test_an_unknown_format_is_refused(self) -> None:
        result = run("parse", "no_such_format", "--json", stdin="x")
        assert result.exit_code == 4
        assert last_json(result)["error"]["code"] == "format_unknown"


def chunk(**delta: Any) -> str:
    return "data: " + json.dumps({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]})


class TestLogs:
    LOG = "\n\n".join(
        [
            ": ping",
            chunk(role="assistant", content=""),
            chunk(content="Hi.\n<tool"),
            chunk(content=CALL[5:30]),
            chunk(content=CALL[30:]),
            "data: [DONE]",
        ]
    )

    def test_deltas_and_their_events(self) -> None:
        result = run("parse", "hermes_json", "--json", stdin=self.LOG)
        assert result.exit_code == 0
        events = [json.loads(line) for line in result.stdout.splitlines()]
        assert [(e["delta"], e["event"]) for e in events[:2]] == [(0, "Content"), (2, "ToolCallStart")]
        assert events[-1]["summary"]["deltas"] == 3
        assert "".join(e["text"] for e in events if e.get("event") == "ToolCallArguments") == '{"a": "x"}'
        shown = run("parse", "hermes_json", stdin=self.LOG).stdout
        assert "delta     0  'Hi.\\n<tool'" in shown
        assert "well formed" in shown

    def test_text_completions_and_other_choices(self) -> None:
        lines = [
            json.dumps({"choices": [{"index": i % 2, "text": piece}]}) for i, piece in enumerate(["a", "b", "c", "d"])
        ]
        for choice, text in (("0", "ac"), ("1", "bd")):
            result = run("parse", "hermes_json", "--json", "--message", "--choice", choice, stdin="\n".join(lines))
            assert json.loads(result.stdout.splitlines()[0])["content"] == text
        assert run("parse", "hermes_json", "--choice", "2", stdin="\n".join(lines)).exit_code == 4

    def test_what_the_server_took_out_is_said(self) -> None:
        call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}
        log = "\n".join([chunk(reasoning_content="Hm."), chunk(content="Hi."), chunk(tool_calls=[call])])
        said = last_json(run("parse", "hermes_json", "--json", stdin=log))["summary"]
        assert said["parsed_by_the_server"] == {"tool_calls": 1, "reasoning_characters": 3}
        assert "parsed the text already" in run("parse", "hermes_json", stdin=log).stdout

    def test_a_log_that_does_not_read_says_where(self) -> None:
        error = last_json(run("parse", "hermes_json", "--json", stdin=chunk(content="a") + "\ndata: {"))["error"]
        assert (error["code"], error["line"]) == ("log_invalid", 2)

    def test_text_that_looks_like_a_log(self) -> None:
        result = run("parse", "hermes_json", "--text", "--json", "--message", stdin=chunk(content="a"))
        assert json.loads(result.stdout.splitlines()[0])["content"] == chunk(content="a")


class TestFormats:
    def test_formats_of_one_s_own(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "mine.toml").write_text('name = "other"\nextends = "hermes_json"\n', encoding="utf-8")
        monkeypatch.setenv(
            "NARROWS_FORMATS", os.pathsep.join(str(tmp_path / f"{name}.toml") for name in ("gone", "mine"))
        )
        result = run("formats", "--json")
        assert [fmt["name"] for fmt in last_json(result)][-1] == "mine"
        assert "gone is left out" in result.stderr
        assert run("parse", "mine", "--json", stdin=f"Hi.\n{CALL}").exit_code == 0
        assert run("parse", "gone", "--json", stdin="Hi.").exit_code == 4

    def test_list_and_show(self) -> None:
        listed = last_json(run("formats", "--json"))
        assert {"hermes_json", "qwen3_xml", "mistral"} <= {fmt["name"] for fmt in listed}
        assert "hermes_json" in run("formats").stdout
        shown = last_json(run("formats", "show", "hermes", "--json"))
        assert shown["name"] == "hermes_json"
        assert "<tool_call>" in shown["examples"]["one call"]
        assert shown["verified"] is True
        assert "call-object" in shown["grammar"]
        assert "call-object" in run("formats", "show", "hermes").stdout

    def test_detect(self, tmp_path: Path) -> None:
        path = tmp_path / "template.jinja"
        path.write_text(
            "{{ '<tool_call>\n{\"name\": \"' + call.name + '\", \"arguments\": ' + call.arguments + '}\n</tool_call>' }}"
        )
        assert last_json(run("formats", "detect", str(path), "--json"))["format"] == "hermes_json"
        result = run("formats", "detect", "-", "--json", stdin="nothing")
        assert (result.exit_code, last_json(result)["format"]) == (1, None)

    def test_detect_a_folder(self, tmp_path: Path) -> None:
        template = "{{ '<think></think>[TOOL_CALLS]' }}"
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
        said = last_json(run("formats", "detect", str(tmp_path), "--json"))
        assert (said["format"], said["reasoning"], said["confidence"]) == ("mistral", "mistral_think", 1.0)
        assert said["source"].endswith("tokenizer_config.json")
        assert "reasoning mistral_think" in run("formats", "detect", str(tmp_path)).stdout
        assert run("formats", "detect", str(tmp_path / "none")).exit_code == 4

    @pytest.mark.soak
    @pytest.mark.parametrize("name", formats.names())
    def test_every_format_is_shown_and_agrees_with_itself(self, name: str) -> None:
        assert run("formats", "show", name).exit_code == 0
        assert last_json(run("formats", "check", name, "--json"))["failures"] == []

    @pytest.mark.parametrize("name", ["hermes_json", "qwen3_xml", "mistral", "forced_json"])
    def test_formats_agree_with_itself(self, name: str) -> None:
        result = run("formats", "check", name, "--json")
        assert (result.exit_code, last_json(result)["failures"]) == (0, [])

    def test_a_format_that_does_not_agree_with_itself(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.toml"
        path.write_text(
            'name = "mine"\ntitle = "Mine"\nmodels = []\n[[call]]\nfamily = "json_object"\nform = "a"\nopen = "<mine>"\nclose = "</mine>"\ninside = "x"\n'
        )
        result = run("formats", "check", str(path), "--json")
        assert result.exit_code == 1
        assert "the parser reads" in last_json(result)["failures"][0]

    def test_a_file_that_does_not_hold_together_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "bad.toml"
        path.write_text('name = "bad"\nunknown = 1\n')
        assert run("formats", "check", str(path)).exit_code == 4


@pytest.mark.model
class TestGenerate:
    def test_choice(self) -> None:
        result = run("generate", "Name a colour.", "--choice", "red", "--choice", "green", "--json")
        assert result.exit_code == 0
        assert last_json(result)["choices"][0]["message"]["content"] in ("red", "green")

    @pytest.mark.usefixtures("loaded")
    def test_a_tool_streams_to_stdout_and_length_exits_1(self, tmp_path: Path) -> None:
        tool = tmp_path / "tool.json"
        tool.write_text(
            json.dumps(
                {
                    "name": "get_weather",
                    "parameters": {
                        "type": "object",
                        "properties": {"city": {"enum": ["Paris", "Lima"]}},
                        "required": ["city"],
                        "additionalProperties": False,
                    },
                }
            )
        )
        result = run("generate", "Weather in Paris?", "--tool", str(tool), "--max-tokens", "60")
        assert result.exit_code == 0
        name, _, arguments = result.stdout.strip().splitlines()[0].partition(" ")
        assert (name, set(json.loads(arguments))) == ("get_weather", {"city"})
        assert run("generate", "Tell a story.", "--max-tokens", "3").exit_code == 1

    @pytest.mark.usefixtures("loaded")
    def test_what_of_a_tools_schema_is_not_enforced_is_said(self, tmp_path: Path) -> None:
        tool = tmp_path / "tool.json"
        items = {"items": {"enum": [1, 2]}, "contains": {"type": "integer"}, "minContains": 2, "maxItems": 2}
        ids = {"type": "array", **items, "uniqueItems": True}
        described = {"name": "note", "parameters": {"type": "object", "properties": {"ids": ids}, "required": ["ids"]}}
        tool.write_text(json.dumps(described))
        result = run("generate", "Note 1.", "--tool", str(tool), "--max-tokens", "60")
        assert result.exit_code == 0
        assert result.stderr == f"not enforced: {tool}: /parameters/properties/ids/uniqueItems\n"
        tool.write_text(json.dumps({**described, "strict": True}))
        assert run("generate", "Note 1.", "--tool", str(tool)).exit_code == 4

    @pytest.mark.usefixtures("loaded")
    def test_objects_are_closed_unless_the_standard_is_asked_for(self) -> None:
        schema = '{"type": "object", "properties": {}}'
        asked = ("generate", "Describe a cat as JSON.", "--schema", schema, "--max-tokens", "40")
        assert json.loads(run(*asked).stdout) == {}
        assert run(*asked, "--additional", "closed").exit_code == 2
        standard = run(*asked, "--additional", "standard").stdout
        assert '"' in standard, standard  # the small model invents keys where it may

    @pytest.mark.usefixtures("loaded")
    def test_values_as_they_become_whole(self) -> None:
        schema = (
            '{"type": "object", "properties": {"a": {"enum": [[1, 2]]}, "b": {"const": "é"}}, "required": ["a", "b"]}'
        )
        result = run("generate", "x", "--schema", schema, "--values")
        values = [json.loads(line) for line in result.stdout.splitlines()]
        assert [(value["pointer"], value["value"]) for value in values] == [
            ("/a/0", 1),
            ("/a/1", 2),
            ("/a", [1, 2]),
            ("/b", "é"),
            ("", {"a": [1, 2], "b": "é"}),
        ]
        assert run("generate", "x", "--schema", schema, "--values", "--json").exit_code == 2
        assert run("generate", "x", "--regex", "a", "--values").exit_code == 4

    @pytest.mark.usefixtures("loaded")
    def test_errors(self) -> None:
        assert run("generate", "x", "--regex", "(", "--json").exit_code == 4
        assert run("generate", "x", "--regex", "a", "--choice", "b").exit_code == 2
        assert run("generate", "x", "--regex", "a", "--unit", "words").exit_code == 2
        assert run("generate", "x", "--grammar", "start: /a/", "--language", "lark", "--unit", "words").exit_code == 2
        assert run("generate", "x", "--model", "no-such-file.gguf").exit_code == 2
        assert run("serve", "no-such-file.gguf").exit_code == 2
