"""The embedded engine on real weights: the small model, some 10 ms a token, so few tokens each."""

from __future__ import annotations

import gc
import importlib.machinery
import importlib.util
import json
import threading
import time

import jsonschema_rs
import numpy as np
import pytest

import narrows
from narrows.engines.api import LogitsProcessorFactory, Output, Request, SamplingParams
from narrows.engines.guide import Guide
from narrows.engines.llama_cpp import LlamaCppEngine, library
from narrows.engines.llama_cpp.model import LlamaModel
from narrows.engines.llama_cpp.options import model_options
from narrows.engines.sequence import Sequence
from narrows.errors import EngineError, InputError, LimitError, TokenError

pytestmark = pytest.mark.model

numbers = iter(range(10**9))


def chat(engine, text):
    turns = [("system", "You are a helpful assistant."), ("user", text)]
    rendered = (
        "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in turns) + "<|im_start|>assistant\n"
    )
    return engine.encode(rendered, parse_special=True)


def start(engine, prompt, n=1, **options):
    names = ("parser_factory", "logits_processors", "constraint", "token_healing", "output_token_ids", "strategies")
    fields = {k: options.pop(k) for k in names if k in options}
    request = Request(
        request_id=f"request-{next(numbers)}",
        prompt_token_ids=prompt,
        n=n,
        sampling=SamplingParams(**options),
        **fields,
    )
    return engine.generate(request)


def collect(stream, n=1):
    outputs = [Output(index=i) for i in range(n)]
    for output in stream:
        assert outputs[output.index].finish_reason is None
        outputs[output.index].merge(output)
    assert all(o.finish_reason for o in outputs)
    return outputs


def test_text_tokens_and_log_probabilities_agree(engine):
    prompt = engine.encode("The capital city of the country called France is")
    (output,) = collect(start(engine, prompt, temperature=0, max_tokens=8, logprobs=3))
    assert output.text.startswith(" Paris")
    assert engine.decode(output.token_ids) == output.text
    assert output.finish_reason == "length"
    assert [p.token_id for p in output.logprobs] == output.token_ids
    assert all(p.rank == 1 and p.top[0] == (p.token_id, p.logprob) and p.logprob < 0 for p in output.logprobs)


def test_n_and_later_requests_share_what_is_computed(engine):
    prompt = chat(engine, "Name a fruit. " + "It should be sweet and ripe. " * 6)
    before = engine.stats()
    outputs = collect(start(engine, prompt, n=4, seed=1, max_tokens=3), 4)
    assert len({tuple(o.token_ids) for o in outputs}) > 1
    assert [o.cached_tokens for o in outputs].count(len(prompt) - 1) >= 3
    (again,) = collect(start(engine, [*prompt, 100], seed=1, max_tokens=1))
    assert again.cached_tokens == len(prompt)
    after = engine.stats()
    computed = (after.prompt_tokens_total - before.prompt_tokens_total) - (
        after.cached_tokens_total - before.cached_tokens_total
    )
    assert computed <= len(prompt) + 4


def test_a_prefix_is_still_there_when_many_others_have_run(engine):
    """As the tools of a second request are. What comes back has the same bits as what was computed."""
    prompt = chat(engine, "Name a bird. " + "It should be small and sing well. " * 6)
    (first,) = collect(start(engine, prompt, temperature=0, max_tokens=4, logprobs=1))
    for i in range(24):
        collect(start(engine, [600 + i, 700 + i], max_tokens=1))
    (again,) = collect(start(engine, prompt, temperature=0, max_tokens=4, logprobs=1))
    assert again.cached_tokens == len(prompt) - 1
    assert [p.logprob for p in again.logprobs] == [p.logprob for p in first.logprobs]
    stats = engine.stats()
    assert stats.kept_bytes > 20_000 * stats.kv_kept


TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 10}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def mixed_load(engine):
    """Free texts, regular expressions and tool calls at once; each sequence's tokens, events and reason."""
    tools = [TOOL]
    hermes = narrows.formats.get("hermes_json")
    call = engine.vocabulary.compile(
        hermes.grammar(tools, tool_choice="required", parallel=False, reasoning=None, vocab=engine.vocabulary)
    )
    code = engine.vocabulary.compile(narrows.Grammar.from_regex("[A-Z]{2}[0-9]{3,6}"))

    def parser(index):
        return hermes.parser(
            tools,
            tool_choice="required",
            parallel=False,
            vocab=engine.vocabulary,
            id_factory=lambda i: f"call-{index}-{i}",
        )

    streams = []
    for i, name in enumerate(("Oslo", "Rome", "Lima")):
        prompt = chat(engine, f"What is the weather in {name}? Say its name.")
        streams.append((1, start(engine, prompt, seed=i, temperature=0.9, max_tokens=20)))
        streams.append((2, start(engine, prompt, n=2, seed=i, max_tokens=20, constraint=code)))
        streams.append((1, start(engine, prompt, temperature=0, max_tokens=64, constraint=call, parser_factory=parser)))
    return [collect(stream, n) for n, stream in streams]


def test_the_same_in_a_crowd_alone_and_under_a_cache_too_small_for_all(engine, model_path):
    crowd = mixed_load(engine)
    for free, codes, (call,) in zip(crowd[0::3], crowd[1::3], crowd[2::3], strict=True):
        assert free[0].text
        for output in codes:
            assert output.finish_reason == "stop"
            assert output.text[:2].isupper()
            assert output.text[2:].isdigit()
            assert 5 <= len(output.text) <= 8
        begin, *pieces, end = call.events
        assert (begin.name, begin.id, end.complete, call.finish_reason) == ("get_weather", "call-0-0", True, "stop")
        arguments = json.loads("".join(p.text for p in pieces))
        assert jsonschema_rs.is_valid(TOOL["function"]["parameters"], arguments)
    prompt = chat(engine, "What is the weather in Rome? Say its name.")
    (alone,) = collect(start(engine, prompt, seed=1, temperature=0.9, max_tokens=20))
    assert alone.token_ids == crowd[3][0].token_ids
    with LlamaCppEngine(model_path, n_ctx=120, prefix_cache_tokens=40) as small:
        squeezed = mixed_load(small)
        assert small.stats().preemptions_total > 0
    for expected, found in zip(crowd, squeezed, strict=True):
        for a, b in zip(expected, found, strict=True):
            assert (a.token_ids, a.text, a.finish_reason) == (b.token_ids, b.text, b.finish_reason)
            assert _joined(a.events) == _joined(b.events)


def _joined(events):
    """Events with neighbours of one kind joined: where they are cut depends on when they were taken."""
    joined = []
    for event in events:
        text = getattr(event, "text", None)
        if joined and text is not None and joined[-1][0] is type(event):
            joined[-1][1] += text
        else:
            joined.append([type(event), text if text is not None else repr(event)])
    return joined


def test_constraints_parsers_and_processors_on_real_tokens(engine):
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 12},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
        },
        "required": ["city", "days"],
        "additionalProperties": False,
    }
    by_schema = engine.vocabulary.compile(narrows.Grammar.from_json_schema(schema))
    by_regex = engine.vocabulary.compile(narrows.Grammar.from_regex("[0-9]{3}-[a-z]{2,4}"))
    prompt = chat(engine, "The weather in Oslo for three days, as JSON.")
    first = start(engine, prompt, n=3, seed=2, max_tokens=60, constraint=by_schema)
    second = start(engine, prompt, n=3, seed=2, max_tokens=60, constraint=by_regex)
    for output in collect(first, 3):
        assert output.finish_reason == "stop"
        assert jsonschema_rs.is_valid(schema, json.loads(output.text))
    for output in collect(second, 3):
        assert output.finish_reason == "stop"
        assert output.text[:3].isdigit()
        assert output.text[3] == "-"
        assert 2 <= len(output.text[4:]) <= 4


