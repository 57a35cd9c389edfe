"""Attacks that brought other servers and libraries down: the advisories of SECURITY.md that no other test tries. For
grammars, the vocabulary is Llama 3.1's."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from real_vocabulary import llama3
from scripted import ScriptedEngine
from serving import serving

from narrows import Grammar, Matcher, NarrowsError, TokenError, Vocabulary

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
ASK = [{"role": "user", "content": "hi"}]
SECONDS = 10.0
"""The bound on work that takes a fraction of a second on an idle machine."""


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return llama3()


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving(ScriptedEngine("Hello there.")) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield client


def walk(matcher: Matcher, vocabulary: Vocabulary, steps: int = 8) -> None:
    """Fills masks, and accepts the token in the middle of each."""
    row = np.zeros((vocabulary.size + 31) // 32, np.int32)
    for _ in range(steps):
        matcher.fill_mask(row)
        fitting = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        if not len(fitting) or matcher.is_finished:
            return
        assert matcher.accept(int(fitting[len(fitting) // 2]))


def gbnf(text: str) -> Grammar:
    return Grammar.from_gbnf(text)


HOSTILE_GRAMMARS = {
    # CVE-2025-57809 (xgrammar): left recursion, loops of nothing
    "left recursion": lambda: gbnf('root ::= root "a" | "a"'),
    "hidden left recursion": lambda: gbnf('root ::= e root "a" | "b"\ne ::= "" | e e'),
    "a loop of nothing": lambda: gbnf('root ::= (("a"*)*)* ("" | root)'),
    "a cycle of rules": lambda: gbnf('root ::= a\na ::= b | "x" a\nb ::= a | root'),
    "a regex of loops of nothing": lambda: Grammar.from_regex("((a*)*|(b?)*)*c"),
    "a schema in itself": lambda: Grammar.from_json_schema({"anyOf": [{"$ref": "#"}, {"type": "null"}]}),
    # CVE-2025-58446 (xgrammar): large enums and grammars
    "100,000 values": lambda: Grammar.from_json_schema({"enum": [f"value {i}" for i in range(100_000)]}),
    "a value of a megabyte": lambda: Grammar.from_json_schema({"const": "x" * 1_000_000}),
    "10,000 choices with one beginning": lambda: Grammar.choice([f"{'a' * 100}{i}" for i in range(10_000)]),
    "10,000 rules": lambda: gbnf("root ::= r0\n" + "\n".join(f'r{i} ::= "a" r{i + 1} | "b"' for i in range(10_000)) + '\nr10000 ::= "c"'),
    # CVE-2026-25048 (xgrammar), CVE-2026-2069 (llama.cpp): nesting
    "30,000 groups": lambda: gbnf("root ::= " + "(" * 30_000 + '"a"' + ")" * 30_000),
    "30,000 groups of a regex": lambda: Grammar.from_regex("(" * 30_000 + "a" + ")" * 30_000),
    "900 groups, each repeated": lambda: Grammar.from_regex("(" * 900 + "a" + ")*" * 900),
    "30,000 levels of a schema": lambda: Grammar.from_json_schema('{"items":' * 30_000 + "{}" + "}" * 30_000),
    "30,000 times not": lambda: Grammar.from_json_schema('{"not":' * 30_000 + "{}" + "}" * 30_000),
    # CVE-2026-55574 (vLLM): automata that blow up
    "an automaton of 2**n states": lambda: Grammar.from_regex("[ab]*a[ab]{2000}"),
    "counted repetitions of one another": lambda: Grammar.from_regex("(x{1,1000}){1,1000}"),
    "5,000 letters of any script": lambda: Grammar.from_regex(r"\w{5000}"),
    "six times five": lambda: Grammar.from_regex("(((((a{5}){5}){5}){5}){5}){5}b{1000,100000}"),
    "patterns that must hold at once": lambda: Grammar.from_json_schema(
        {"allOf": [{"type": "string", "pattern": f"^.*a.{{{n}}}$"} for n in range(10, 40)]}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE_GRAMMARS)
def test_a_hostile_grammar_ends_soon(vocabulary: Vocabulary, name: str) -> None:
    """It works or is refused, in little CPU time of the process (the machine may be busy)."""
    started, refused = time.process_time(), "no"
    try:
        walk(vocabulary.compile(HOSTILE_GRAMMARS[name]()).matcher(), vocabulary)
    except NarrowsError as error:
        refused = error.code
    assert time.process_time() - started < SECONDS
    assert refused in ("no", "limit_reached", "unsatisfiable", "gbnf_invalid", "regex_invalid", "schema_invalid")


def test_any_id_is_refused_or_taken_and_harms_nothing(vocabulary: Vocabulary) -> None:
    """GHSA-8wr5-jm2h-8r4f (vLLM): a token that no mask allowed was fed back."""
    matcher = vocabulary.compile(Grammar.from_json_schema({"type": "object"})).matcher()
    row, again = np.zeros((2, (vocabulary.size + 31) // 32), np.int32)
    matcher.fill_mask(row)
    for token in (-1, vocabulary.size, vocabulary.size + 31, 2**31, 2**32, 2**63, -(2**63), 2**70):
        for call in (matcher.accept, matcher.explain, lambda t: matcher.accepts([t])):
            with pytest.raises(NarrowsError):
                call(token)
        with pytest.raises(TokenError):
            matcher.accept(token)
    for token in (*vocabulary.special.values(), *range(vocabulary.size - 40, vocabulary.size)):
        assert not matcher.accept(token)
    matcher.fill_mask(again)
    assert (row == again).all()
    assert len(matcher) == 0


def test_no_grammar_leaves_a_file(tmp_path: Path) -> None:
    """CVE-2025-29770 (vLLM): a cache on disk grew with each schema."""
    code = (
        "from narrows import Grammar, Vocabulary\n"
        "v = Vocabulary([bytes([b]) for b in range(256)])\n"
        "for i in range(300):\n"
        "    v.compile(Grammar.from_json_schema({'properties': {f'p{i}': {'maxLength': i}}})).matcher().accept_bytes(b'{')\n"
    )
    names = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
    places = {name: tmp_path / name for name in names}
    for place in (*places.values(), tmp_path / "cwd"):
        place.mkdir()
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "cwd",
        env=os.environ | {name: str(place) for name, place in places.items()} | {"PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
    )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


ARGUMENTS = [
    "__import__('os').system('touch run')",
    "open('run', 'w')",
    "().__class__.__base__.__subclasses__()",
    "[x for x in open('run', 'w')]",
    'f\'{open("run", "w")}\'',
    "(lambda: exec('1'))()",
    "!!python/object/apply:os.system ['touch run']",
    "${jndi:ldap://x}",
    "{{ cycler.__init__.__globals__.os.system('touch run') }}",
    "9" * 5_000 + "**" + "9" * 5_000,
]


def test_what_a_model_writes_is_never_run(tmp_path: Path) -> None:
    """CVE-2025-9141 (vLLM), CVE-2026-61539 (Xinference): arguments went through eval(). Python reports everything that
    it compiles, runs or opens."""
    code = """
