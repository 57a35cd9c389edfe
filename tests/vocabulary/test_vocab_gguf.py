"""GGUF vocabularies: against llama.cpp and the `gguf` package on a real file, against tokenizer.json, and under damage."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
from pathlib import Path

import gguf
import pytest
import trained
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows.engines import default_model
from narrows.engines.llama_cpp import library
from narrows.errors import NarrowsError, VocabularyError
from narrows.vocabulary.loaders import gguf_file, gguf_metadata, tokenizer_json

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def write(path: Path, model: str, tokens: list[tuple[str | bytes, int]], **ids: int) -> Path:
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list([t for t, _ in tokens])
    writer.add_token_types([kind for _, kind in tokens])
    writer.add_token_merges(["a b"] * 3)
    for name, i in ids.items():
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", i)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def test_byte_level(tmp_path: Path) -> None:
    tokens: list[tuple[str | bytes, int]] = [
        ("Ġhi", NORMAL), ("Ã", NORMAL), ("<|im_end|>", CONTROL), ("<tool_call>", USER_DEFINED), ("  ", USER_DEFINED),
        ("[PAD5]", UNUSED), ("<|endoftext|>", CONTROL), ("<unk>", UNKNOWN),
    ]  # fmt: skip
    found = gguf_file.load(write(tmp_path / "a.gguf", "gpt2", tokens, eos=6, eot=2))
    assert found.tokens == [b" hi", b"\xc3", b"", b"", b"  ", None, b"", b""]
    assert found.special == {"<|im_end|>": 2, "<tool_call>": 3, "<|endoftext|>": 6, "<unk>": 7}
    assert found.eos == [2, 6]


def test_byte_fallback(tmp_path: Path) -> None:
    tokens: list[tuple[str | bytes, int]] = [
        ("</s>", CONTROL), ("<0x0A>", BYTE), ("<b>", USER_DEFINED), ("▁the", NORMAL), (b"\xff\xfe", NORMAL),
        ("<|tool|>", USER_DEFINED), ("▁▁", USER_DEFINED), ("<tool_call>", USER_DEFINED),
    ]  # fmt: skip
    found = gguf_file.load(write(tmp_path / "a.gguf", "llama", tokens, eos=0))
    assert found.tokens == [b"", b"\n", b"<b>", b" the", b"\xff\xfe", b"", "▁▁".encode(), b""]
    assert found.special == {"</s>": 0, "<|tool|>": 5, "<tool_call>": 7}
    assert found.eos == [0]


def test_the_same_as_its_tokenizer_json(tmp_path: Path) -> None:
    """Made into a GGUF as the converters do: added tokens flagged or user-defined, the rest normal."""
    content = json.loads(trained.byte_level().to_str())
    tokens: dict[int, tuple[str | bytes, int]] = {i: (t, NORMAL) for t, i in content["model"]["vocab"].items()}
    for added in content["added_tokens"]:
        tokens[added["id"]] = (added["content"], CONTROL if added["special"] else USER_DEFINED)
    path = write(
        tmp_path / "a.gguf", "gpt2", [tokens[i] for i in range(len(tokens))], eos=content["added_tokens"][1]["id"]
    )
    assert gguf_file.load(path) == tokenizer_json.load(content)


@pytest.mark.parametrize(
    ("model", "code"), [("rwkv", "tokenizer_unsupported"), ("plamo2", "tokenizer_unsupported"), ("gpt2", "eos_missing")]
)
def test_refused(tmp_path: Path, model: str, code: str) -> None:
    with pytest.raises(VocabularyError) as caught:
        gguf_file.load(write(tmp_path / "a.gguf", model, [("a", NORMAL)]))
    assert caught.value.code == code


def test_not_a_gguf_file(tmp_path: Path) -> None:
    for content in (b"", b"GG", b"{}  ", b"GGUF\x01\0\0\0" + b"\0" * 40, b"GGUF\0\0\0\x03" + b"\0" * 40):
        path = tmp_path / "a.gguf"
        path.write_bytes(content)
        with pytest.raises(VocabularyError) as caught:
            gguf_file.load(path)
        assert caught.value.code == "file_unreadable"
    with pytest.raises(VocabularyError):
        gguf_file.load(tmp_path)
    with pytest.raises(VocabularyError):
        gguf_file.load(tmp_path / "nowhere")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("gguf") / "a.gguf"
    return write(path, "gpt2", [("a", NORMAL), ("</s>", CONTROL)], eos=1).read_bytes()


def test_every_truncation_is_an_error(small: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    end = len(small.rstrip(b"\0"))  # the writer pads; the last entry's high bytes are zero too
    for length in range(end - 4):
        path.write_bytes(small[:length])
        with pytest.raises(VocabularyError) as caught:
            gguf_file.load(path)
        assert caught.value.code == "file_unreadable", length


def test_damaged_bytes_are_an_error_or_a_vocabulary(small: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"

    @settings(max_examples=400, deadline=None)
    @given(st.dictionaries(st.integers(4, len(small) - 1), st.integers(0, 255), min_size=1, max_size=4))
    def survives(changes: dict[int, int]) -> None:
        damaged = bytearray(small)
        for at, value in changes.items():
            damaged[at] = value
        path.write_bytes(damaged)
        try:
            found = gguf_file.load(path)
        except NarrowsError:
            return
        assert len(found.tokens) == found.size

    survives()


# The real file: SmolLM2's vocabulary.


@pytest.fixture(scope="module")
def smollm2() -> Path:
    try:
        return default_model.default_gguf()
    except NarrowsError as error:
        pytest.skip(str(error))


@pytest.mark.model
def test_metadata_as_the_gguf_package_reads_it(smollm2: Path) -> None:
    ours = gguf_metadata.read(smollm2)
    for key, field in gguf.GGUFReader(smollm2).fields.items():
        if key.startswith("GGUF."):
            continue
        theirs = field.contents()
        mine = ours[key]
        if isinstance(mine, list) and mine and isinstance(mine[0], bytes):
            mine = [text.decode() for text in mine]
        assert mine == theirs, key


@pytest.mark.model
def test_pieces_as_llama_cpp_gives_them(smollm2: Path) -> None:
    """Every token's bytes equal llama.cpp's own, and so do the special tokens' names and the end tokens."""
    spec = importlib.util.find_spec("xllamacpp")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("xllamacpp is not installed")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    llama = LlamaVocabulary(next(Path(spec.submodule_search_locations[0]).glob("xllamacpp*.so")), smollm2)
    ours = gguf_file.load(smollm2)
    assert llama.size == ours.size
    assert [llama.piece(i, special=False) for i in range(ours.size)] == ours.tokens
    for name, i in ours.special.items():
        assert llama.piece(i, special=True) == name.encode()
    file_names = {
        ours.special.get(name) for name in ("<reponame>",)
    }  # llama.cpp also ends at a code model's file separators
    assert {i for i in range(ours.size) if llama.is_end(i)} - file_names == set(ours.eos)


