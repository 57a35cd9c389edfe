"""The entry point that vLLM loads: the general plug-in (installing narrows beside vLLM is enough), or
`--tool-parser-plugin narrows.plugins.vllm.plugin`.

Registers `narrows_<format>` for `--tool-call-parser`, `narrows_<style>` and `narrows_<format>` for
`--reasoning-parser`, and narrows as a structured outputs backend (structured_outputs.py). Your own formats are included
(see `narrows.formats.installed`). Other names of a format or a style work too: `narrows_qwen3_coder`. vLLM's own names
stay as they are. vLLM calls `register` in every process, possibly several times. Cost: 20 ms once, to read the names.
Under an unknown version of vLLM it logs an error and registers nothing.
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
            "narrows' parsers are not registered: this is vLLM %s, and the known versions are %s",
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
    """Add narrows to VLLM_PLUGINS, so that the engine's processes, which start later, load it too. If the variable
    omits narrows, the flag loads it only in this process, and the engine could not constrain a required call."""
    named = os.environ.get("VLLM_PLUGINS")
    if named is not None and "narrows" not in named.split(","):
        os.environ["VLLM_PLUGINS"] = f"{named},narrows" if named else "narrows"


register()  # for --tool-parser-plugin, which only imports; a second call has no effect
admit()
