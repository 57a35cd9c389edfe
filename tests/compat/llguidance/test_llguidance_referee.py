"""The same grammars, tokens and calls with the real llguidance: the same masks bit for bit, the same forced tokens, the
same state and results. And each difference that is meant, by its name."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from llguidance_tokenizers import bits, ours, state, theirs, verdict

from narrows.compat import llguidance
from narrows.compat.llguidance import LLMatcher

pytest.importorskip("llguidance", reason="the peer llguidance is not installed")
import llguidance as peer


def schema(value: dict[str, Any], **options: Any) -> str:
    return LLMatcher.grammar_from_json_schema(value, options or None)


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "ok": {"type": "boolean"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
ORDER = {
    "type": "object",
    "properties": {"orderId": {"type": "string"}, "orderName": {"type": "string"}},
    "additionalProperties": False,
}
FLAGS = {
    "type": "object",
    "properties": {"a": {"type": "boolean"}, "b": {"type": "array", "items": {"type": "null"}}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
CALL = r"""
start: call* TEXT
call: op /[0-9]+/ ";"
op[lazy]: TEXT "<c>"
TEXT: /(.|\n)*/
"""
GRAMMARS: dict[str, Any] = {
    "optional end": "start: /ab?/",
    "forced and free": 'start: "foo" /[a-z]{1,3}/ " bar"',
    "forced in part": "start: /(foo[12]23|bar)/",
    "text": r'start: /[^a]{3,10}/ "abc" /.../',
    "nothing": 'start: ""',
    "recursion": 'start: expr\nexpr: "(" expr ")" | "x" | expr "+" expr',
    "ignored": '%llguidance {"allow_initial_skip": true}\nstart: "a" "b"+\n%ignore " "',
    "lazy": CALL,
    "token ids": 'start: "x" <[5]> "y" | <[6,7]>',
    "regex": LLMatcher.grammar_from_regex("[0-9]{3}-[0-9]{4}( x[0-9]+)?"),
    "regex with a slash": LLMatcher.grammar_from_regex("(https?)://[a-z.]+/"),
    "person": schema(PERSON),
    "compact": schema(PERSON, whitespace_flexible=False),
    "as json.dumps": llguidance.JsonCompiler().compile(json.dumps(FLAGS)),
    "whitespace pattern": schema(FLAGS, whitespace_pattern=" ?"),
    "two names that begin alike": schema(ORDER),
    "enum": schema({"type": "array", "items": {"enum": ["red", "green", 1, None, "grün"]}, "minItems": 2}),
    "length": schema({"type": "string", "minLength": 2, "maxLength": 6}),
    "pattern": schema({"type": "string", "pattern": "^[a-c]+x$"}),
    "nested": schema({"type": "array", "items": {"type": ["string", "boolean", "null", "array"]}, "maxItems": 3}),
    "schema in Lark": f'start: "<t>" %json {json.dumps(FLAGS)} "</t>"',
    "grammars by name": {
        "grammars": [
            {"name": "main", "lark_grammar": 'start: "x" @flag "y" | @word'},
            {"name": "flag", "json_schema": {"type": "boolean"}},
            {"name": "word", "lark_grammar": "start: /[a-z]+/"},
        ]
    },
    "max_tokens": {"grammars": [{"lark_grammar": "start: /[ab]*/"}], "max_tokens": 2},
    "tags": llguidance.StructTag.to_grammar(
        [
            llguidance.StructTag(trigger="<func", begin="<func=foo>", grammar={"type": "array"}, end="</func>"),
            llguidance.StructTag(trigger="<func", begin="<func=bar>", grammar="start: /[0-9]+/", end="</func>"),
        ]
    ),
}
GRAMMARS["special tokens"] = 'start: <|tool|> "abc" | "x" <|user|> "y" <|/tool|>'
BYTES_ONLY = {"special tokens"}
NOT_BACK = {"token ids"}
"""llguidance counts the bytes of a token that was named by its id, and so goes back to a wrong place."""


class Run:
    """Random calls on both sides."""

    def __init__(self, name: str, vocabulary: str, seed: int) -> None:
        self.choose = Random(f"{name} {vocabulary} {seed}")
        self.goes_back = name not in NOT_BACK
        self.tokenizer, self.other = ours(vocabulary), theirs(vocabulary)
        self.size = self.tokenizer.vocab_size
        self.here = LLMatcher(self.tokenizer, GRAMMARS[name])
        self.there = peer.LLMatcher(self.other, GRAMMARS[name], log_level=0)
        self.log: list[Any] = []

    def run(self, steps: int) -> None:
        for _ in range(steps):
            assert state(self.here) == state(self.there), self.log
            allowed = bits(self.here, self.size)
            assert allowed == bits(self.there, self.size), self.log
            assert self.here.compute_ff_tokens() == self.there.compute_ff_tokens(), self.log
            assert self.here.compute_ff_bytes() == self.there.compute_ff_bytes(), self.log
            self.log.append(self.call(allowed))
            results = [self.apply(side, *self.log[-1]) for side in (self.here, self.there)]
            assert results[0] == results[1], self.log

    def token(self, allowed: list[int]) -> int:
        if allowed and self.choose.random() < 0.85:
            return self.choose.choice(allowed)
        return self.choose.choice((self.choose.randrange(self.size), self.tokenizer.eos_token, self.size + 3))

    def call(self, allowed: list[int]) -> tuple[str, Any]:
        back = (2, 1) if self.goes_back else (0, 0)
        kinds = ("one", "several", "try", "validate", "copy", "back", "reset")
        kind = self.choose.choices(kinds, (10, 2, 2, 2, 1, *back))
        if kind[0] == "back":
            return "back", self.choose.choice((0, 1, 2, 3, 9))
        tokens = [self.token(allowed) for _ in range(1 if kind[0] == "one" else self.choose.randint(0, 3))]
        ends = [place for place, token in enumerate(tokens[:-1]) if token == self.tokenizer.eos_token]
        return kind[0], tokens[: ends[0] + 1] if ends else tokens  # after an end token, llguidance may go on

    def apply(self, side: Any, kind: str, value: Any) -> Any:
        if kind == "one":
            return side.consume_token(value[0])
        if kind == "several":
            return side.consume_tokens(value)
        if kind == "try":
            return side.try_consume_tokens(value)
        if kind == "validate":
            return side.validate_tokens(value)
        if kind == "back":
            return side.rollback(value)
        if kind == "reset":
            return side.reset()
        copy = side.deep_copy()
        copy.consume_token(0)
        return copy.get_error() == ""


@pytest.mark.parametrize("vocabulary", ["byte", "llama2"])
@pytest.mark.parametrize("name", GRAMMARS)
def test_random_calls(name: str, vocabulary: str) -> None:
    if name in BYTES_ONLY and vocabulary != "byte":
        pytest.skip("this vocabulary has no such special tokens")
    for seed in range(8 if vocabulary == "byte" else 2):
        Run(name, vocabulary, seed).run(20)


@pytest.mark.soak
@pytest.mark.parametrize("name", [name for name in GRAMMARS if name not in BYTES_ONLY])
def test_random_calls_with_128000_tokens(name: str) -> None:
    for seed in range(10):
        Run(name, "llama3_1", seed).run(25)


TEXTS = [
    '{"name": "Ada", "age": 36, "ok": true}',
    '{"name":"Zoë \\n \\u0007 \U0001f600","age":-1}',
    '{ "name" : "a" ,\n"age" :\t0 }',
]


@pytest.mark.parametrize("vocabulary", ["llama2", "qwen3"])
@pytest.mark.parametrize("text", TEXTS)
def test_masks_along_a_text(text: str, vocabulary: str) -> None:
    here, there = LLMatcher(ours(vocabulary), schema(PERSON)), peer.LLMatcher(theirs(vocabulary), schema(PERSON))
    ids = theirs(vocabulary).tokenize_str(text)
    assert ours(vocabulary).tokenize_str(text) == ids
    for token in ids:
        assert bits(here, ours(vocabulary).vocab_size) == bits(there, ours(vocabulary).vocab_size)
        assert here.consume_token(token)
        assert there.consume_token(token)
    assert state(here) == state(there)
    assert here.is_accepting()


DIFFERENCES: dict[str, tuple[Any, str, str, str]] = {
    # grammar, text, here, llguidance
    "all readings, where llguidance takes the longest terminal": (
        'start: A "a"\nA: /a+/',
        "aa",
        "sentence",
        "beginning",
    ),
    "what is ignored may stand at the start": ('start: "a"\n%ignore " "', " a", "sentence", "neither"),
    "a lazy quantifier in Lark is lazy": ("start: /<.*?>/", "<a>b>", "neither", "sentence"),
    "word boundaries": (LLMatcher.grammar_from_regex(r"a\b.*"), "a b", "sentence", "refused"),
    "look-ahead in schemas": (schema({"type": "string", "pattern": "^(?!a)"}), '"b"', "sentence", "refused"),
    "not": (schema({"not": {"type": "string"}}), "1", "sentence", "refused"),
    "uniqueItems": (schema({"type": "array", "uniqueItems": True}), "[1,2]", "sentence", "refused"),
    "oneOf that overlaps": (schema({"oneOf": [{"type": "integer"}, {"type": "number"}]}), "1.5", "sentence", "refused"),
    "coerce_one_of does not loosen oneOf": (
        schema({"oneOf": [{"type": "integer"}, {"type": "number"}]}, coerce_one_of=True),
        "1",
        "beginning",
        "sentence",
    ),
    "an unknown format is an annotation": (schema({"type": "string", "format": "foo"}), '"a"', "sentence", "refused"),
    "a name that is almost a keyword": (schema({"additonalProperties": False}), "{}", "refused", "sentence"),
    "additional keys are unique": (schema({"type": "object"}), '{"a":1,"a":2}', "neither", "sentence"),
    "numbers that no double has": (schema({"type": "number"}), "1e999", "neither", "sentence"),
    "numbers in an enum have their forms": (schema({"enum": [1.5]}), "1.50", "neither", "neither"),
    "max_tokens of a rule that is not regular": (
        'start: a\na[max_tokens=3]: "(" a ")" | "x"',
        "x",
        "refused",
        "refused",
    ),
    "parameters": ("start: a::0\na::_: %if _ {}", "", "refused", "refused"),
    "separators": (schema({"type": "array"}, item_separator=" , "), "[1 , 2]", "refused", "sentence"),
    "fewer escapes": (schema({"type": "string"}, json_allowed_escapes='nrt"\\'), '"a"', "refused", "sentence"),
    "grammars that are parts of each other": (
        {
            "grammars": [
                {"name": "a", "lark_grammar": 'start: "x" @b | "e"'},
                {"name": "b", "lark_grammar": 'start: "y" @a'},
            ]
        },
        "xye",
        "refused",
        "sentence",
    ),
    "unknown fields of a grammar": ({"grammars": [{"json_schema": {}, "zz": 1}]}, "1", "refused", "sentence"),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_differences_that_are_meant(name: str) -> None:
    grammar, text, here, there = DIFFERENCES[name]
    assert verdict(ours(), LLMatcher(ours(), grammar), text) == here
    assert verdict(theirs(), peer.LLMatcher(theirs(), grammar, log_level=0), text) == there


def test_an_end_token_that_the_grammar_names_can_be_validated() -> None:
    grammar = 'start: "x" <|end|> "y"'
    here, there = LLMatcher(ours(), grammar), peer.LLMatcher(theirs(), grammar)
    ids = [*b"x", ours().eos_token, *b"y"]
    assert (here.validate_tokens(ids), there.validate_tokens(ids)) == (3, 1)
    assert here.consume_tokens(ids) is there.consume_tokens(ids) is True
    assert here.stop_reason() == there.stop_reason() == "NoExtension"


def test_after_an_end_token_nothing_comes() -> None:
    ids = [*b"a", ours().eos_token, *b"+a"]
    grammar = 'start: "a" ("+" "a")*'
    assert LLMatcher(ours(), grammar).consume_tokens(ids) is False
    assert peer.LLMatcher(theirs(), grammar).consume_tokens(ids) is True


def test_the_same_grammar_texts() -> None:
    for value, options in (
        (PERSON, ()),
        ({**PERSON, "x-guidance": {"lenient": True}}, ({"whitespace_flexible": False},)),
    ):
        here, there = (side.LLMatcher.grammar_from_json_schema(value, *options) for side in (llguidance, peer))
        if options:
            assert json.loads(here) == json.loads(there)
        else:
            assert here == there
    for pattern in ("a/b", r"\d+\/", "a\nb", r"[/]\\"):
        here, there = (side.LLMatcher.grammar_from_regex(pattern) for side in (llguidance, peer))
        assert here == there
        for classes in (None, "", "d", "dws"):
            assert llguidance.regex_to_lark(pattern, classes) == peer.regex_to_lark(pattern, classes)
    assert llguidance.regex_to_lark(r"\d\D\w\W\s\S\.", "dws") == peer.regex_to_lark(r"\d\D\w\W\s\S\.", "dws")
    for choices in ('["a", "b\\"c"]', ["ü", "x"]):
        here, there = (side.grammar_from("choice", choices) for side in (llguidance, peer))
        for text in ("a", 'b"c', "ü", "z"):
            assert verdict(ours(), LLMatcher(ours(), here), text) == verdict(
                theirs(), peer.LLMatcher(theirs(), there), text
            )


GBNF = {
    "words": ('root ::= word (" " word)*\nword ::= [a-z]+ # letters', ["a b", "ab", "a  b", "A", ""]),
    "escapes": (r'root ::= "a\n\x41\u00e9\U0001F600" [\]\\^a-c-] "/"', ["a\nAé😀]/", "a\nAé😀-/", "a\nAé😀b/", "aA"]),
    "counts": ("root ::= ab{2,3} | [0-9]{2} | ab\nab ::= 'x' . ?", ["xx", "x1x2x3", "12", "x", "1", "xx x x x x"]),
    "groups": (
        'root ::= ("a" | ("b" "c")+)? foo-Bar\nfoo-Bar ::= "z" | "(" root ")"',
        ["z", "bcbcz", "(az)", "a(bcz", "b"],
    ),
    "negated": ('root ::= [^a-z"] "\\""*', ['A""', "a", '"', "é"]),
}


@pytest.mark.parametrize("name", GBNF)
def test_gbnf_as_itself_and_as_lark(name: str) -> None:
    """As it is, as narrows' converter writes it, and as llguidance's does."""
    from llguidance.gbnf_to_lark import gbnf_to_lark as their_converter

    from narrows.compat.llguidance.gbnf_to_lark import any_to_lark, gbnf_to_lark

    text, samples = GBNF[name]
    made = gbnf_to_lark(text)
    assert any_to_lark(made) == made
    for sample in samples:
        found = {
            verdict(ours(), LLMatcher(ours(), llguidance.grammar_from("gbnf", text)), sample),
            verdict(ours(), LLMatcher(ours(), made), sample),
            verdict(theirs(), peer.LLMatcher(theirs(), made, log_level=0), sample),
        }
        if name not in ("escapes", "groups", "counts"):  # which llguidance's converter reads otherwise, or refuses
            found.add(verdict(theirs(), peer.LLMatcher(theirs(), their_converter(text), log_level=0), sample))
        assert len(found) == 1, (sample, found, made)


INTERPRETED = {
    "forced": ('start: "ab" /x|y/ "cd"', b"hello", True),
    "without forced tokens": ('start: "ab" /x|y/ "cd"', b"hello", False),
    "free": ("start: /a*/", b"", True),
    "schema": (schema(PERSON, whitespace_flexible=False), b"JSON: ", True),
    "special": ('start: "x" <|tool|> /[0-9]/', b"a", True),
}


@pytest.mark.parametrize("vocabulary", ["byte", "llama2"])
@pytest.mark.parametrize("name", INTERPRETED)
def test_interpreters(name: str, vocabulary: str) -> None:
    if name == "special" and vocabulary != "byte":
        pytest.skip("this vocabulary has no such special token")
    grammar, prompt, forces = INTERPRETED[name]
    for seed in range(6):
        choose = Random(seed)
        here = llguidance.LLInterpreter(ours(vocabulary), grammar, forces, forces)
        there = peer.LLInterpreter(theirs(vocabulary), grammar, forces, forces)
        ids = ours(vocabulary).tokenize_bytes(prompt)
        assert here.process_prompt(ids) == there.process_prompt(ids)
        for _ in range(40):
            (mask, about), (their_mask, their_about) = here.compute_mask(), there.compute_mask()
            assert mask == their_mask
            assert _without_counts(about) == _without_counts(their_about)
            assert here.has_pending_stop() == there.has_pending_stop()
            assert here.is_accepting() == there.is_accepting()
            assert here.stop_reason() == there.stop_reason()
            if mask is None:
                break
            token = choose.choice([i for i, allowed in enumerate(mask) if allowed])
            assert here.validate_tokens_raw([token]) == there.validate_tokens_raw([token])
            assert here.commit_token(token) == there.commit_token(token)
            if choose.random() < 0.3:
                here, there = here.deep_copy(), there.deep_copy()


def _without_counts(about: str) -> Any:
    value = json.loads(about)
    for piece in value["progress"]:
        piece.pop("stats", None)
    value["temperature"] = round(value["temperature"], 3)
    return value


PROMPTS = ["Name: ", "http:", "The answer is", "x = {", "a\n"]


@pytest.mark.parametrize("text", PROMPTS)
def test_prompts_whose_end_is_open(text: str) -> None:
    """What is cut off, and that the model must write it again."""
    for grammar in ('start: "//" /[a-z]+/', "start: / ?[A-Za-z]+/", 'start: "\\n" /[a-z]*/', 'start: "John" /.*/'):
        here = llguidance.LLInterpreter(ours("llama2"), grammar)
        there = peer.LLInterpreter(theirs("llama2"), grammar)
        ids = ours("llama2").tokenize_str(text)
        assert here.process_prompt(ids) == there.process_prompt(ids), grammar
        (mask, _), (their_mask, _) = here.compute_mask(), there.compute_mask()
        assert mask == their_mask, grammar


SAMPLES = [
    "Hello world!",
    "Hello こんにちは！",
    "wave 👋💖",
    "1`a`b`c",
    " a  b\n\n\tc",
    "<s>x</s>",
    "",
    "a<|tool|>b<x>",
]


@pytest.mark.parametrize("vocabulary", ["byte", "llama2", "qwen3"])
def test_tokenizers(vocabulary: str) -> None:
    here, there = ours(vocabulary), theirs(vocabulary)
    assert (here.vocab_size, here.eos_token, here.eos_tokens) == (there.vocab_size, there.eos_token, there.eos_tokens)
    assert here.is_canonical == there.is_canonical
    for text in SAMPLES:
        for parse_special in (False,) if vocabulary == "byte" else (False, True):
            ids = there.tokenize_str(text, parse_special=parse_special)
            assert here.tokenize_str(text, parse_special=parse_special) == ids
            assert here.decode_str(ids) == there.decode_str(ids)
            assert here.decode_bytes(ids) == there.decode_bytes(ids)
            assert here.dbg_tokens(ids) == there.dbg_tokens(ids)
            assert here.test_trace_tokens(ids) == there.test_trace_tokens(ids)
        assert here.greedy_tokenize(text) == there.greedy_tokenize(text)
    for data in (
        b"\x8b",
        b"a\xc3",
        b"\xe2\x82b",
        "é".encode()[1:],
        b"\xff[13]x",
        b"name_of_the_person",
        b" How are you",
    ):
        if b"\xff" not in data:
            assert here.tokenize_bytes(data) == there.tokenize_bytes(data)
        for recent in (None, [], [40, 50]):
            assert here.tokenize_partial(data, recent) == there.tokenize_partial(data, recent)
    for token in (*range(0, here.vocab_size, 97), here.eos_token, here.vocab_size + 1):
        assert here.is_special_token(token) == there.is_special_token(token)
        if here.decode_bytes([token]).isalnum():
            assert here.dbg_tokens([token]) == there.dbg_tokens([token])


def test_tokenizers_of_a_wrapper() -> None:
    class Own:
        tokens = (*[bytes([b]) for b in range(256)], b"<eos>", b"<tool>", b"")
        eos_token_id: int | None = 256
        bos_token_id = None
        special_token_ids = (257,)

        def __call__(self, text: bytes) -> list[int]:
            return list(text)

    for own in (Own(), type("Endless", (Own,), {"eos_token_id": None})()):
        for end in (None, 7, [8, 9]):
            here = llguidance.LLTokenizer(llguidance.TokenizerWrapper(own), eos_token=end)
            there = peer.LLTokenizer(peer.TokenizerWrapper(own), eos_token=end)
            assert (here.vocab_size, here.eos_tokens) == (there.vocab_size, there.eos_tokens)
            assert here.decode_bytes([256, 257, 258]) == there.decode_bytes([256, 257, 258])
            assert here.tokenize_str("aé") == there.tokenize_str("aé")
            assert here.is_canonical is there.is_canonical is True


MISUSES: list[Any] = [
    lambda side: side.LLTokenizer("/nonexistent.json"),
    lambda side: side.LLTokenizer("{}"),
    lambda side: side.LLTokenizer(object()),
    lambda side: side.LLTokenizer(tokenizer_wrapper(side), eos_token=[]),
    lambda side: side.LLTokenizer(tokenizer_wrapper(side), eos_token=999),
    lambda side: side.LLTokenizer(tokenizer_wrapper(side), eos_token="x"),
    lambda side: side.LLMatcher("x", "start: /a/"),
    lambda side: matcher(side).consume_token("a"),
    lambda side: matcher(side).unsafe_compute_mask_ptr(0, 36),
    lambda side: matcher(side).unsafe_compute_mask_ptr(3, 36),
    lambda side: matcher(side).unsafe_compute_mask_ptr(1024, 32),
    lambda side: side.LLMatcher.grammar_from_json_schema("{", {}),
    lambda side: side.LLMatcher.grammar_from_json_schema([1], {}),
    lambda side: side.grammar_from("nope", "x"),
    lambda side: side.grammar_from("gbnf", "root ::= ("),
    lambda side: side.LarkCompiler().compile("start: b"),
    lambda side: side.RegexCompiler().compile("("),
    lambda side: side.JsonCompiler().compile('{"type": "foo"}'),
    lambda side: side.LLInterpreter(tokenizer(side), "start: b"),
    lambda side: side.LLInterpreter(tokenizer(side), "start: /a/").process_prompt("x"),
    lambda side: side.LLExecutor().unsafe_compute_mask_ptr([], 1024, 36, 1),
    lambda side: side.LLExecutor().unsafe_compute_mask_ptr([(matcher(side), 3)], 1024, 36, 1),
    lambda side: side.LLExecutor().unsafe_compute_mask_ptr([(matcher(side), 3, 4)], 1024, 36, 1),
    lambda side: side.LLExecutor().unsafe_compute_mask_ptr([1], 1024, 36, 1),
    lambda side: side.LLExecutor().unsafe_compute_mask_ptr_with_draft_token([(matcher(side), 0, [])], 1024, 36, 1),
    lambda side: side.LLExecutor().consume_token_par([]),
    lambda side: side.LLExecutor().consume_token_par([(one := matcher(side), 97), (one, 98)]),
    lambda side: side.LLExecutor().consume_token_par([("x", 97)]),
    lambda side: side.StructTag(trigger="", begin="a", grammar="", end=""),
    lambda side: side.StructTag(trigger="b", begin="a", grammar="", end=""),
    lambda side: side.StructTag.to_grammar([]),
]


def tokenizer(side: Any) -> Any:
    return ours() if side is llguidance else theirs()


def matcher(side: Any) -> Any:
    return side.LLMatcher(tokenizer(side), "start: /a/")


def tokenizer_wrapper(side: Any) -> Any:
    class Own:
        tokens = (*[bytes([b]) for b in range(256)],)
        eos_token_id, bos_token_id = 3, None

        def __call__(self, text: bytes) -> list[int]:
            return list(text)

    return side.TokenizerWrapper(Own())


@pytest.mark.parametrize("misuse", MISUSES)
def test_misuse_raises_the_same_kind_of_error(misuse: Any) -> None:
    with pytest.raises(Exception) as there:  # noqa: PT011
        misuse(peer)
    with pytest.raises(type(there.value)) as here:
        misuse(llguidance)
    assert not isinstance(here.value, ZeroDivisionError) or isinstance(there.value, ZeroDivisionError)


BROKEN = ["", "start: a", '{"grammars":[]}', '{"grammars":[{}]}', '{"x":1}', "start: /[/", 'start: "a" & "b"', "{"]
BROKEN += [
    '{"grammars":[{"json_schema":{},"lark_grammar":"start: /a/"}]}',
    '{"grammars":[{"json_schema":{"type":"x"}}]}',
]
BROKEN += ['{"grammars":[{"lark_grammar":"start: @b"}]}', "start: <|nope|>", "start: <[999]>"]


@pytest.mark.parametrize("grammar", BROKEN)
def test_grammars_that_are_refused(grammar: str) -> None:
    assert theirs()
    for side in (llguidance, peer):
        found = side.LLMatcher(tokenizer(side), grammar, log_level=0)
        assert found.is_error()
        assert found.get_error()
        assert side.LLMatcher.validate_grammar(grammar, tokenizer(side))
        is_error, messages = side.LLMatcher.validate_grammar_with_warnings(grammar, tokenizer(side))
        assert is_error
        assert len(messages) == 1
        assert state(found) == (True, "InternalError", False, True)
        assert bits(found, 262) == [261]