def test_a_constraint_ends_where_nothing_may_follow_even_if_ends_are_ignored(engine):
    constraint = engine.vocabulary.compile(narrows.Grammar.from_regex("yes|no"))
    (output,) = collect(start(engine, chat(engine, "Yes or no?"), constraint=constraint, ignore_eos=True, min_tokens=9))
    assert output.text in ("yes", "no")
    assert output.finish_reason == "stop"


def test_processors_see_the_output_and_work_on_a_copy(engine):
    seen = []

    def make():
        def processor(ids, logits):
            seen.append(list(ids))
            logits[:] = -np.inf
            logits[100 + len(ids)] = 0
            return logits

        return processor

    (output,) = collect(start(engine, [504], n=1, max_tokens=3, logits_processors=[LogitsProcessorFactory(make)]))
    assert output.token_ids == [100, 101, 102]
    assert seen == [[], [100], [100, 101]]


def test_stop_texts_and_half_characters(engine):
    prompt = engine.encode("one two three four five six seven eight nine")
    stream = start(engine, prompt, temperature=0, max_tokens=20)
    (free,) = collect(stream)
    stop = free.text[5:9]
    (output,) = collect(start(engine, prompt, temperature=0, max_tokens=20, stop=(stop,)))
    assert output.text == free.text[: free.text.index(stop)]
    assert (output.finish_reason, output.stop_reason) == ("stop", stop)
    emoji = engine.encode("😀é")
    force = [
        lambda ids, x: np.where(np.arange(x.size) == emoji[min(len(ids), len(emoji) - 1)], 0, -np.inf).astype(
            np.float32
        )
    ]
    pieces = [o.text for o in start(engine, prompt, max_tokens=len(emoji), logits_processors=force)]
    assert "".join(pieces) == "😀é"
    assert "\ufffd" not in "".join(pieces)


def test_leaving_during_a_long_prompt_frees_the_engine_soon(engine):
    before = engine.stats().steps_total
    stream = start(engine, [(i * 7) % 40_000 for i in range(3_000)], max_tokens=1)
    time.sleep(0.2)
    stream.close()
    collect(start(engine, [504], max_tokens=1))
    assert engine.stats().steps_total - before < 25, "the whole prompt takes 48 steps"


def test_abort_by_id_delivers_what_was_written(engine):
    request = Request(
        request_id="to-abort", prompt_token_ids=[504], sampling=SamplingParams(temperature=0, ignore_eos=True)
    )
    stream = engine.generate(request)
    output = next(stream)
    with pytest.raises(InputError) as caught:
        engine.generate(request)
    assert caught.value.code == "request_id_in_use"
    engine.abort("to-abort")
    engine.abort("unknown")
    for later in stream:
        output.merge(later)
    assert output.finish_reason == "abort"
    assert engine.decode(output.token_ids) == output.text


@pytest.mark.parametrize(
    ("fields", "kind", "code"),
    [
        ({"prompt_token_ids": []}, InputError, "prompt_empty"),
        ({"prompt_token_ids": [-1]}, TokenError, "token_out_of_range"),
        ({"prompt_token_ids": [49152]}, TokenError, "token_out_of_range"),
        ({"prompt_token_ids": ["a"]}, InputError, "token_invalid"),
        ({"prompt_token_ids": [2**70]}, InputError, "token_invalid"),
        ({"prompt_token_ids": [1] * 4096}, LimitError, "context_length_exceeded"),
        ({"sampling": SamplingParams(max_tokens=4096)}, LimitError, "context_length_exceeded"),
        ({"sampling": SamplingParams(stop_token_ids=(10**6,))}, TokenError, "token_out_of_range"),
        ({"sampling": SamplingParams(logit_bias={-5: 1.0})}, TokenError, "token_out_of_range"),
        ({"n": 0}, InputError, "sampling_params_invalid"),
        ({"n": 10_000}, LimitError, "queue_full"),
    ],
)
def test_what_can_be_refused_is_refused_at_once(engine, fields, kind, code):
    with pytest.raises(kind) as caught:
        engine.generate(Request(**({"request_id": "refused", "prompt_token_ids": [1]} | fields)))
    assert caught.value.code == code


