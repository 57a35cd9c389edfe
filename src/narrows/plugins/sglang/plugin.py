"""The entry point that SGLang loads, in the plug-in group `sglang.srt.plugins`. Installing narrows beside SGLang is
enough.

Registers `narrows_<format>` for `--tool-call-parser`, `narrows_<format>` and `narrows_<style>` for
`--reasoning-parser`, and `narrows` for `--grammar-backend` (masking/). Your own formats are included (see
`narrows.formats.installed`). Other names of a format or a style work too: `narrows_qwen3_coder`. SGLang's own names
stay as they are. SGLang calls `register` in every process, before it reads its arguments. Cost: 20 ms once, to read
the names.
"""

from __future__ import annotations

from typing import Any


def register() -> None:
    """Make narrows' detectors and its grammar backend known to SGLang, in this process."""
    from narrows.plugins.sglang.masking.install import install

    _register_detectors()
    install()


def _register_detectors() -> None:
    from narrows.formats.registry import aliases, known
    from narrows.formats.styles import style_aliases, styles
    from narrows.plugins.sglang import compat
    from narrows.plugins.sglang.reasoning import detector_for as reasoning_for
    from narrows.plugins.sglang.tools import detector_for as tools_for

    lacking = compat.missing()
    if lacking:
        compat.logger.error("narrows' detectors are not registered: this SGLang has no %s", ", ".join(lacking))
        return
    detectors = compat.ReasoningParser.DetectorMap
    for name in known():
        compat.FunctionCallParser.ToolCallParserEnum[f"narrows_{name}"] = tools_for(name)
        detectors[f"narrows_{name}"] = reasoning_for(name, None)
    for name in styles():
        detectors.setdefault(f"narrows_{name}", reasoning_for(None, name))
    for alias, name in aliases().items():
        compat.FunctionCallParser.ToolCallParserEnum[f"narrows_{alias}"] = tools_for(name)
        detectors.setdefault(f"narrows_{alias}", reasoning_for(name, None))
    for alias, name in style_aliases().items():
        detectors.setdefault(f"narrows_{alias}", reasoning_for(None, name))
    _keep_ids()


def _keep_ids() -> None:
    """Make the server use the ids that come with narrows' calls (Kimi's, Mistral's). Otherwise it makes its own ids."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(
        "sglang.srt.entrypoints.openai.serving_chat.OpenAIServingChat._process_tool_call_id", _own_id, HookType.AROUND
    )


def _own_id(original: Any, *args: Any, **kwargs: Any) -> Any:
    item = kwargs.get("call_item", args[1] if len(args) > 1 else None)
    return getattr(item, "call_id", None) or original(*args, **kwargs)
