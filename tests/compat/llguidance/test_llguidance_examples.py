"""What llguidance's README, docs and tests show of the Python package, written anew."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llguidance_tokenizers import bits, ours, tokenizer_json

from narrows import InputError, UnsupportedError
from narrows.compat import llguidance
from narrows.compat.llguidance import LLExecutor, LLMatcher, LLParserLimits, StructTag, grammar_from
from narrows.compat.llguidance import numpy as masks


def accepts(grammar: Any, text: str, name: str = "byte") -> bool:
    """Token by token: each must be in the mask, in the biases, and valid with all that follow."""
    tokenizer = ours(name)
    matcher = LLMatcher(tokenizer, grammar)
    assert not matcher.is_error(), matcher.get_error()
    ids = tokenizer.tokenize_partial(text.encode("utf-8", "surrogateescape") + b"\xff[13]")[0][:-1]
    for place, token in enumerate(ids):
        allowed = matcher.compute_logit_bias()[token]
        assert bool(matcher.compute_bitmask()[token // 8] & 1 << token % 8) == bool(allowed)
        valid = matcher.validate_tokens(ids[place:])
        if not allowed:
            assert valid == 0
            return False
        assert allowed == 200
        assert valid >= 1
        assert matcher.consume_token(token)
    return matcher.is_accepting()


JSON = [
    (LLMatcher.grammar_from_json_schema({"type": "object"}, {"whitespace_flexible": False}), '{"foo":1}', True),
    (LLMatcher.grammar_from_json_schema({"type": "object"}, {"whitespace_flexible": False}), "{ }", False),
    (LLMatcher.grammar_from_json_schema('{"type": "object", "required": ["a"]}'), '{ "a" : 1,\n"b":2}', True),
    (LLMatcher.grammar_from_json_schema('{"type": "object", "required": ["a"]}'), "{}", False),
    (grammar_from("json_schema", '{"type": "integer", "minimum": 3}'), "12", True),
    (grammar_from("json", '{"type": "integer", "minimum": 3}'), "2", False),
]
OTHERS = [
    ('start: /.../ "abc" /.../', "🔵🟠✅abc❌🟠🔵", True),
    ('start: /.../ "abc" /.../', "aaaaabcccc", False),
    (grammar_from("regex", r"\d+"), "123", True),
    (grammar_from("regex", r"\d+"), "1a", False),
    (grammar_from("choice", '["yes", "no"]'), "no", True),
    (grammar_from("choice", '["yes", "no"]'), "yesno", False),
    (grammar_from("gbnf", 'root ::= [a-z]+ ("," root)?'), "a,bc", True),
    (grammar_from("grammar", "start: /[a-z]+/"), "abc", True),
    (grammar_from("lark", 'start: "a" | "b"'), "b", True),
    (grammar_from("llguidance", '{"grammars": [{"json_schema": {"enum": [1, 2]}}]}'), "2", True),
]


@pytest.mark.parametrize(("grammar", "text", "is_one"), JSON + OTHERS)
def test_texts(grammar: str, text: str, is_one: bool) -> None:
    assert accepts(grammar, text) is is_one


def test_a_tool_call_with_special_tokens() -> None:
    """docs/syntax.md: text, or a call between special tokens."""
    grammar = r"""
    start: TEXT | call
    TEXT: /[^{](.|\n)*/
    call: <|start_header_id|> %json {
        "type": "object",
        "properties": {"name": {"const": "get_weather"}, "city": {"type": "string"}},
        "required": ["name", "city"],
        "additionalProperties": false
    } <|end_header_id|>
    """
    tokenizer = ours("llama3_1")
    matcher = LLMatcher(tokenizer, grammar)
    names = "<|start_header_id|>", "<|end_header_id|>"
    call, end = (tokenizer.tokenize_str(name, parse_special=True) for name in names)
    assert len(call) == len(end) == 1
    assert call[0] in bits(matcher, tokenizer.vocab_size)
    assert matcher.consume_tokens(call)
    assert matcher.consume_tokens(tokenizer.tokenize_str('{"name": "get_weather", "city": "Seattle"}'))
    assert matcher.compute_ff_tokens() == end
    assert matcher.consume_tokens(end)
    assert (matcher.is_stopped(), matcher.stop_reason()) == (True, "NoExtension")
    assert LLMatcher(tokenizer, grammar).consume_tokens(tokenizer.tokenize_str("There is no such function."))
    assert not LLMatcher(tokenizer, grammar).consume_tokens(tokenizer.tokenize_str('{"name": 1}'))


def test_forced_tokens_of_the_docs() -> None:
    """docs/fast_forward.md: `order` is left to the model, `name_of_the_person` is not."""
    tokenizer = ours("llama3_1")
    assert tokenizer.tokenize_partial(b"order") == ([], b"order")
    recent = tokenizer.tokenize_bytes(b'{"')
    ids, rest = tokenizer.tokenize_partial(b'name_of_the_person"', recent_tokens=recent)
    assert (tokenizer.decode_str(ids), rest) == ("name_of_the_person", b'"')
    names = {"orderId": {"type": "string"}, "orderName": {"type": "string"}}
    schema = {"type": "object", "properties": names, "additionalProperties": False, "minProperties": 1}
    matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_json_schema(schema, {"whitespace_flexible": False}))
    matcher.consume_tokens(recent)
    assert matcher.compute_ff_bytes() == b"order"
    assert matcher.compute_ff_tokens() == []
    allowed = {tokenizer.decode_str([i]) for i in bits(matcher, tokenizer.vocab_size)}
    assert {"o", "or", "order", "orderId"} <= allowed


def test_stopping_and_rolling_back() -> None:
    matcher = LLMatcher(ours(), "start: /[aA] [bB] [cC]/")
    other = matcher.deep_copy()
    ids = ours().tokenize_str("a b c")
    assert matcher.consume_tokens(ids)
    assert (matcher.is_accepting(), matcher.is_stopped(), matcher.stop_reason()) == (True, True, "NoExtension")
    assert bits(matcher, 262) == [261]
    assert matcher.consume_token(261)
    assert matcher.rollback(1)
    assert (matcher.is_accepting(), matcher.is_stopped(), matcher.stop_reason()) == (False, False, "NotStopped")
    assert matcher.consume_tokens(ids[-1:])
    assert matcher.reset()
    assert other.try_consume_tokens([*ids[:3], 1]) == 3
    assert matcher.compute_bitmask() != other.compute_bitmask()
    assert not other.is_error()


def test_errors_are_kept() -> None:
    matcher = LLMatcher(ours(), "start: /(foo[12]23|bar)/")
    assert matcher.consume_tokens(ours().tokenize_str("foo"))
    assert not matcher.consume_token(ours().tokenize_str("7")[0])
    assert matcher.is_error()
    assert "doesn't satisfy the grammar" in matcher.get_error()
    assert matcher.stop_reason() == "InternalError"
    assert not matcher.reset()
    assert matcher.consume_token(261)
    wide = LLMatcher(ours(), "start: /a/")
    assert not wide.consume_token(362)
    assert "out of range" in wide.get_error()
    missing = LLMatcher(ours(), "start: /.../ no_such_rule")
    assert "no_such_rule" in missing.get_error()
    assert "no_such_rule" in LLMatcher.validate_grammar("start: /.../ no_such_rule")


def test_limits() -> None:
    limits = LLParserLimits(initial_lexer_fuel=5)
    assert (limits.initial_lexer_fuel, limits.max_items_in_row, limits.verbose_errors) == (5, 2000, True)
    assert "reading_work" in LLMatcher(ours(), "start: /(foo[12]23|bar)/", limits=limits).get_error()
    assert "reading_work" in LLMatcher.validate_grammar("start: /(foo|bar)/", limits=limits)
    terse = LLMatcher(ours(), 'start: "secret"', limits=LLParserLimits(verbose_errors=False))
    terse.consume_token(0)
    assert "expected" not in terse.get_error()
    assert not LLMatcher(ours(), 'start: "x"', limits=LLParserLimits(max_items_in_row=20_000)).is_error()


def test_masks_of_several_matchers() -> None:
    executor, tokenizer = LLExecutor(), ours()
    letters, digits, over = (LLMatcher(tokenizer, f"start: /[{kind}]*/") for kind in ("a-z", "0-9", "x"))
    forced = LLMatcher(tokenizer, 'start: "q" /./')
    over.consume_token(tokenizer.eos_token)
    rows = masks.allocate_token_bitmask(6, tokenizer.vocab_size)
    assert rows.shape == masks.get_bitmask_shape(6, tokenizer.vocab_size) == (6, 9)
    masks.fill_next_token_bitmask_par(executor, [(letters, 4), (digits, 0), (over, 1), (forced, 2)], rows)
    assert rows[3].tolist() == rows[5].tolist() == [-1] * 9
    for matcher, place in ((letters, 4), (digits, 0), (over, 1), (forced, 2)):
        one = masks.allocate_token_bitmask(1, tokenizer.vocab_size)
        masks.fill_next_token_bitmask(matcher, one)
        assert one[0].tolist() == rows[place].tolist() == np.frombuffer(matcher.compute_bitmask(), "<i4").tolist()
    assert masks.consume_token_par(executor, [(letters, ord("a")), (digits, ord("a"))]) == [True, False]
    assert digits.is_error()
    logits = np.zeros((2, 300), np.float32)
    masks.apply_token_bitmask_inplace(logits, rows[[1, 2]])
    assert np.flatnonzero(np.isfinite(logits[0])).tolist() == [261]
    assert np.flatnonzero(np.isfinite(logits[1])).tolist() == [ord("q")]


def test_masks_along_drafts() -> None:
    executor, tokenizer = LLExecutor(1), ours()
    good, bad = (LLMatcher(tokenizer, "start: /[a-z]/ /[0-9]*/") for _ in range(2))
    rows = masks.allocate_token_bitmask(7, tokenizer.vocab_size)
    drafts = [(good, 0, [*b"a1"]), (bad, 3, [*b"aa"])]
    masks.fill_next_token_bitmask_par_with_draft_tokens(executor, drafts, rows)
    single = masks.allocate_token_bitmask(1, tokenizer.vocab_size)
    for token, row in zip([*b"a1"], rows, strict=False):
        masks.fill_next_token_bitmask(good, single)
        assert single[0].tolist() == row.tolist()
        assert good.consume_token(token)
    assert rows[4].tolist() == rows[1].tolist()
    assert rows[5].tolist() == [-1] * 9  # after a token that does not fit
    with pytest.raises(InputError):
        masks.fill_next_token_bitmask_par_with_draft_tokens(executor, [(bad, 6, [*b"a1"])], rows)


def test_any_token() -> None:
    matcher = LLMatcher(ours(), "start: <[*]>*")
    assert bits(matcher, 262) == list(range(262))
    assert matcher.consume_tokens([256, 97, 255])
    assert LLMatcher(ours(), "start: <[^97]>").consume_token(98)


TAGS = [
    StructTag(trigger="<func", begin="<func=foo>", grammar={"type": "object"}, end="</func>"),
    StructTag(trigger="<func", begin="<func=bar>", grammar='{"type": "object"}', end="</func>"),
    StructTag(trigger="<|tool|>", begin="<|tool|>blah(", grammar='start: /[0-9]+/ ("," /[0-9]+/)*', end=")"),
]
TOOL = "\udcff<|tool|>"
"""The special token, as `accepts` writes it."""
TAGGED = {
    "<func=foo>{}</func>": True,
    '<func=foo>{}</func>1\n23<func=bar>{"x":1}</func>qux': True,
    "AAA<Func=123": True,
    "</func>": True,
    "<func= foo>{}</func>": False,
    "<func=foo>1</func>": False,
    "<func=foo>{} </func>": False,
    "<func=foo>{}</func": False,
    f"{TOOL}blah(11,12)": True,
    f"a{TOOL}blah(1)<func=bar>{{}}</func>b": True,
    f"{TOOL}qux(1)": False,
    "<|tool|>qux(1)": True,  # spelled, and no special token
}


@pytest.mark.parametrize("text", TAGGED)
def test_structural_tags(text: str) -> None:
    assert accepts(StructTag.to_grammar(TAGS), text) is TAGGED[text]


def test_a_tag_with_the_text_of_a_grammar() -> None:
    """As vLLM gives it: llguidance would take it for a schema that allows anything."""
    inner = LLMatcher.grammar_from_json_schema({"type": "integer"}, {"whitespace_flexible": False})
    grammar = StructTag.to_grammar(
        [StructTag(trigger="<f>", begin="<f>", grammar=inner, end="</f>")], assume_special=False
    )
    assert accepts(grammar, "a<f>12</f>")
    assert not accepts(grammar, 'a<f>"12"</f>')
    with pytest.raises(InputError):
        StructTag.to_grammar([StructTag(trigger="<", begin="<", grammar=5, end="")])  # type: ignore[arg-type]


def test_warnings() -> None:
    assert LLMatcher.validate_grammar_with_warnings("start: <[128]>* <[123]>") == (
        False,
        ["no tokenizer - can't validate <special_token>"],
    )
    assert LLMatcher.validate_grammar("start: <[5]>").startswith("WARNING: ")
    lenient = {"properties": {"a": {"not": {"uniqueItems": True}}}}
    for value, is_lenient in ((True, True), (False, False)):
        grammar = LLMatcher.grammar_from_json_schema({**lenient, "type": "object"}, None, {"lenient": value})
        assert LLMatcher(ours(), grammar).is_error() is not is_lenient or not is_lenient
    unique = LLMatcher(ours(), LLMatcher.grammar_from_json_schema({"type": "array", "uniqueItems": True}))
    assert any("under" in warning for warning in unique.get_grammar_warnings())
    assert LLMatcher(ours(), "start: /a/").get_grammar_warnings() == []


def test_what_is_not_there_says_so() -> None:
    with pytest.raises(UnsupportedError) as caught:
        llguidance.LLInterpreter(ours(), "start: b\nb[temperature=0.5]: /[0-9]/")
    assert caught.value.code == "temperature_unsupported"


def test_captures() -> None:
    matcher = LLMatcher(
        ours(), 'start: (a b)+\na[capture, suffix=";"]: /[a-z]*/\nb[capture="n"]: c\nc[capture]: /[0-9]/'
    )
    assert matcher.consume_tokens([*b"x;1"])
    assert matcher.get_captures() == [("a", b"x"), ("c", b"1"), ("n", b"1")]
    assert matcher.consume_tokens([*b"y;2z"])
    assert matcher.get_captures()[3:] == [("a", b"y"), ("c", b"2"), ("n", b"2")]
    assert (matcher.get_capture("n"), matcher.get_capture("a"), matcher.get_capture("x")) == (b"2", b"y", None)
    assert matcher.rollback(4)
    assert matcher.get_capture("a") == b"x"
    assert LLMatcher(ours(), "start: /a/").get_captures() == []
    assert LLMatcher(ours(), "start: /a/").get_capture("b") is None
    assert LLMatcher(ours(), "start: b\nc[capture]: /a/").get_captures() == []  # an error, which it keeps


def test_an_interpreter_reports_captures_when_the_text_is_over() -> None:
    interpreter = llguidance.LLInterpreter(
        ours(), 'start: "<" a ">"\na[capture]: /[a-z]+/', enable_ff_tokens=False, enable_backtrack=False
    )
    interpreter.start_without_prompt()
    seen = []
    for token in b"<ab>":
        _, about = interpreter.compute_mask()
        seen.append([one for one in json.loads(about)["progress"] if one["object"] == "capture"])
        interpreter.commit_token(token)
    _, about = interpreter.compute_mask()
    assert seen == [[], [], [], []]
    assert json.loads(about)["progress"][0] == {
        "object": "capture",
        "name": "a",
        "str": "ab",
        "hex": "6162",
        "log_prob": 0.0,
    }


def test_an_interpreter_writes_what_is_forced() -> None:
    interpreter = llguidance.LLInterpreter(ours(), 'start: "ab" /x|y/ "cd"')
    assert interpreter.process_prompt([*b"hello"]) == [*b"helloab"]
    mask, about = interpreter.compute_mask()
    assert mask is not None
    assert [i for i, allowed in enumerate(mask) if allowed] == [*b"xy"]
    assert json.loads(about)["progress"][0]["str"] == "ab"
    assert interpreter.commit_token(ord("x")) == (0, [*b"xcd"])
    assert interpreter.has_pending_stop()
    mask, about = interpreter.compute_mask()
    assert mask is None
    assert json.loads(about)["progress"][-1]["str"] == "abxcd"
    assert interpreter.stop_reason() == "NoExtension"
    with pytest.raises(ValueError, match="after stop"):
        interpreter.compute_mask()


def test_masks_of_an_interpreter_in_memory() -> None:
    interpreter = llguidance.LLInterpreter(ours(), "start: /[ab]/")
    rows, room = masks.allocate_token_bitmask(1, 262), bytearray(36)
    other = interpreter.deep_copy()
    masks.fill_next_token_bitmask(interpreter, rows)
    other.compute_mask_into(room)
    assert rows.tobytes() == bytes(room)
    assert interpreter.commit_token(ord("a")) == (0, [ord("a")])
    masks.fill_next_token_bitmask(interpreter, rows)
    assert np.flatnonzero(np.unpackbits(rows.view(np.uint8), bitorder="little")).tolist() == [261]


def test_slices_have_no_effect() -> None:
    tokenizer = ours()
    for slices in (tokenizer.general_slices(), tokenizer.json_slices(), []):
        sliced = tokenizer.with_slices(slices)
        assert sliced.tokenize_str("Hello") == tokenizer.tokenize_str("Hello")
        assert LLMatcher(sliced, "start: /a/").compute_bitmask() == LLMatcher(tokenizer, "start: /a/").compute_bitmask()
    assert len(tokenizer.general_slices()) == 4


def test_a_grammar_is_compiled_once() -> None:
    tokenizer = llguidance.LLTokenizer("byte")
    first, second = (LLMatcher(tokenizer, "start: /[a-z]+/") for _ in range(2))
    constraints = {id(found._parser.matcher.constraint) for found in (first, second) if found._parser}
    assert len(constraints) == 1
    assert first.consume_token(97)
    assert not second.is_accepting()


def test_a_wider_model() -> None:
    tokenizer = llguidance.LLTokenizer(tokenizer_json("llama2"), n_vocab=32064, eos_token=[2, 1])
    assert (tokenizer.vocab_size, tokenizer.eos_tokens) == (32064, [2, 1])
    matcher = LLMatcher(tokenizer, "start: /(.|\\n)*/")
    assert len(matcher.compute_bitmask()) == 32064 // 8
    allowed = bits(matcher, 32064)
    assert {1, 2} < set(allowed)
    assert max(allowed) < 32000
    assert tokenizer.decode_str([32063]) == "<[32063]>"
    with pytest.raises(ValueError, match="too small"):
        llguidance.LLTokenizer(tokenizer_json("llama2"), n_vocab=5)


def test_tiktoken() -> None:
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed")
    from narrows.compat.llguidance.tiktoken import lltokenizer_from_encoding

    ranks = {bytes([byte]): byte for byte in range(256)} | {b"he": 256, b"llo": 258}
    encoding = tiktoken.Encoding(
        "small", pat_str=r"[a-z]+|.", mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 300}
    )
    tokenizer = lltokenizer_from_encoding(encoding)
    assert (tokenizer.vocab_size, tokenizer.eos_token) == (301, 300)
    assert tokenizer.decode_str(tokenizer.tokenize_str("hello")) == "hello"
    assert accepts_ids(tokenizer, "start: /hel+o/", tokenizer.tokenize_str("hello"))
    with pytest.raises(InputError):
        lltokenizer_from_encoding(object())


def accepts_ids(tokenizer: llguidance.LLTokenizer, grammar: str, ids: list[int]) -> bool:
    matcher = LLMatcher(tokenizer, grammar)
    return matcher.consume_tokens(ids) and matcher.is_accepting()


def test_llama_cpp(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of llama-cpp-python's functions, on a vocabulary of four tokens."""
    pieces = [b"a", b"bc", b"<|im_end|>", b"<tool>"]

    class Library:
        LLAMA_TOKEN_ATTR_CONTROL, LLAMA_TOKEN_ATTR_USER_DEFINED = 8, 16
        llama_token = __import__("ctypes").c_int32

        def llama_vocab_n_tokens(self, vocab: Any) -> int:
            return len(pieces)

        def llama_vocab_eos(self, vocab: Any) -> int:
            return 2

        def llama_token_get_attr(self, vocab: Any, token: int) -> int:
            return (0, 0, 8, 16)[token]

        def llama_token_to_piece(self, vocab: Any, token: int, room: Any, size: int, strip: int, special: bool) -> int:
            room[: len(pieces[token])] = pieces[token]
            return len(pieces[token])

        def llama_tokenize(
            self, vocab: Any, text: bytes, length: int, ids: Any, room: int, add: bool, special: bool
        ) -> int:
            found = [0 if c == "a" else 1 for c in text.decode().replace("bc", "b")]
            ids[: len(found)] = found
            return len(found)

    monkeypatch.setitem(sys.modules, "llama_cpp", Library())
    from narrows.compat.llguidance.llamacpp import lltokenizer_from_vocab

    tokenizer = lltokenizer_from_vocab(None, n_vocab=6)
    assert (tokenizer.vocab_size, tokenizer.eos_token, tokenizer.tokenize_str("abca")) == (6, 2, [0, 1, 0])
    assert [tokenizer.is_special_token(i) for i in range(4)] == [False, False, True, True]
    assert bits(LLMatcher(tokenizer, "start: /a|bc/ <tool>"), 6) == [0, 1]


def test_without_tokenizers_there_are_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    path = tokenizer_json("llama2")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    tokenizer = llguidance.LLTokenizer(Path(path).read_text("utf-8"))
    assert not tokenizer.is_canonical
    matcher = LLMatcher(tokenizer, 'start: "hello" /[0-9]/')
    assert matcher.compute_ff_tokens() == []
    assert {"h", "he", "hello"} <= {tokenizer.decode_str([i]) for i in bits(matcher, tokenizer.vocab_size)}
    with pytest.raises(InputError) as caught:
        llguidance.LLInterpreter(tokenizer, "start: /a/")
    assert caught.value.code == "not_canonical"


def test_the_example_of_the_page(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "compat_llguidance.md").read_text("utf-8")
    code = page.split("```python\n", 1)[1].split("\n```", 1)[0]
    monkeypatch.chdir(Path(tokenizer_json("llama2")).parent)
    exec(code, {})
    assert capsys.readouterr().out.splitlines() == ["True NoExtension", "['no', 'yes']"]