def test_a_constraint_of_another_vocabulary_is_refused(engine):
    other = narrows.Vocabulary([b"a", b"b", b""], special={"<end>": 2}, eos=[2])
    constraint = other.compile(narrows.Grammar.from_regex("a*"))
    with pytest.raises(InputError) as caught:
        start(engine, [1], constraint=constraint)
    assert caught.value.code == "vocabulary_mismatch"


def test_texts_of_strangers(engine):
    assert engine.encode("<|im_end|>", parse_special=True) == [2]
    assert 2 not in engine.encode("<|im_end|>")
    for text in ("", "\x00", "é😀", "a" * 40_000, "<|im_end|>\n"):
        assert engine.decode(engine.encode(text)) == text
    with pytest.raises(InputError) as caught:
        engine.encode("ab\ud800")
    assert (caught.value.code, caught.value.offset) == ("text_not_unicode", 2)
    with pytest.raises(LimitError) as caught:
        engine.encode("a" * 10_000_000)
    assert caught.value.code == "context_length_exceeded"


def test_the_vocabulary_agrees_with_llama_cpp(engine, model_path):
    options = model_options(library.load_library(), n_batch=8, n_threads=1)
    model = LlamaModel(model_path, n_ctx=256, n_batch=8, n_seq_max=1, n_outputs=1, options=options)
    vocabulary = engine.vocabulary
    assert vocabulary.size == model.vocab_size
    # llama.cpp also takes <reponame> for an end, by a list of names; the file does not say so.
    assert {i for i in range(vocabulary.size) if model.ends(i)} - {vocabulary.special["<reponame>"]} == set(
        vocabulary.eos_ids
    )
    assert all(vocabulary.token_bytes(i) == model.piece(i) for i in range(vocabulary.size))
    model.close()
    with pytest.raises(EngineError) as caught:
        model.encode("closed")
    assert caught.value.code == "engine_closed"


def test_encoding_and_statistics_may_be_asked_from_any_thread(engine):
    failures = []

    def ask():
        try:
            for _ in range(50):
                assert engine.decode(engine.encode("The quick brown fox")) == "The quick brown fox"
                engine.stats()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    collect(start(engine, [504], max_tokens=5))
    for thread in threads:
        thread.join()
    assert not failures


def test_a_closed_engine_says_so(model_path):
    engine = LlamaCppEngine(model_path, n_ctx=256)
    engine.check_health()
    engine.close()
    engine.close()
    for call in (engine.check_health, lambda: engine.encode("x"), lambda: start(engine, [1])):
        with pytest.raises(EngineError) as caught:
            call()
        assert caught.value.code == "engine_closed"


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(EngineError) as caught:
        LlamaCppEngine(tmp_path / "none.gguf")
    assert caught.value.code == "model_missing"
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(EngineError) as caught:
        LlamaCppEngine(tmp_path / "broken.gguf")
    assert caught.value.code == "model_invalid"


class Refusing:
    """A logits processor that fails at the third token."""

    def __call__(self, token_ids, logits):
        if len(token_ids) > 2:
            raise ValueError("enough")
        return logits


@pytest.mark.parametrize("way", ["the constraint", "a processor", "n of them"])
def test_a_sequence_that_fails_is_let_go_without_the_collector(engine, way):
    """Its error held the frames that held it, and so a constraint of megabytes, until Python looked for cycles."""
    limits = narrows.Limits(sequence_work=5_000)
    long = narrows.Grammar.from_regex("([a-z]{3,9} (very |quite )?){200}")
    options = {"constraint": engine.vocabulary.compile(long, limits)}
    if way != "the constraint":
        options["logits_processors"] = [LogitsProcessorFactory(Refusing)]
    gc.collect()
    gc.disable()
    try:
        held = len(sequences_and_guides())
        n = 3 if way == "n of them" else 1
        outputs = collect(start(engine, engine.encode("Say:"), n=n, max_tokens=400, **options), n)
        assert {output.finish_reason for output in outputs} == {"error"}
        del outputs, options
        until = time.monotonic() + 60
        while len(sequences_and_guides()) > held and time.monotonic() < until:
            time.sleep(0.01)
        assert len(sequences_and_guides()) <= held
    finally:
        gc.enable()


