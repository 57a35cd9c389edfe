"""Applications that use xgrammar, with narrows in its place."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import narrows.compat.xgrammar as ours


def without_xgrammar() -> dict[str, Any]:
    """Takes what is imported of xgrammar out of `sys.modules`, and returns it."""
    names = [name for name in sys.modules if name == "xgrammar" or name.startswith("xgrammar.")]
    return {name: sys.modules.pop(name) for name in names}


@pytest.fixture
def replaced() -> Iterator[None]:
    before = without_xgrammar()
    ours.replace_xgrammar()
    yield
    without_xgrammar()
    sys.modules.update(before)


def test_code_that_imports_xgrammar_gets_narrows() -> None:
    code = """
import narrows.compat.xgrammar as ours
ours.replace_xgrammar()
import xgrammar
from xgrammar.exception import InvalidJSONError
from xgrammar.testing import _is_grammar_accept_string
assert xgrammar is ours
assert InvalidJSONError is ours.InvalidJSONError
assert _is_grammar_accept_string('root ::= "a"', "a")
ours.replace_xgrammar()
import sys
sys.modules["xgrammar"] = sys
try:
    ours.replace_xgrammar()
except ours.CompatError as error:
    assert error.code == "xgrammar_imported"
else:
    raise AssertionError
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name", "age"],
}


@pytest.mark.usefixtures("replaced")
def test_outlines() -> None:
    """Its backend of xgrammar, with a real model: JSON, a regular expression and a grammar."""
    outlines = pytest.importorskip("outlines", reason="make test-transformers installs outlines")
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    pytest.importorskip("accelerate", reason="transformers needs it to read a GGUF file")
    from narrows.engines.default_model import default_gguf

    path = default_gguf()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    weights = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    model = outlines.from_transformers(weights.eval(), tokenizer)
    options = {"max_new_tokens": 60, "do_sample": False}

    generator = outlines.Generator(model, outlines.json_schema(json.dumps(SCHEMA)), backend="xgrammar")
    assert type(generator.logits_processor.compiled_grammar) is ours.CompiledGrammar
    person = json.loads(generator("A person:", **options))
    assert set(person) == {"name", "age"}
    assert json.loads(generator("Another person:", **options))

    generator = outlines.Generator(model, outlines.regex("[0-9]{2}-[a-c]"), backend="xgrammar")
    text = generator("A number:", **options)
    assert text[2] == "-"

    generator = outlines.Generator(model, outlines.cfg('root ::= "yes" | "no"'), backend="xgrammar")
    assert generator("Well?", **options) in ("yes", "no")
