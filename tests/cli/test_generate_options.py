"""`narrows generate`: options, and errors that name the option or the file that was given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from narrows.cli.app import app
from narrows.cli.generate_run import _Clock, _speed
from narrows.cli.sources import Sources
from narrows.errors import GrammarError


def generate(*arguments: str) -> Result:
    result = CliRunner().invoke(app, ["generate", "x", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


BEFORE_THE_MODEL = [
    (["--schema", "{"], 4, "--schema: not valid JSON", "(line 1:1)"),
    (["--schema", "BROKEN"], 4, "BROKEN: not valid JSON", "(line 2:5)"),
    (["--json-schema", "no-such.json"], 2, "--schema: cannot read no-such.json", ""),
    (["--tool", "BROKEN"], 4, "BROKEN: not valid JSON", "(line 2:5)"),
    (["--tool", "[1]"], 4, "--tool: a tool is a JSON object (at /0)", ""),
    (["--grammar", '["a"', "--language", "choice"], 4, "--grammar: this is not valid JSON", ""),
    (["--grammar", "@no-such.gbnf"], 2, "--grammar: cannot read no-such.gbnf", ""),
    (["--language", "nope", "--grammar", "x"], 2, "--language: 'nope' is not a language", ""),
    (["--unit", "words"], 2, "--unit: it goes with --grammar", ""),
    (["--select", "sum"], 2, "--select: it goes with --choice", ""),
    (["--values", "--json"], 2, "--values: it goes with one answer", ""),
    (["--tool-call-parser", "nope"], 4, "--tool-call-parser: there is no format 'nope'", ""),
    (["--top-p", "2"], 2, "'--top-p'", ""),
    (["--schema", "-", "--grammar", "-"], 2, "only one input", ""),
    (["--model", "no-such.gguf"], 2, "--model: no-such.gguf is neither a file nor a name of the hub", ""),
]


@pytest.mark.parametrize(("arguments", "code", "said", "place"), BEFORE_THE_MODEL)
def test_errors_before_the_model_is_loaded(
    tmp_path: Path, arguments: list[str], code: int, said: str, place: str
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"a":\n  1,}')
    result = generate(*[str(broken) if one == "BROKEN" else one for one in arguments])
    assert result.exit_code == code
    assert said.replace("BROKEN", str(broken)) in result.stderr
    assert place in result.stderr
    assert "structured_outputs" not in result.stderr


def test_with_json_a_usage_error_is_an_object_too() -> None:
    result = generate("--select", "sum", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout) == {
        "error": {"code": "usage", "message": "it goes with --choice", "source": "--select"}
    }


OF_THE_REQUEST = [
    (["--schema", '{"maxLength": -1}'], "--schema: maxLength is a non-negative integer, not -1 (at /maxLength)"),
    (["--schema", "SCHEMA"], "SCHEMA: maxLength is a non-negative integer, not -1 (at /properties/a/maxLength)"),
    (["--regex", "("], "--regex: bad regular expression"),
    (["--grammar", "root ::= x"], "--grammar: bad grammar: the rule 'x' is not defined (line 1:10)"),
    (["--stop", ""], "--stop: stop must not contain an empty string"),
    (["--top-p", "0"], "--top-p: top_p must be above 0"),
    (["--seed", "99999999999999999999"], "--seed: seed must be a 64-bit integer"),
    (["-n", "1000"], "-n: n is 1000"),
    (["--values", "--regex", "a"], "--values: include_values needs an answer in JSON"),
    (["--tool", '{"name": "f"}', "--tool-choice", "g"], "--tool-choice: no tool is named 'g'"),
    (["--tool", '[{"name": "f"}, {"name": "f"}]'], "--tool: two tools are named 'f' (at /1/name)"),
    (["--tool", '{"name": "f", "parameters": {"type": 1}}'], "--tool: "),
]


@pytest.mark.model
@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(("arguments", "said"), OF_THE_REQUEST)
def test_errors_of_the_request_name_the_option(tmp_path: Path, arguments: list[str], said: str) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"properties": {"a": {"type": "string", "maxLength": -1}}}')
    result = generate(*[str(schema) if one == "SCHEMA" else one for one in arguments])
    assert result.exit_code in (3, 4)
    assert f"error: {said.replace('SCHEMA', str(schema))}" in result.stderr
    for pointer in ("/structured_outputs", "/tools", "/stream_options", "/tool_choice"):
        assert pointer not in result.stderr


@pytest.mark.model
@pytest.mark.usefixtures("loaded")
def test_options_of_sampling_have_an_effect() -> None:
    """Under the names of vLLM and of llama.cpp. All of them together leave one token to draw."""
    plain = generate("--max-tokens", "6").stdout
    drawn = [["--temp", "2", "--seed", "1"], ["--temperature", "2", "--seed", "1"]]
    assert len({generate("--n-predict", "6", *one).stdout for one in drawn}) == 1
    assert generate("--max-tokens", "6", *drawn[0]).stdout != plain
    for narrow in (["--top-k", "1"], ["--top-p", "1e-9"], ["--min-p", "1"]):
        assert generate("--max-tokens", "6", *drawn[0], *narrow).stdout == plain, narrow
    repeated = ("--regex", "(ab|cd){8}")
    assert generate(*repeated, "--repeat-penalty", "50").stdout != generate(*repeated).stdout
    assert (
        generate(*repeated, "--frequency-penalty", "2", "--presence-penalty", "2", "--min-tokens", "2").exit_code == 0
    )
    stopped = generate("--regex", "one two three", "--stop", "nothing", "--stop", " three")
    assert (stopped.exit_code, stopped.stdout) == (0, "one two\n")


@pytest.mark.model
@pytest.mark.usefixtures("loaded")
def test_json_has_the_timing_and_a_pipe_has_none() -> None:
    result = generate("--regex", "[a-z ]{30}", "--json")
    said = json.loads(result.stdout)
    assert set(said) == {"choices", "usage", "timing"}
    assert 0 < said["timing"]["seconds_to_first_token"] <= said["timing"]["seconds"]
    assert said["timing"]["tokens_per_second"] > 0
    assert generate("--regex", "abc").stderr == ""


def test_the_clock() -> None:
    clock = _Clock()
    assert clock.timing(0)["seconds_to_first_token"] is None
    assert _speed(1, {"seconds": 1.0, "seconds_to_first_token": 0.5, "tokens_per_second": None}) == (
        "1 token in 1.00 s, the first after 0.50 s"
    )
    assert _speed(9, {"seconds": 1.0, "seconds_to_first_token": 0.5, "tokens_per_second": 16.0}).endswith(
        ", then 16.0 tokens/s"
    )


def test_the_longest_known_pointer_names_the_source() -> None:
    sources = Sources()
    sources.add("/tools/0", "a.json", "/3")
    sources.add("/tools/0/function", "a.json", "/3")
    assert sources.of("/tools/0/function/parameters/type") == ("a.json", "/3/parameters/type")
    assert sources.of("/tools/0/x") == ("a.json", "/3/x")
    assert sources.of("/tools/01") == (None, "/tools/01")
    error = GrammarError("no", pointer="/tools/0")
    name, located = sources.located(error)
    assert (name, located.pointer, error.pointer) == ("a.json", "/3", "/tools/0")
    assert Sources().located(error) == (None, error)


@pytest.mark.model
@pytest.mark.usefixtures("loaded")
def test_an_answer_that_repeats_itself_is_said_to() -> None:
    result = generate("--regex", "(ha ){60,}", "--repetition-detection", "--max-tokens", "300")
    assert result.exit_code == 1
    assert result.stdout.startswith("ha " * 60)
    assert "the answer repeats itself" in result.stderr
