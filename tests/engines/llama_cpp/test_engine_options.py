"""llama.cpp's options on the real small model: they reach the library, and what it cannot do is refused by name."""

from __future__ import annotations

import ctypes as C
import logging

import pytest
from lora_file import write_adapter

from narrows.engines.api import Output, Request, SamplingParams
from narrows.engines.llama_cpp import LlamaCppEngine, library
from narrows.engines.llama_cpp import engine as engine_module
from narrows.engines.llama_cpp.model import LlamaModel
from narrows.engines.llama_cpp.options import CACHE_TYPES, FLASH_ATTENTION, model_options
from narrows.errors import InputError

pytestmark = pytest.mark.model

PROMPT = "The capital city of France is"


def answer(engine, prompt=PROMPT, **sampling):
    params = SamplingParams(**({"temperature": 0, "max_tokens": 8, "logprobs": 1} | sampling))
    output = Output(index=0)
    request = Request(request_id="1", prompt_token_ids=engine.encode(prompt), sampling=params)
    for piece in engine.generate(request):
        output.merge(piece)
    return output


def confidence(output):
    return [each.logprob for each in output.logprobs]


def test_the_numbers_of_types_are_those_of_the_library():
    name_of = C.CFUNCTYPE(C.c_char_p, C.c_int)(("ggml_type_name", library.load_library().handle))
    assert {name_of(number).decode(): number for number in CACHE_TYPES.values()} == CACHE_TYPES


@pytest.mark.parametrize(
    "options",
    [
        {"cache_type_k": "q8_0", "cache_type_v": "q8_0"},
        {"cache_type_k": "q4_0", "cache_type_v": "q4_0", "flash_attn": "on"},
        {"cache_type_k": "f32", "cache_type_v": "bf16"},
        {"flash_attn": "off"},
        {"n_threads": 2, "n_threads_batch": 1},
        {"n_batch": 128, "n_ubatch": 64},
        {"use_mmap": False},
        {"use_mlock": True},
    ],
    ids=str,
)
def test_options_reach_the_library(model_path, options):
    most = 2 if "n_threads" in options else 8  # beside other tests, two threads wait for each other
    with LlamaCppEngine(model_path, n_ctx=512, **options) as engine:
        first = answer(engine, "Paris is the capital of France. " * 8 + PROMPT, max_tokens=most)
        again = answer(engine, "Paris is the capital of France. " * 8 + PROMPT, max_tokens=most)
        assert first.text.startswith(" Paris")
        assert again.token_ids == first.token_ids
        assert confidence(again) == confidence(first), "what was kept is the same bits"
        assert again.cached_tokens > 50
        said = engine.describe()
        assert {name: said[name] for name in options} == options


@pytest.mark.parametrize(
    ("cores", "options", "threads"),
    [
        (1, {}, (1, 1, 1)),
        (2, {}, (1, 2, 1)),
        (4, {}, (3, 4, 3)),
        (64, {}, (8, 8, 8)),
        (2, {"n_threads": 2}, (2, 2, 2)),
        (4, {"n_threads": 1}, (1, 1, 1)),
        (4, {"n_threads_batch": 2}, (3, 2, 2)),
    ],
)
def test_all_cores_compute_for_one_sequence_alone(model_path, monkeypatch, cores, options, threads):
    """Otherwise one core is left for the masks. Who names a number of threads gets no more than that."""
    monkeypatch.setattr(engine_module, "_cores", lambda: cores)
    with LlamaCppEngine(model_path, n_ctx=64, **options) as engine:
        said = engine.describe()
        assert (said["n_threads"], said["n_threads_batch"], said["n_threads_shared"]) == threads


def test_each_step_has_the_threads_for_its_number_of_sequences(model_path, monkeypatch):
    seen, loaded, decode = [], library.load_library(), LlamaModel.decode

    def seeing(model, *batch):
        code = decode(model, *batch)
        seen.append(loaded.llama_n_threads_batch(model._context))
        return code

    monkeypatch.setattr(engine_module, "_cores", lambda: 2)
    monkeypatch.setattr(LlamaModel, "decode", seeing)
    with LlamaCppEngine(model_path, n_ctx=512) as engine:
        answer(engine, max_tokens=2)
        assert set(seen) == {2}
        seen.clear()
        sampling = SamplingParams(temperature=0, max_tokens=8)
        request = Request(request_id="2", prompt_token_ids=engine.encode(PROMPT), sampling=sampling, n=2)
        assert sum(len(piece.token_ids) for piece in engine.generate(request)) == 16
        assert 1 in seen
        seen.clear()
        answer(engine, "Once upon a time", max_tokens=2)
        assert set(seen) == {2}


