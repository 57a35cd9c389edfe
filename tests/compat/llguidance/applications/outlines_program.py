"""Outlines' generators with its llguidance backend, on a random model of transformers."""

from __future__ import annotations

import json
import re
from typing import Literal

import common
import outlines
import torch
from outlines.types import CFG, JsonSchema, Regex
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(vocab_size=32000, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
model = outlines.from_transformers(LlamaForCausalLM(config).eval(), common.tokenizer())


def written(kind: object) -> list[str]:
    generator = outlines.Generator(model, kind, backend="llguidance")
    return [generator("Say: ", max_new_tokens=60), *generator.batch(["One", "Two"], max_new_tokens=60)]


for text in written(Regex("[0-9]{3}-[a-z]{2,5}")):
    assert re.fullmatch("[0-9]{3}-[a-z]{2,5}", text), text
for text in written(Literal["red", "green"]):
    assert text in ("red", "green"), text
for text in written(CFG('start: "a" | "b" start "c"')):
    assert re.fullmatch("b*ac*", text), text
for text in written(JsonSchema({"enum": [{"a": 1}, [True]]})):
    assert text.lstrip("{[ \t\r\n")[:1] in '"t', text
made = outlines.Generator(
    model, JsonSchema({**common.SCHEMA, "x-guidance": {"whitespace_flexible": False}}), backend="llguidance"
)
value = json.loads(made("Say: ", max_new_tokens=60))
assert value["b"] in ("x", "y"), value
