"""The backend, the checks of requests and the installation, without an engine."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from states import EOS, SIZE, VOCABULARY, constraint
from vllm.exceptions import VLLMValidationError
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.v1.structured_output.backend_types import StructuredOutputOptions

import narrows
from narrows.errors import InputError, LimitError, NarrowsError
from narrows.limits import Limits
from narrows.plugins.vllm import compat, grammar_request
from narrows.plugins.vllm.masking import backend, constraints, request_checks, structured_outputs
from narrows.plugins.vllm.masking.constraints import Constraints, Definition
from narrows.plugins.vllm.masking.stopping_matcher import StoppingMatcher

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
WIDTH = (SIZE + 31) // 32


def bits(row: Any) -> list[int]:
    return [t for t in range(SIZE) if row[t >> 5] >> (t & 31) & 1]


# One sequence: a matcher, compared with an oracle that asks about every token by itself.


class Oracle:
    def __init__(self, regex: str, stops: list[int]) -> None:
        self.regex, self.stops, self.text = regex, stops, []  # type: ignore[var-annotated]

    @property
    def finished(self) -> bool:
        return bool(self.text) and (self.text[-1] == EOS or any(t < 0 for t in self.text))

    def fits(self) -> list[int]:
        matcher = constraint(self.regex).matcher()
        matcher.replay(self.text)
        fitting = [t for t in range(SIZE) if matcher.accepts([t])]
        if matcher.is_accepting:
            return sorted({*fitting, *self.stops})
        without = [t for t in fitting if t not in self.stops]
        return without or fitting


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["[0-9]{1,6}", "(12|3-)*", "1[0-9]{2}-[0-9]"]),
    st.lists(st.sampled_from([0, 2, 13, 39]), max_size=3),
    st.lists(st.integers(0, 99), max_size=12),
    st.randoms(),
)
def test_a_sentence_knows_the_requests_stop_tokens(regex: str, stops: list[int], picks: list[int], random: Any) -> None:
    matcher, oracle = StoppingMatcher(constraint(regex), stops), Oracle(regex, [t for t in stops if t != EOS])
    row = np.zeros(WIDTH, dtype=np.int32)
    for pick in picks:
        matcher.fill_mask(row)
        options = bits(row)
        assert options == oracle.fits()
        drafts = [random.randrange(SIZE) for _ in range(3)] if pick % 2 else [options[pick % len(options)]]
        before = len(matcher)
        count = matcher.accepts(drafts)
        rows = np.zeros((len(drafts) + 1, WIDTH), dtype=np.int32)
        matcher.fill_draft_masks(drafts, rows)
        assert bits(rows[0]) == options
        done = 0
        for index, token in enumerate(drafts):
            if not matcher.accept(token):
                break
            done += 1
            if index < count:
                matcher.fill_mask(row)
                assert bits(rows[index + 1]) == bits(row)
            if matcher.is_finished:
                break
        assert done == count
        matcher.rollback(done)
        assert len(matcher) == before
        token = options[pick % len(options)]
        assert matcher.accept(token)
        oracle.text.append(token)
        if token == EOS or matcher.is_finished:
            break


def test_after_the_end_only_ends_are_allowed() -> None:
    """With `ignore_eos` the model goes on; the text does not."""
    matcher = StoppingMatcher(constraint("[0-9]{1,6}"), [EOS, 39])
    row = np.zeros(WIDTH, dtype=np.int32)
    assert matcher.accept(1)
    for _ in range(3):
        assert matcher.accept(39)
        matcher.fill_mask(row)
        assert bits(row) == [EOS, 39]
    assert not matcher.accept(1)
    matcher.rollback(3)
    matcher.fill_mask(row)
    assert 1 in bits(row)


# Constraints, compiled once.


def test_a_definition_is_compiled_once_by_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Constraints(VOCABULARY)
    compiled: list[Definition] = []
    original = Constraints._compile

    def counted(self: Constraints, definition: Definition) -> narrows.Constraint:
        compiled.append(definition)
        return original(self, definition)

    monkeypatch.setattr(Constraints, "_compile", counted)
    found: list[narrows.Constraint] = []
    threads = [threading.Thread(target=lambda: found.append(kept.get(Definition("regex", "[0-9]+")))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiled) == 1
    assert len({id(one) for one in found}) == 1


def test_what_is_kept_is_bounded_and_failures_are_not_kept() -> None:
    kept = Constraints(VOCABULARY, Limits(grammar_cache_entries=2))
    for text in ("1", "2", "3", "1" * 2_000):
        kept.get(Definition("regex", text))
    assert len(kept) == 2
    for _ in range(2):
        with pytest.raises(NarrowsError):
            kept.get(Definition("regex", "("))
    assert len(kept) == 2


@pytest.mark.parametrize(
    ("definition", "code"),
    [
        (
            Definition(
                "json", '{"type": "array", "contains": {"type": "string"}, "minContains": 2, "uniqueItems": true}'
            ),
            "schema_unsupported",
        ),
        (Definition("json", "{"), "schema_invalid"),
        (Definition("regex", "(a"), "regex_invalid"),
        (Definition("regex", "x"), "not_spellable"),
        (Definition("choice", "[]"), "choice_invalid"),
        (Definition("grammar", "root ::= nothing"), "gbnf_invalid"),
        (Definition("grammar", "just text"), "gbnf_invalid"),
        (Definition("grammar", "start: ("), "lark_invalid"),
        (Definition("json", "[" * 100_000), "limit_reached"),
    ],
)
def test_what_cannot_be_compiled_has_a_code(definition: Definition, code: str) -> None:
    with pytest.raises(NarrowsError) as caught:
        Constraints(VOCABULARY).get(definition)
    assert caught.value.code == code


# The text that asks for calls.


def test_tools_travel_as_text() -> None:
    text = grammar_request.for_tools(
        "hermes_json", [TOOL], {"type": "function", "function": {"name": "f"}}, False, None, "<|im_start|>"
    )
    assert grammar_request.is_for_tools(text)
    read = grammar_request.read(text)
    assert (read.format, read.turn.tools, read.turn.parallel, read.turn.reasoning) == (
        "hermes_json",
        [TOOL],
        False,
        None,
    )
    assert read.turn.prompt == "<|im_start|>"
    assert grammar_request.read(grammar_request.for_tools("mistral", [TOOL])).turn.tool_choice == "required"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ("[]", "/narrows"),
        ('{"format": "/etc/passwd"}', "/narrows/format"),
        ('{"format": "hermes_json", "tools": {}}', "/narrows/tools"),
        ('{"format": "hermes_json", "tools": [1]}', "/narrows/tools/0"),
        ('{"format": "hermes_json", "parallel": 1}', "/narrows/parallel"),
        ('{"format": "hermes_json", "file": "x"}', "/narrows/file"),
        ("[" * 100_000, "/narrows"),
        ("{", "/narrows"),
    ],
)
def test_a_wrong_text_is_refused_with_its_place(body: str, pointer: str) -> None:
    with pytest.raises(InputError) as caught:
        grammar_request.read(f'{{"narrows":{body}}}').grammar()
    assert (caught.value.code, caught.value.pointer) == ("tool_spec_invalid", pointer)


def test_a_long_text_meets_the_limit() -> None:
    with pytest.raises(LimitError) as caught:
        grammar_request.read(grammar_request.for_tools("hermes_json", [TOOL]), Limits(schema_bytes=20))
    assert caught.value.limit == "schema_bytes"


@pytest.mark.parametrize(
    "extra",
    [{"narrows_regex": 1}, {"narrows_choice": "a"}, {"narrows_regex": "a", "narrows_json": "{}"}, {"narrows_": "a"}],
)
def test_wrong_extra_arguments_are_refused(extra: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        constraints.of_extra_args(extra)
    assert caught.value.code == "extra_args_invalid"
    assert constraints.of_extra_args({"someone_elses": {}}) is None


# The backend.


class Inner:
    """Stands for vLLM's own backend."""

    def __init__(self, vllm_config: Any, tokenizer: Any, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        self.compiled: list[Any] = []

    def compile_grammar(self, kind: Any, text: str, stop_token_ids: Any = None) -> str:
        self.compiled.append((kind, text))
        return "inner"

    def allocate_token_bitmask(self, count: int) -> torch.Tensor:
        return torch.full((count, WIDTH), -1, dtype=torch.int32)

    def destroy(self) -> None:
        self.compiled = []


def make_backend(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    config = SimpleNamespace(backend=name, disable_any_whitespace=False)
    model = SimpleNamespace(get_vocab_size=lambda: SIZE)
    monkeypatch.setattr(constraints, "of_model", lambda *args: Constraints(VOCABULARY))
    made = backend.standing_in_for(Inner)
    return made(SimpleNamespace(structured_outputs_config=config, model_config=model), tokenizer=None, vocab_size=SIZE)


K = StructuredOutputOptions
ASKED = [
    (K.JSON, '{"type": "integer"}'),
    (K.REGEX, "1+"),
    (K.CHOICE, '["1"]'),
    (K.GRAMMAR, 'root ::= "1"'),
    (K.GRAMMAR, 'start: "1"'),
    (K.STRUCTURAL_TAG, '{"type": "structural_tag", "format": {"type": "regex", "pattern": "1+"}}'),
]


@pytest.mark.parametrize(
    ("name", "switch", "ours"),
    [
        ("narrows", "", True),
        ("auto", "", False),
        ("auto", "1", True),
        ("xgrammar", "1", False),
        ("guidance", "1", False),
    ],
)
def test_what_goes_to_narrows(name: str, switch: str, ours: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the flag nothing but our own tool calls; with it everything."""
    monkeypatch.setenv(backend.SWITCH, switch)
    made = make_backend(name, monkeypatch)
    found = [made.compile_grammar(kind, text, stop_token_ids={EOS}) for kind, text in ASKED]
    assert [one != "inner" for one in found] == [ours] * len(ASKED)
    with pytest.raises(NarrowsError) as caught:  # this vocabulary cannot spell a call, but it is narrows that says so
        made.compile_grammar(K.GRAMMAR, grammar_request.for_tools("hermes_json", [TOOL]))
    assert caught.value.code == "not_spellable"


def test_a_grammar_in_vllms_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_backend("narrows", monkeypatch)
    bitmask = made.allocate_token_bitmask(4)
    assert bitmask.shape == (4, WIDTH)
    first, second = (made.compile_grammar(K.REGEX, "12?3") for _ in range(2))
    assert first.accept_tokens("a", [2])
    first.fill_bitmask(bitmask, 1)
    second.fill_bitmask(bitmask, 2)
    assert [bits(row.numpy()) for row in bitmask[1:3]] == [[3, 4], [2, 11]]
    assert first.validate_tokens([3, 4, 5]) == [3, 4]
    assert first.accept_tokens("a", [3, 4, EOS])
    first.rollback(3)
    assert not first.accept_tokens("a", [9])
    assert not first.is_terminated()
    first.reset()
    first.fill_bitmask(bitmask, 1)
    assert bits(bitmask[1].numpy()) == [2, 11]


def test_a_limit_in_the_middle_of_a_text_fails_that_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_backend("narrows", monkeypatch)
    bitmask = made.allocate_token_bitmask(1)
    grammar, other = (made.compile_grammar(K.REGEX, "[0-9]+") for _ in range(2))

    def raises(row: Any) -> None:
        raise LimitError("too much", limit="step_work")

    monkeypatch.setattr(
        grammar, "matcher", SimpleNamespace(fill_mask=raises, fill_ends=StoppingMatcher(constraint("1")).fill_ends)
    )
    grammar.fill_bitmask(bitmask, 0)
    assert bits(bitmask[0].numpy()) == [EOS]
    assert not grammar.accept_tokens("a", [EOS])
    assert other.accept_tokens("b", [1])


# Objects that do not say `additionalProperties`.

OPEN = '{"type": "object", "properties": {"1": {"type": "integer"}}}'


def closes(made: narrows.Constraint) -> bool:
    matcher = made.matcher()
    assert matcher.accept_bytes(b'{"1":1')
    return not matcher.accept_bytes(b',"2":2}')


LETTERS = narrows.Vocabulary([bytes([b]) for b in range(256)] + [b""], special={"<end>": 256}, eos=[256])


def compiled(definition: Definition) -> narrows.Constraint:
    return LETTERS.compile(definition.grammar(Limits()))


@pytest.mark.parametrize(
    ("environment", "asked", "closed"),
    [
        ("", None, True),
        ("declared", None, True),
        ("standard", None, False),
        ("", "standard", False),
        ("standard", "declared", True),
    ],
)
def test_objects_are_closed_unless_the_standard_is_asked_for(
    environment: str, asked: str | None, closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the environment for all requests, by `narrows_additional` for one: in structured outputs, extra arguments and tool calls."""
    monkeypatch.setenv(constraints.ADDITIONAL, environment)
    known = Constraints(LETTERS)
    monkeypatch.setattr(constraints, "of_model", lambda *args: known)
    extra = {constraints.ADDITIONAL_ARG: asked} if asked is not None else {}
    config, model = structured_outputs_config("narrows"), SimpleNamespace(is_diffusion=False)
    for schema in (OPEN, json.loads(OPEN)):
        params = SamplingParams(structured_outputs=StructuredOutputsParams(json=schema), extra_args=extra or None)
        for _ in range(2):  # an object of Python's may be used again
            request_checks.check_structured_outputs(None, params, model, config, object())
        text = params.structured_outputs.json
        text = text if isinstance(text, str) else json.dumps(text)
        # What vLLM hands to the engine's side: the kind and this text.
        made = backend.standing_in_for(Inner)(
            SimpleNamespace(structured_outputs_config=config, model_config=None), tokenizer=None, vocab_size=257
        )
        grammar = made.compile_grammar(K.JSON, text)
        assert closes(grammar.matcher.matcher.constraint) is closed
    assert len(known) <= 2  # the front end's constraint and the engine's are one, for each way of writing the schema
    found = constraints.of_extra_args({"narrows_json": OPEN, **extra})
    assert found is not None
    assert closes(compiled(found)) is closed
    tool = {"type": "function", "function": {"name": "f", "parameters": json.loads(OPEN)}}
    for text in (grammar_request.for_tools("hermes_json", [tool], additional=asked),):
        matcher = compiled(constraints.of_grammar(text)).matcher()
        assert matcher.accept_bytes(b'<tool_call>\n{"name": "f", "arguments": {"1":1')
        assert matcher.accept_bytes(b',"2":2}') is not closed


def test_vllms_own_flag_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(constraints.ADDITIONAL, "standard")
    config = structured_outputs_config("narrows")
    asked = StructuredOutputsParams(json=OPEN)
    assert backend.definition(asked, config).additional == "standard"
    config.disable_additional_properties = True
    assert backend.definition(asked, config).additional == "declared"
    assert backend.definition(asked, config, {constraints.ADDITIONAL_ARG: "standard"}).additional == "standard"


def test_there_are_two_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {constraints.ADDITIONAL_ARG: "closed"}
    with pytest.raises(InputError, match="narrows_additional") as caught:
        constraints.of_extra_args(wrong)
    assert (caught.value.code, caught.value.pointer) == ("extra_args_invalid", "/vllm_xargs/narrows_additional")
    assert constraints.of_extra_args({constraints.ADDITIONAL_ARG: "standard"}) is None
    with pytest.raises(VLLMValidationError, match="narrows: extra_args_invalid"):
        guard(wrong, None, False, monkeypatch)
    with pytest.raises(InputError, match="additional"):
        grammar_request.read(grammar_request.for_tools("hermes_json", [TOOL], additional="closed"))
    for text in ('{"narrows":{}}', '{"narrows":{"schema":{},"additional":"standard"}}', '{"narrows":', '{"narrows":1}'):
        with pytest.raises(InputError) as caught:
            constraints.of_json(text)
        assert caught.value.code == "tool_spec_invalid"
    monkeypatch.setenv(constraints.ADDITIONAL, "closed")
    with pytest.raises(InputError) as caught:
        constraints.of_json(OPEN)
    assert caught.value.code == "environment_invalid"
    # Requests that are not ours do not meet it.
    assert backend.definition(StructuredOutputsParams(json=OPEN), structured_outputs_config("xgrammar")) is None


# The installation. What it changes stays changed, so it is looked at in a process of its own.


def in_a_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_flag_is_vllms_own() -> None:
    found = in_a_process(
        "from narrows.plugins.vllm.masking.structured_outputs import install\n"
        "assert install() and install()\n"
        "from vllm.engine.arg_utils import AsyncEngineArgs\n"
        "from vllm.utils.argparse_utils import FlexibleArgumentParser\n"
        "parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser())\n"
        "flag = '--structured-outputs-config.backend'\n"
        "print(parser.parse_args([flag, 'narrows']).structured_outputs_config)\n"
        "from vllm.config import StructuredOutputsConfig as Config\n"
        "from vllm.config import VllmConfig\n"
        "print(VllmConfig(structured_outputs_config=Config(backend='narrows', disable_any_whitespace=True)).structured_outputs_config)\n"
        "for wrong in ({'backend': 'nothing'}, {'backend': 'auto', 'disable_any_whitespace': True}):\n"
        "    try: Config(**wrong)\n"
        "    except ValueError: print('refused')\n"
    )
    assert found.count("backend='narrows'") == 2
    assert found.count("refused") == 2


def test_an_unknown_version_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    import vllm.v1.structured_output as module

    before = module.XgrammarBackend
    monkeypatch.setattr(structured_outputs, "_installed", False)
    monkeypatch.setattr(compat, "is_known", lambda: False)
    assert not structured_outputs.install()
    assert not structured_outputs.is_installed()
    assert module.XgrammarBackend is before


def validate(config_backend: str, asked: StructuredOutputsParams, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The check in the front end; what vLLM's own check was called with."""
    called: list[Any] = []
    monkeypatch.setattr(constraints, "of_model", lambda *args: Constraints(VOCABULARY))
    params = SamplingParams(structured_outputs=asked)
    config = structured_outputs_config(config_backend)
    model = SimpleNamespace(is_diffusion=False)
    request_checks.check_structured_outputs(
        lambda *args: called.append(args[2].backend), params, model, config, object()
    )
    return called


def structured_outputs_config(name: str) -> Any:
    from vllm.config import StructuredOutputsConfig

    made = StructuredOutputsConfig()
    made.backend = name  # type: ignore[assignment]
    return made


@pytest.mark.parametrize(
    ("name", "asked", "own_check"),
    [
        ("narrows", {"regex": "1+"}, []),
        ("narrows", {"structural_tag": '{"type": "structural_tag", "format": {"type": "regex", "pattern": "1+"}}'}, []),
        ("narrows", {"grammar": 'start: "1"'}, []),
        ("auto", {"regex": "1+"}, ["auto"]),
        ("guidance", {"regex": "1+"}, ["guidance"]),
    ],
)
def test_whose_check_is_made(
    name: str, asked: dict[str, Any], own_check: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for = StructuredOutputsParams(**asked)
    assert validate(name, asked_for, monkeypatch) == own_check
    if not own_check:
        assert asked_for._backend == "xgrammar"


def test_a_refusal_has_our_code_and_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}
    with pytest.raises(VLLMValidationError) as caught:
        validate("narrows", StructuredOutputsParams(json=json.dumps(schema)), monkeypatch)
    assert caught.value.parameter == "/properties/a/pattern"
    assert "[narrows: " in str(caught.value)


def test_calls_cannot_be_had_beside_every_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = StructuredOutputsParams(grammar=grammar_request.for_tools("hermes_json", [TOOL]))
    with pytest.raises(VLLMValidationError, match=r"outlines.*narrows: backend"):
        validate("outlines", asked, monkeypatch)


def test_where_it_is_not_installed_a_processor_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not known whether vLLM would apply it, a constraint is not promised."""
    from narrows.plugins.vllm.processors import NarrowsLogitsProcessor

    monkeypatch.setattr(structured_outputs, "_installed", False)
    NarrowsLogitsProcessor.validate_params(SamplingParams(extra_args={"other": 1}))
    with pytest.raises(VLLMValidationError, match="narrows: processor_skipped"):
        NarrowsLogitsProcessor.validate_params(SamplingParams(extra_args={"narrows_regex": "1"}))


def guard(extra: Any, speculative: Any, v2: bool, monkeypatch: pytest.MonkeyPatch, **params: Any) -> None:
    monkeypatch.setattr(constraints, "of_model", lambda *args: Constraints(VOCABULARY))
    config = SimpleNamespace(speculative_config=speculative, use_v2_model_runner=v2, model_config=None)
    front_end = SimpleNamespace(vllm_config=config, get_tokenizer=lambda: None)
    request_checks.check_extra_args(SamplingParams(extra_args=extra, **params), front_end)


def test_the_guard_knows_what_vllm_would_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    guard({"narrows_regex": "1"}, None, False, monkeypatch)
    guard({"narrows_regex": "1"}, object(), True, monkeypatch)
    guard({"other": 1}, object(), False, monkeypatch)
    with pytest.raises(VLLMValidationError, match="narrows: processor_skipped"):
        guard({"narrows_regex": "1"}, object(), False, monkeypatch)
    with pytest.raises(VLLMValidationError, match="narrows: regex_invalid"):
        guard({"narrows_regex": "("}, None, False, monkeypatch)
    both = StructuredOutputsParams(regex="1")
    with pytest.raises(VLLMValidationError, match="narrows: two_constraints"):
        guard({"narrows_regex": "1"}, None, False, monkeypatch, structured_outputs=both)


def test_the_event_loop_does_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM checks chat requests on its event loop; by then the constraint is there, or the request is refused."""
    known, threads = Constraints(VOCABULARY), []
    original = Constraints._compile

    def compile_in(self: Constraints, definition: Definition) -> narrows.Constraint:
        threads.append(threading.current_thread())
        return original(self, definition)

    monkeypatch.setattr(constraints, "of_model", lambda *args: known)
    monkeypatch.setattr(Constraints, "_compile", compile_in)
    config = SimpleNamespace(structured_outputs_config=structured_outputs_config("narrows"), model_config=None)
    front_end = SimpleNamespace(vllm_config=config, tokenizer=object())
    asked = StructuredOutputsParams(regex="1+")
    asyncio.run(request_checks.compile_ahead(SamplingParams(structured_outputs=asked), front_end))
    asyncio.run(request_checks.compile_ahead(SamplingParams(extra_args={"narrows_regex": "12"}), front_end))
    asyncio.run(request_checks.compile_ahead(SamplingParams(), front_end))
    with pytest.raises(VLLMValidationError, match="narrows: regex_invalid"):
        asyncio.run(request_checks.compile_ahead(SamplingParams(extra_args={"narrows_regex": "("}), front_end))
    assert len(threads) == 3
    assert threading.main_thread() not in threads
    model = SimpleNamespace(is_diffusion=False)
    params = SamplingParams(structured_outputs=asked)
    request_checks.check_structured_outputs(None, params, model, config.structured_outputs_config, object())
    assert len(threads) == 3


def test_mistrals_own_tokenizer_is_read() -> None:
    """Tekken counts its special tokens first; each text's bytes are the bytes of its tokens."""
    from pathlib import Path

    import mistral_common
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    from narrows.plugins.vllm import vocabulary

    path = Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
    if not path.exists():
        pytest.skip("mistral-common has no tokenizer in it here")
    tekken = Tekkenizer.from_file(path)
    model = SimpleNamespace(get_vocab_size=lambda: tekken.n_words, try_get_generation_config=dict)
    tokenizer = SimpleNamespace(is_tekken=True, tokenizer=tekken, eos_token_id=tekken.eos_id)
    vocab = vocabulary.of_model(tokenizer, model)
    assert vocab.eos_ids == (tekken.eos_id,)
    assert "[TOOL_CALLS]" in vocab.special
    for text in ('{"city": "Paris"}', "Größe 北京 🏳️‍🌈\n\t"):
        assert b"".join(vocab.token_bytes(t) for t in tekken.encode(text, False, False)) == text.encode()