def test_a_cache_of_bf16_has_the_same_bits_with_any_number_of_threads(model_path):
    """From 257 cells on llama.cpp has another way for f16, one token and several threads."""
    found = []
    for threads in (1, 2):
        options = {"n_threads": threads, "cache_type_k": "bf16", "cache_type_v": "bf16"}
        with LlamaCppEngine(model_path, n_ctx=512, **options) as engine:
            found.append(confidence(answer(engine, "Paris is the capital of France. " * 40 + PROMPT, max_tokens=2)))
    assert found[0] == found[1]


def test_a_quantised_cache_is_smaller_and_computes_something_else(model_path):
    sizes, confidences = [], []
    for name in ("f16", "q8_0", "q4_0"):
        with LlamaCppEngine(model_path, n_ctx=512, cache_type_k=name, cache_type_v=name) as engine:
            confidences.append(confidence(answer(engine)))
            assert engine.drain(10)
            sizes.append(engine.stats().kept_bytes / engine.stats().kv_kept)
    assert sizes[1] / sizes[0] == pytest.approx(34 / 64, rel=0.02)
    assert sizes[2] / sizes[0] == pytest.approx(18 / 64, rel=0.02)
    assert len({tuple(each) for each in confidences}) == 3


@pytest.mark.parametrize(
    ("options", "name", "says"),
    [
        ({"cache_type_k": "q8"}, "cache_type_k", "one of f32, f16"),
        ({"cache_type_v": "q8_0", "flash_attn": "off"}, "cache_type_v", "needs flash attention"),
        ({"flash_attn": "yes"}, "flash_attn", "one of auto, off, on"),
        ({"n_threads": 0}, "n_threads", "from 1 to 512"),
        ({"n_threads_batch": 513}, "n_threads_batch", "from 1 to 512"),
        ({"n_ubatch": 64}, "n_ubatch", "at most n_batch, which is 63"),
        ({"n_batch": 4}, "n_batch", "at least 16"),
        ({"cache_ram": -2}, "cache_ram", "at least -1"),
        ({"lora": ["no-such-file.gguf"]}, "lora", "no such file"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_and_named(model_path, options, name, says):
    with pytest.raises(InputError, match=says) as caught:
        LlamaCppEngine(model_path, n_ctx=512, **options)
    assert (caught.value.code, caught.value.pointer) == ("engine_option_invalid", f"/{name}")


def test_what_llama_cpp_refuses_is_said_in_its_words(model_path, monkeypatch):
    monkeypatch.setitem(CACHE_TYPES, "f16", 16)  # a type that no cache can have
    monkeypatch.setitem(CACHE_TYPES, "q4_0", 16)
    with pytest.raises(InputError, match="llama_init_from_model") as caught:
        LlamaCppEngine(model_path, n_ctx=512, cache_type_k="q4_0")
    assert caught.value.pointer == "/cache_type_k"


def test_layers_for_a_gpu_that_is_not_there_are_a_warning(model_path, caplog):
    if library.load_library().llama_supports_gpu_offload():
        pytest.skip("this library computes on a GPU")
    with caplog.at_level(logging.WARNING), LlamaCppEngine(model_path, n_ctx=512, n_gpu_layers=-1) as engine:
        assert engine.describe()["n_gpu_layers"] == -1
    (record,) = caplog.records
    assert "n_gpu_layers" in record.getMessage()
    assert "CPUs alone" in record.getMessage()


def test_older_releases_have_the_same_options_under_other_fields():
    class Old:
        n_gpu_layers = use_mmap = use_mlock = flash_attn = type_k = type_v = None

    model, context = Old(), Old()
    options = {"n_batch": 8, "n_threads": 1, "use_mmap": False, "use_mlock": True, "flash_attn": "on"}
    checked = model_options(library.load_library(), **options)
    checked.set_model(model)
    checked.set_context(context)
    assert (model.use_mmap, model.use_mlock, context.flash_attn) == (False, True, True)
    assert set(FLASH_ATTENTION) == {"auto", "off", "on"}


def test_adapters_change_what_is_computed_as_far_as_their_scale_says(model_path, tmp_path):
    file = tmp_path / "adapter.gguf"
    write_adapter(file, width=576, tensor="blk.3.attn_q.weight", strength=0.3)
    found = {}
    for name, lora in {"none": [], "zero": [(file, 0.0)], "one": [file], "half": [(file, 0.5)]}.items():
        with LlamaCppEngine(model_path, n_ctx=512, lora=lora) as engine:
            found[name] = confidence(answer(engine))
            said = engine.describe()["lora"]
    assert said == [[str(file), 0.5]]
    assert found["zero"] == pytest.approx(found["none"])
    assert len({tuple(each) for name, each in found.items() if name != "zero"}) == 3


def test_what_is_no_adapter_is_refused_in_llama_cpps_words(model_path):
    with pytest.raises(InputError, match=r"which llama.cpp cannot use: .*adapter") as caught:
        LlamaCppEngine(model_path, n_ctx=512, lora=[model_path])
    assert caught.value.pointer == "/lora"