import importlib, json, pkgutil, sys
import narrows.stream
from narrows import formats
for module in pkgutil.iter_modules(narrows.stream.__path__):
    importlib.import_module("narrows.stream." + module.name)
arguments = json.loads(sys.argv[1])
tools = [{"name": "f", "parameters": {"properties": {"x": {}, "y": {"type": "integer"}, "z": {"type": "array"}}}}]
known = [formats.get(name) for name in formats.names()]
def read(text):
    for fmt in known:
        for opener in ("", *(shape.open for shape in fmt.calls)):
            fmt.parse(opener + text, tools)
for fmt in known:
    fmt.parse(fmt.render({"tool_calls": [{"name": "f", "arguments": {"x": "a"}}]}), tools)
read("[f(x=1)]")
seen = []
sys.addaudithook(lambda event, args: seen.append((event, args)) if event in
    ("compile", "exec", "import", "open", "os.system", "subprocess.Popen", "os.exec", "pickle.find_class", "ctypes.dlopen") else None)
for argument in arguments:
    read(f"[f(x={argument}, y={argument})]")
    read(f'f(z=[{argument}])')
    read(f'{{"name": "f", "arguments": {{"x": {argument}}}}}')
    for fmt in known:
        fmt.parse(fmt.render({"tool_calls": [{"name": "f", "arguments": {"x": argument, "y": argument, "z": argument}}]}), tools)
print(seen)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(ARGUMENTS)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
    assert list(tmp_path.iterdir()) == []


def structured(**constraint: Any) -> dict[str, Any]:
    return {"prompt": "a", "max_tokens": 4, "structured_outputs": constraint}


def tool(**function: Any) -> dict[str, Any]:
    return {
        "messages": ASK,
        "max_tokens": 4,
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
    }


