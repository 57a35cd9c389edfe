"""narrows' grammar backend beside SGLang's own, xgrammar's and llguidance's, on the same keys and the same tokens: masks, ends, jumps, rollback."""

from __future__ import annotations

import json
from functools import lru_cache
from random import Random
from typing import Any

import pytest

pytest.importorskip("xgrammar", reason="the peers are not installed")
pytest.importorskip("llguidance", reason="the peers are not installed")

import serving
from serving import WIDTH, allowed, end, ids, matches
from sglang.srt.constrained.base_grammar_backend import InvalidGrammarObject
from sglang.srt.constrained.llguidance_backend import GuidanceBackend
from sglang.srt.constrained.xgrammar_backend import XGrammarGrammarBackend

from narrows.plugins.sglang.masking.backend import Backend
from narrows.plugins.sglang.masking.definitions import Spelling

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 3, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["a", "b\n", "é"]}},
        "x": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
    },
    "required": ["name", "age"],
}
OLDER = {
    "type": "structural_tag",
    "structures": [
        {"begin": "<f>", "schema": {"type": "object", "properties": {"a": {"type": "integer"}}}, "end": "</f>"},
        {"begin": "<g>", "schema": None, "end": "</g>"},
    ],
    "triggers": ["<f", "<g"],
    "at_least_one": True,
}
NEWER = {
    "type": "structural_tag",
    "format": {
        "type": "sequence",
        "elements": [
            {"type": "tag", "begin": "<t>", "content": {"type": "regex", "pattern": "[a-z]{2}"}, "end": "</t>"},
            {"type": "or", "elements": [{"type": "const_string", "value": "!"}, {"type": "json_schema"}]},
        ],
    },
}
SAME = [
    ("regex", "ab?c"),
    ("regex", r"[\w.]+@[a-z]{2,4}\.com"),
    ("regex", ".{1,6}"),
    ("regex", r"(\d{3}-)?\d{4}"),
    ("regex", "[a-fé]{2}é?"),
    ("regex", "^(Paris|London)$"),
    ("ebnf", 'root ::= "(" root ")" | [0-9]+'),
    ("ebnf", 'root ::= item ("," item)*\nitem ::= [a-z]{1,3}'),
    ("ebnf", 'root ::= "yes" | "no" # a comment\n'),
    ("json", json.dumps(PERSON)),
    ("json", "$$ANY$$"),
    ("json", '{"type": "object"}'),
    ("json", '{"type": ["boolean", "null", "string"]}'),
    ("structural_tag", json.dumps(OLDER)),
    ("structural_tag", json.dumps(NEWER)),
]
"""Keys that xgrammar reads in the same way. Special tokens are no text here."""


@pytest.fixture(scope="module")
def narrows() -> Backend:
    return Backend(serving.tokenizer(), WIDTH, {end()}, Spelling("any"))


@pytest.fixture(scope="module")
def xgrammar() -> Any:
    return XGrammarGrammarBackend(serving.tokenizer(), vocab_size=WIDTH, model_eos_token_ids=[end()])


@pytest.fixture(scope="module")
def llguidance() -> Any:
    return GuidanceBackend(serving.tokenizer(), n_vocab=WIDTH, eos_token_ids={end()})


def made(backend: Any, key: tuple[str, str]) -> Any:
    grammar = backend._init_value_dispatch(key, False)
    assert not isinstance(grammar, InvalidGrammarObject), grammar.error_message
    return grammar


def jump(grammar: Any) -> Any:
    """xgrammar raises inside of a character."""
    try:
        return grammar.try_jump_forward(serving.tokenizer())
    except UnicodeDecodeError:
        return None


def ordinary(tokens: set[int], narrows: Backend) -> set[int]:
    """Without special tokens, which xgrammar allows as texts, and without parts of characters: its free text is any bytes. The end token stays."""
    return tokens & _texts(narrows.vocabulary)


@lru_cache(maxsize=1)
def _texts(vocabulary: Any) -> frozenset[int]:
    return frozenset({end(), *(token for token in range(vocabulary.size) if _is_text(vocabulary.token_bytes(token)))})


def _is_text(piece: bytes) -> bool:
    try:
        return piece.decode() != ""
    except UnicodeDecodeError:
        return False


def reads(theirs: Any, text: bytes) -> bool:
    """Whether xgrammar's matcher takes this text. Its masks leave out some tokens that reach over the ends of several rules, such as `))`."""
    before = theirs.matcher.fork()
    return bool(before.accept_string(text))


@pytest.mark.parametrize("key", SAME, ids=[f"{kind}-{text[:24]}" for kind, text in SAME])
def test_random_walks_agree_with_xgrammar(key: tuple[str, str], narrows: Backend, xgrammar: Any) -> None:
    random = Random(str(key))
    for _ in range(3):
        ours, theirs = made(narrows, key).copy(), made(xgrammar, key).copy()
        for _ in range(30):
            expected = ordinary(allowed(theirs), narrows)
            found = ordinary(allowed(ours), narrows)
            assert expected <= found
            assert all(reads(theirs, narrows.vocabulary.token_bytes(token)) for token in found - expected)
            assert jump(ours) == jump(theirs)
            token = end() if end() in expected and random.random() < 0.3 else random.choice(sorted(expected))
            for grammar in (ours, theirs):
                grammar.accept_token(token)
            assert ours.is_terminated() == theirs.is_terminated() == (token == end())
            assert ours.current_token == theirs.current_token
            if ours.is_terminated() or random.random() < 0.2:
                back = random.randrange(1, len(ours.matcher) + 1)
                for grammar in (ours, theirs):
                    grammar.rollback(back)
                assert not ours.is_terminated()
        assert allowed(ours.copy()) == allowed(made(narrows, key))


