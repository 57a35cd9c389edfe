"""Says what is left out where vLLM is not installed."""

from __future__ import annotations

import pytest
from installed import INSTALLED


@pytest.mark.skipif(not INSTALLED, reason="the tests in this folder need vLLM: make test-vllm")
def test_narrows_is_a_plug_in_of_vllm() -> None:
    from importlib.metadata import entry_points

    assert [found.name for found in entry_points(group="vllm.general_plugins") if found.name == "narrows"]
