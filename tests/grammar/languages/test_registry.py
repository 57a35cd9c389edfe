"""A language that is registered by one line works in `Grammar`, the server, the commands and the plug-in for vLLM at once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from narrows import Grammar, Vocabulary, formats
from narrows.arguments import TEXT
from narrows.cli.app import app
from narrows.compiling.definition import grammar
from narrows.errors import GrammarError, InputError, UnsupportedError
from narrows.grammar import ir
from narrows.grammar.languages import LANGUAGES, FrontEnd
from narrows.grammar.work import Work
from narrows.limits import DEFAULT_LIMITS
from narrows.plugins.vllm.masking import constraints as vllm_constraints
from narrows.server import constraints
from narrows.server.protocol import ChatRequest, read

VOCABULARY = Vocabulary([bytes([b]) for b in range(256)] + [None], special={"<end>": 256}, eos=[256])

TAG = {"type": "structural_tag", "format": {"type": "any_text"}}


def _read(source: str, work: Work, separator: str = " ") -> tuple[ir.Module, Mapping[str, Any]]:
    """Words with spaces between them, in any order."""
    words = source.split()
    if len(words) > 5:
        raise GrammarError("there are too many words", code="words_invalid", pointer="/5")
    work.spend(len(words))
    orders = (separator.join(order).encode() for order in permutations(words))
    return ir.Module({"root": ir.Lexeme(ir.Literals(tuple(orders)))}), {}


WORDS = FrontEnd("words", TEXT, _read, options=("separator",))


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LANGUAGES, "words", WORDS)


def accepts(read: Grammar, text: str) -> bool:
    matcher = VOCABULARY.compile(read).matcher()
    return matcher.accept_bytes(text.encode()) and matcher.is_accepting


def is_words(read: Grammar) -> bool:
    return accepts(read, "b a") and accepts(read, "a b") and not accepts(read, "a") and not accepts(read, "a a")


def test_in_grammar() -> None:
    assert is_words(Grammar.from_language("words", "a b"))
    assert accepts(Grammar.from_language("words", "a b", separator="+"), "b+a")


def test_in_the_server() -> None:
    body = {"messages": [{"role": "user", "content": "x"}], "structured_outputs": {"words": "a b"}}
    request = read(ChatRequest, body, DEFAULT_LIMITS)
    plan = constraints.plain(constraints.wanted(request, constraints.Strictness("declared", False)))
    assert plan is not None
    assert json.loads(json.dumps(plan.definition)) == plan.definition
    assert is_words(grammar(plan.definition, formats.get("hermes_json"), DEFAULT_LIMITS))
    with pytest.raises(GrammarError) as caught:
        Grammar.from_language("words", "a b c d e f")
    assert plan.locate(caught.value).pointer == "/structured_outputs/words/5"


@pytest.mark.parametrize(
    ("fields", "code", "pointer"),
    [
        ({"words": 3}, "invalid_type", "/structured_outputs/words"),
        ({"words": "a", "regex": "a"}, "conflicting_constraints", "/structured_outputs"),
        ({"words": "a", "wordz": "a"}, "field_unsupported", "/structured_outputs/wordz"),
    ],
)
def test_the_server_checks_it_like_the_others(fields: dict[str, Any], code: str, pointer: str) -> None:
    body = {"messages": [{"role": "user", "content": "x"}], "structured_outputs": fields}
    with pytest.raises((InputError, UnsupportedError)) as caught:
        read(ChatRequest, body, DEFAULT_LIMITS)
    assert (caught.value.code, caught.value.pointer) == (code, pointer)


def test_in_the_commands(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("a b")
    result = CliRunner().invoke(app, ["check", str(file), "--language", "words", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["enforced"] is True
    assert CliRunner().invoke(app, ["check", str(file), "--language", "wordz"]).exit_code == 2
    assert CliRunner().invoke(app, ["check", str(file), "--language", "words", "--regex"]).exit_code == 2


def test_generate_sends_it_under_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from narrows.cli import generate, generate_run

    class Engine:
        def close(self) -> None: ...

    sent: list[dict[str, Any]] = []

    async def run(engine: Any, body: dict[str, Any], *rest: Any) -> bool:
        sent.append(body)
        return True

    monkeypatch.setattr(generate, "load_engine", lambda *args, **options: Engine())
    monkeypatch.setattr(generate_run, "run", run)
    generate_words = ["generate", "x", "--grammar", "a b", "--language", "words"]
    assert CliRunner().invoke(app, generate_words).exit_code == 0
    assert sent[0]["structured_outputs"] == {"words": "a b"}
    assert CliRunner().invoke(app, ["generate", "x", "--language", "words"]).exit_code == 2


def test_in_vllm() -> None:
    definition = vllm_constraints.of_extra_args({"narrows_words": "a b"})
    assert definition is not None
    assert is_words(definition.grammar(DEFAULT_LIMITS))
    with pytest.raises(InputError):
        vllm_constraints.of_extra_args({"narrows_words": 3})


@pytest.mark.parametrize(
    ("language", "source", "options", "code"),
    [
        ("sentences", "a", {}, "language_unknown"),
        ("words", 3, {}, "wrong_type"),
        ("words", "a", {"dialect": "python"}, "invalid_option"),
        ("words", "a", {"separator": 3}, "wrong_type"),
        ("json", 3, {}, "wrong_type"),
    ],
)
def test_what_is_refused(language: str, source: Any, options: dict[str, Any], code: str) -> None:
    with pytest.raises(InputError) as caught:
        Grammar.from_language(language, source, **options)
    assert caught.value.code == code


def test_importing_the_library_loads_no_front_end() -> None:
    program = (
        "import sys, narrows\n"
        "from narrows.grammar.languages import LANGUAGES\n"
        "assert 'json' in LANGUAGES and len(list(LANGUAGES)) == len(LANGUAGES)\n"
        "print([m for m in sys.modules if m.startswith('narrows.grammar.languages.')])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['narrows.grammar.languages.base']"


def test_each_front_end_has_the_name_of_its_line() -> None:
    assert [front.name for front in LANGUAGES.values()] == list(LANGUAGES)


def test_the_named_constructors_are_these_languages() -> None:
    same = [
        (Grammar.from_regex("a|b"), ("regex", "a|b")),
        (Grammar.from_gbnf('root ::= "a" | "b"'), ("grammar", 'root ::= "a" | "b"')),
        (Grammar.from_lark('start: "a" | "b"'), ("lark", 'start: "a" | "b"')),
        (Grammar.from_ebnf('root ::= "a" | "b"'), ("ebnf", 'root ::= "a" | "b"')),
        (Grammar.choice(["a", "b"]), ("choice", ["a", "b"])),
        (Grammar.from_json_schema({"enum": [1]}), ("json", {"enum": [1]})),
        (Grammar.from_structural_tag(TAG), ("structural_tag", TAG)),
        (Grammar.substring("ab"), ("substring", "ab")),
    ]
    for named, (language, source) in same:
        assert Grammar.from_language(language, source).module == named.module
    assert set(LANGUAGES) == {language for _, (language, _) in same} | {"words"}