@pytest.mark.parametrize("key", SAME[:5], ids=[text for _, text in SAME[:5]])
def test_llguidance_reads_the_same_patterns(key: tuple[str, str], narrows: Backend, llguidance: Any) -> None:
    random = Random(str(key))
    kind, pattern = key
    pattern = pattern.replace(".{", r"[\s\S]{").replace("\\w", "[a-zA-Z0-9_]").replace("[[", "[").replace("_].", "_.")
    pattern = pattern.replace("\\d", "[0-9]")
    ours, theirs = made(narrows, key), made(llguidance, (kind, pattern))  # where all is forced, it allows one spelling
    for _ in range(12):
        expected = ordinary(allowed(theirs), narrows)
        assert ordinary(allowed(ours), narrows) == expected
        token = random.choice(sorted(expected))
        if token == end():
            break
        for grammar in (ours, theirs):
            grammar.accept_token(token)


def test_the_end_is_the_same(narrows: Backend, xgrammar: Any) -> None:
    """A token after the end changes nothing and does not count; rolling back opens the text again."""
    for backend in (narrows, xgrammar):
        grammar = made(backend, ("regex", "ab?c"))
        for token in (*ids("a"), *ids("c"), end(), *ids("a")):
            grammar.accept_token(token)
        assert grammar.is_terminated()
        assert grammar.current_token == end()
        grammar.rollback(1)
        assert not grammar.is_terminated()
        assert allowed(grammar) == {end()}
        grammar.rollback(2)
        assert end() not in allowed(grammar)
        with pytest.raises((ValueError, RuntimeError)):
            grammar.rollback(1)
        with pytest.raises(ValueError, match=f"Tokens not accepted: {ids('b')[0]}"):
            grammar.accept_token(ids("b")[0])


def test_a_mask_after_the_end_is_llguidance_s(narrows: Backend, llguidance: Any) -> None:
    """End tokens alone. xgrammar raises; SGLang does not ask."""
    for backend in (narrows, llguidance):
        grammar = made(backend, ("regex", "ab?c"))
        for token in (*ids("a"), *ids("c"), end()):
            grammar.accept_token(token)
        assert allowed(grammar) == {end()}


@pytest.mark.parametrize("compact", [False, True])
def test_whitespace_follows_the_server_s_flags(compact: bool, xgrammar: Any) -> None:
    ours = Backend(serving.tokenizer(), WIDTH, {end()}, Spelling("json.dumps" if compact else "bounded"))
    theirs = XGrammarGrammarBackend(serving.tokenizer(), WIDTH, [end()], any_whitespace=not compact)
    key = "json", '{"properties": {"a": {"type": "integer"}, "b": {"items": {"type": "integer"}, "type": "array"}}, '
    key = "json", key[1] + '"required": ["a", "b"], "type": "object"}'
    value = {"a": 1, "b": [1, 2]}
    texts = [json.dumps(value), json.dumps(value, indent=2), json.dumps(value, separators=(",", ":"))]
    texts += ['{"a" : 1, "b": []}', ' {"a": 1, "b": []}', '{"a": 1, "b": []} ', '{"b": [], "a": 1}']
    texts += ['{"a": 1, "b": [], "c": 2}']
    said = [matches(made(ours, key), text) for text in texts]
    assert said == [matches(made(theirs, key), text) for text in texts]
    assert said[:4] == ([True, False, False, False] if compact else [True] * 4)


DIFFERENT = [
    # key, text, whether narrows, xgrammar and llguidance allow it (None: it cannot be compiled)
    (("regex", r"a\sb"), "a\u3000b", True, False, True),
    (("regex", "a.b"), "a\nb", True, True, False),
    (("json", '{"type": "string", "maxLength": 6}'), '"a\tb"', False, True, False),
    (("json", '{"type": "string", "maxLength": 6}'), '"a\\tb"', True, False, True),
    (("json", '{"type": "string", "pattern": "^[a-z]+$"}'), '"\\u0061"', True, False, False),
    (("json", '{"type": "string"}'), '"<think>"', False, True, False),
    (("json", '{"prefixItems": [{"type": "integer"}], "type": "array"}'), "[1, 2]", True, False, True),
    (("json", '{"properties": {"a": {"type": "integer"}}, "type": "object"}'), '{"b": 1}', False, False, True),
    (("json", "$$ANY$$"), "1", False, False, None),
    (("json", '{"type": "integer", "multipleOf": 3}'), "9", True, None, True),
    (("json", '{"type": "string", "format": "email", "maxLength": 9}'), '"a@b.cd"', True, None, True),
    (
        ("structural_tag", '{"type": "structural_tag", "format": {"type": "regex", "pattern": "a.b"}}'),
        "a\nb",
        *(True, True, None),
    ),
    (("ebnf", 'start: "a" "b"'), "ab", True, None, True),
    (("ebnf", '<root> ::= "a" "b"'), "ab", True, None, None),
    (("regex", "(?=a)ab"), "ab", True, None, None),
]


@pytest.mark.parametrize("case", DIFFERENT, ids=[f"{case[0][1][:30]}-{case[1]}" for case in DIFFERENT])
def test_named_differences(case: Any, narrows: Backend, xgrammar: Any, llguidance: Any) -> None:
    key, text, *expected = case
    said = []
    for backend in (narrows, xgrammar, llguidance):
        grammar = backend._init_value_dispatch(key, False)
        said.append(None if isinstance(grammar, InvalidGrammarObject) else matches(grammar, text))
    assert said == expected