class LlamaVocabulary:
    """llama.h through ctypes: the vocabulary only."""

    def __init__(self, file: Path, model: Path) -> None:
        library.load_library()  # which hears what llama.cpp says: else it is printed
        self.lib = ctypes.CDLL(str(file))
        parameters = type("Parameters", (ctypes.Structure,), {"_fields_": _MODEL_PARAMETERS})
        default = self._function("llama_model_default_params", parameters)
        chosen = default()
        chosen.vocab_only = True
        load = self._function("llama_model_load_from_file", ctypes.c_void_p, ctypes.c_char_p, parameters)
        self.vocab = self._function("llama_model_get_vocab", ctypes.c_void_p, ctypes.c_void_p)(
            load(str(model).encode(), chosen)
        )
        assert self.vocab, "llama.cpp could not load the vocabulary"
        self.size = self._function("llama_vocab_n_tokens", ctypes.c_int32, ctypes.c_void_p)(self.vocab)
        self._is_end = self._function("llama_vocab_is_eog", ctypes.c_bool, ctypes.c_void_p, ctypes.c_int32)
        integer, pointer = ctypes.c_int32, ctypes.c_void_p
        self._piece = self._function(
            "llama_token_to_piece", integer, pointer, integer, ctypes.c_char_p, integer, integer, ctypes.c_bool
        )

    def _function(self, name: str, result: object, *arguments: object) -> ctypes._NamedFuncPointer:
        function = getattr(self.lib, name)
        function.restype, function.argtypes = result, arguments
        return function

    def is_end(self, i: int) -> bool:
        return bool(self._is_end(self.vocab, i))

    def piece(self, i: int, special: bool) -> bytes:
        buffer = ctypes.create_string_buffer(4096)
        length = self._piece(self.vocab, i, buffer, 4096, 0, special)
        assert length >= 0
        return buffer.raw[:length]


_MODEL_PARAMETERS = [
    ("devices", ctypes.c_void_p),
    ("overrides", ctypes.c_void_p),
    *[(name, ctypes.c_int32) for name in ("n_gpu_layers", "split_mode", "load_mode", "lazy_mode", "main_gpu")],
    *[(name, ctypes.c_void_p) for name in ("tensor_split", "progress", "progress_data", "kv_overrides")],
    *[
        (name, ctypes.c_bool)
        for name in ("vocab_only", "check_tensors", "use_extra_bufts", "no_host", "no_alloc", "load_mtp")
    ],
]
