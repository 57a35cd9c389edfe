"""The former names of the plug-ins' entry points lead to the present ones. vLLM and SGLang are not needed: stand-ins are imported."""

from __future__ import annotations

import ast
import importlib
import sys
import types
from pathlib import Path

import pytest

import narrows

SOURCE = Path(narrows.__file__).parent
FORMER = [
    ("narrows.engines.vllm.plugin", "narrows.plugins.vllm.plugin", ("register", "admit")),
    ("narrows.engines.vllm.processors", "narrows.plugins.vllm.processors", ("NarrowsLogitsProcessor", "per_sequence")),
    ("narrows.engines.sglang.plugin", "narrows.plugins.sglang.plugin", ("register",)),
]


@pytest.mark.parametrize(("former", "present", "names"), FORMER)
def test_it_leads_to_the_present_one(
    former: str, present: str, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = SOURCE.joinpath(*present.split(".")[1:]).with_suffix(".py")
    defined = {
        node.name for node in ast.parse(file.read_text()).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }
    assert defined >= set(names)
    stand_in = types.ModuleType(present)
    for name in names:
        setattr(stand_in, name, object())
    monkeypatch.setitem(sys.modules, present, stand_in)
    monkeypatch.delitem(sys.modules, former, raising=False)
    module = importlib.import_module(former)
    monkeypatch.delitem(sys.modules, former)
    for name in names:
        assert getattr(module, name) is getattr(stand_in, name)
