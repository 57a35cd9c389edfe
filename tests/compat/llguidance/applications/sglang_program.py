"""SGLang's llguidance backend: its own file and those that it needs, without the engine (tests/plugins/sglang/stubs.py)."""

from __future__ import annotations

import json
from typing import Any

import common
import stubs
import torch
import transformers

assert transformers.__version__
assert stubs.install()
from sglang.srt.constrained import llguidance_backend as sgl  # noqa: E402

tokenizer = common.tokenizer()
backend = sgl.GuidanceBackend(tokenizer, any_whitespace=False, n_vocab=32064, eos_token_ids=[2])
words = backend.llguidance_tokenizer


def ids(text: str) -> list[int]:
    found: list[int] = words.tokenize_str(text)
    return found


def allowed(grammar: Any) -> set[int]:
    rows = grammar.allocate_vocab_mask(32064, 2, "cpu")
    grammar.fill_vocab_mask(rows, 1)
    logits = torch.zeros(2, 32064)
    grammar.apply_vocab_mask(logits, rows)
    return set(torch.isfinite(logits[1]).nonzero().flatten().tolist())


template = backend.dispatch_json(json.dumps(common.SCHEMA))
for grammar in (template.copy(), template.copy()):
    assert grammar.try_jump_forward(tokenizer)[0] == [ids('{"a":1')[0]] or grammar.try_jump_forward(tokenizer)
    for token in ids('{"a":12,"b":"x"}'):
        assert token in allowed(grammar)
        grammar.accept_token(token)
    assert allowed(grammar) == {2}
    grammar.accept_token(2)
    assert grammar.is_terminated()
    grammar.rollback(2)
    assert not grammar.is_terminated()
    assert 2 not in allowed(grammar)
assert allowed(template) != {2}

digits, choice = backend.dispatch_regex("[0-9]+"), backend.dispatch_ebnf('root ::= "yes" | "no"')
tag = {"structures": [{"begin": "<f=x>", "schema": {"type": "integer"}, "end": "</f>"}], "triggers": ["<f"]}
tagged = backend.dispatch_structural_tag(json.dumps(tag))
for token in ids("text <f=x>12</f> text"):
    tagged.accept_token(token)
rows = digits.allocate_vocab_mask(32064, 5, "cpu")
sgl.fill_token_bitmask_batched([sgl.GrammarRow(grammar=digits, row=0), sgl.GrammarRow(grammar=choice, row=1)], rows)
assert rows[0].tolist() != rows[1].tolist()
sgl.fill_token_bitmask_with_draft_tokens([sgl.GrammarDraftRow(2, digits, ids("12")[-2:])], rows)
assert rows[3].tolist() == rows[4].tolist() != rows[2].tolist()
for broken in (backend.dispatch_json("{"), backend.dispatch_regex("("), backend.dispatch_ebnf("root ::= (")):
    assert isinstance(broken, sgl.InvalidGrammarObject), broken