INVALID = {
    # CVE-2025-48942, 48943, 48944 (vLLM): a schema, a regex, a tool's `type` or `pattern` that cannot be parsed
    "a schema of no known type": (TEXT, structured(json={"properties": {"reason": {"type": "stsring"}}})),
    "a schema whose type is a number": (TEXT, structured(json={"type": 3})),
    "a schema that is a list": (TEXT, structured(json=[1])),
    "a schema with a bad pattern": (TEXT, structured(json={"type": "string", "pattern": "([a-z"})),
    "a regex that is not closed": (TEXT, structured(regex="([a-zA-Z0-9.-]+")),
    "a regex with a bad class": (TEXT, structured(regex=r"[z-a]\p{Nope}")),
    "a grammar that is none": (TEXT, structured(grammar="root ::= ::=")),
    "a choice of nothing": (TEXT, structured(choice=[])),
    "a tool with a bad pattern": (CHAT, tool(name="f", parameters={"type": "object", "properties": {"a": {"type": "string", "pattern": "*"}}})),
    "a tool of no known type": (CHAT, tool(name="f", parameters={"type": "object", "properties": {"a": {"type": "stsring"}}})),
    "a tool whose parameters are a number": (CHAT, tool(name="f", parameters=3)),
    # CVE-2026-34756 (vLLM): n without a bound
    "a billion answers": (CHAT, {"messages": ASK, "n": 1_000_000_000}),
    "best of a billion": (TEXT, {"prompt": "a", "best_of": 1_000_000_000}),
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_what_does_not_read_is_a_400(client: httpx.Client, name: str) -> None:
    path, body = INVALID[name]
    response = client.post(path, json=body)
    assert 400 <= response.status_code < 500, response.text
    assert response.json()["error"]["code"]
    assert client.post(CHAT, json={"messages": ASK, "max_tokens": 4}).status_code == 200


@pytest.mark.parametrize(
    "arguments",
    [{"chat_template": "{{ 1 }}"}, {"tokenize": True}, {"messages": []}, {"tools": 3}, {"add_generation_prompt": False}, {"return_dict": 1}],
    ids=lambda value: next(iter(value)),
)  # fmt: skip
def test_what_a_template_is_given_cannot_be_overruled(client: httpx.Client, arguments: dict[str, Any]) -> None:
    """CVE-2025-62426 (vLLM): `tokenize` among chat_template_kwargs tied up the event loop."""
    plain = client.post(CHAT, json={"messages": ASK, "max_tokens": 4}).json()["usage"]["prompt_tokens"]
    response = client.post(CHAT, json={"messages": ASK, "max_tokens": 4, "chat_template_kwargs": arguments})
    if response.status_code == 200:
        assert response.json()["usage"]["prompt_tokens"] == plain
    else:
        assert 400 <= response.status_code < 500, response.text


def test_a_template_of_the_request_is_not_used(client: httpx.Client) -> None:
    """CVE-2025-61620 (vLLM): a template in a request was compiled and run."""
    plain = {"messages": ASK, "max_tokens": 4}
    wanted = client.post(CHAT, json=plain).json()["usage"]["prompt_tokens"]
    for template in ("{% for i in range(10**9) %}{% endfor %}", "{{", "a" * 1_000_000):
        response = client.post(CHAT, json={**plain, "chat_template": template})
        assert response.status_code >= 400 or response.json()["usage"]["prompt_tokens"] == wanted


@pytest.mark.parametrize("size", [1_000_000, 10_000_000])
def test_a_huge_header_is_refused(client: httpx.Client, size: int) -> None:
    """CVE-2025-48956 (vLLM)."""
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=20) as connection:
        try:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * size + b"\r\n\r\n")
            answer = connection.recv(4096)
        except (ConnectionResetError, BrokenPipeError):
            answer = b""
    assert answer == b"" or answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431"))
    assert client.get("/health").status_code == 200


def test_a_chunk_that_does_not_end_where_it_says_hides_no_request(client: httpx.Client) -> None:
    """CVE-2025-43859 (h11): the two bytes after a chunk were not checked."""
    hidden = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=20) as connection:
        connection.sendall(head + b"2\r\n{}XX0\r\n\r\n" + hidden)
        answer = b""
        while piece := connection.recv(4096):
            answer += piece
    assert answer.count(b"HTTP/1.1 ") <= 1, answer
    assert b"HTTP/1.1 200" not in answer