def sequences_and_guides():
    return [o for o in gc.get_objects() if type(o) in (Guide, Sequence)]


@pytest.mark.parametrize(
    ("option", "value", "code"),
    [
        ("n_ctx", 1, "engine_option_invalid"),
        ("max_model_len", 1, "engine_option_invalid"),
        ("max_model_len", 0, "engine_option_invalid"),
        ("max_model_len", -5, "engine_option_invalid"),
        ("max_num_seqs", 0, "engine_option_invalid"),
        ("max_num_seqs", 1_000, "engine_option_invalid"),
        ("n_threads", 0, "engine_option_invalid"),
        ("n_threads", -1, "engine_option_invalid"),
        ("n_batch", 3, "engine_option_invalid"),
        ("prefill_chunk", 0, "engine_option_invalid"),
        ("max_queue", -1, "engine_option_invalid"),
        ("n_threads", "4", "wrong_type"),
        ("max_num_seqs", None, "wrong_type"),
        ("n_ctx", 4096.0, "wrong_type"),
    ],
)
def test_an_option_out_of_range_is_refused_before_the_model_is_read(tmp_path, option, value, code):
    with pytest.raises(InputError) as caught:
        LlamaCppEngine(tmp_path / "none.gguf", **{option: value})
    assert caught.value.code == code
    assert option in str(caught.value)


def test_another_memory_layout_is_refused(monkeypatch):
    found = library.load_library()
    assert found.source in ("explicit", "llama_cpp", "xllamacpp")

    class Shifted(library.C.Structure):
        _fields_ = (("new_field", library.C.c_int32), *library.ContextParams._fields_)

    monkeypatch.setattr(library, "ContextParams", Shifted)
    with pytest.raises(EngineError) as caught:
        library._open("explicit", found.path, None)
    assert caught.value.code == "llama_abi_mismatch"


def test_a_folder_that_has_the_name_of_the_bindings_is_passed_over(monkeypatch, tmp_path):
    (tmp_path / "llama_cpp").mkdir()
    spec = importlib.machinery.PathFinder.find_spec("llama_cpp", [str(tmp_path)])
    assert spec is not None
    real = importlib.util.find_spec
    monkeypatch.delenv(library.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setattr(library.importlib.util, "find_spec", lambda name: spec if name == "llama_cpp" else real(name))
    assert library.load_library().source == "xllamacpp"


def test_a_library_is_looked_for_in_order(monkeypatch, tmp_path):
    monkeypatch.setenv(library.ENVIRONMENT_VARIABLE, str(tmp_path / "absent.so"))
    with pytest.raises(EngineError) as caught:
        library.load_library()
    assert caught.value.code == "llama_library_missing"
    (tmp_path / "text.so").write_text("not a library")
    with pytest.raises(EngineError) as caught:
        library.load_library(tmp_path / "text.so")
    assert caught.value.code == "llama_library_broken"
    monkeypatch.delenv(library.ENVIRONMENT_VARIABLE)
    monkeypatch.setattr(library.importlib.metadata, "version", lambda name: "2020.1.1")
    monkeypatch.setattr(library.importlib.util, "find_spec", _only("xllamacpp", library.importlib.util.find_spec))
    with pytest.raises(EngineError) as caught:
        library.load_library()
    assert caught.value.code == "llama_abi_mismatch"
    monkeypatch.setattr(library.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineError) as caught:
        library.load_library()
    assert caught.value.code == "llama_library_missing"


def _only(name, find):
    return lambda asked: find(asked) if asked == name else None
