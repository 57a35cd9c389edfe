"""The former names of the entry points work in a process of vLLM's."""

from __future__ import annotations


def test_the_former_names_are_the_present_ones() -> None:
    from narrows.engines.vllm import plugin as former_plugin
    from narrows.engines.vllm import processors as former_processors
    from narrows.plugins.vllm import plugin, processors

    assert (former_plugin.register, former_plugin.admit) == (plugin.register, plugin.admit)
    assert former_processors.NarrowsLogitsProcessor is processors.NarrowsLogitsProcessor
    assert former_processors.per_sequence is processors.per_sequence
