"""What vLLM loads: the general plug-in (`pip install narrows` beside vLLM is all), or `--tool-parser-plugin
narrows.plugins.vllm.plugin`.

Registers `narrows_<format>` (those of your own too, see `narrows.formats.installed`) for `--tool-call-parser`,
`narrows_<style>` and `narrows_<format>` for `--reasoning-parser`, and narrows as a structured outputs backend
(structured_outputs.py). The names that others use for a format or a style do as well: `narrows_qwen3_coder`. vLLM's own
stay as they are. vLLM calls it in every process, possibly several times; the names cost 20 ms once. For a version of
vLLM that is not known it logs an error and registers nothing.
"""

from __future__ import annotations

import os


def register() -> None:
    """Make narrows' parsers and constraints known to vLLM, in this process."""
    from narrows.formats.registry import aliases, known, reasoning_names
    from narrows.plugins.vllm import compat
    from narrows.plugins.vllm.masking import structured_outputs

    if not compat.is_known():
        compat.logger.error(
            "narrows' parsers are not registered: this is vLLM %s, and they know %s",
            compat.VERSION,
            compat.known(),
        )
        return
    for name in (*known(), *aliases()):
        compat.ToolParserManager.register_lazy_module(
            f"narrows_{name}", "narrows.plugins.vllm.reading.tool_parser", f"narrows_{name}"
        )
    for name in reasoning_names():
        compat.ReasoningParserManager.register_lazy_module(
            f"narrows_{name}", "narrows.plugins.vllm.reading.reasoning_parser", f"narrows_{name}"
        )
    structured_outputs.install()


def admit() -> None:
    """Let the engine's processes, which start later, load narrows too: where VLLM_PLUGINS leaves it out and the flag
    brings it here, they could not hold the model to a required call."""
    named = os.environ.get("VLLM_PLUGINS")
    if named is not None and "narrows" not in named.split(","):
        os.environ["VLLM_PLUGINS"] = f"{named},narrows" if named else "narrows"


register()  # for --tool-parser-plugin, which only imports; a second time changes nothing
admit()
