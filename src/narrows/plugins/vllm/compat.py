"""The names of vLLM that the parsers need, and the versions that are known.

Tested with 0.32.0 (run) and 0.33 (its source was read). The tool parser interface of seven arguments is the same in
older and newer versions. Other parts differ: `engine_based_streaming`, `finish_streaming`, and how the two parsers of a
request are made and called. So an unknown version is refused: the parsers are not registered, and the log says why.
"""

from __future__ import annotations

from typing import Any

import vllm
from vllm.logger import init_logger
from vllm.reasoning.abs_reasoning_parsers import ReasoningParser, ReasoningParserManager
from vllm.tool_parsers.abstract_tool_parser import ToolParser, ToolParserManager

try:
    from vllm.entrypoints.generate.base import protocol
except ImportError:  # moved during the development of 0.33
    from vllm.entrypoints.openai.engine import protocol

DeltaMessage: Any = protocol.DeltaMessage
DeltaToolCall: Any = protocol.DeltaToolCall
DeltaFunctionCall: Any = protocol.DeltaFunctionCall
ExtractedToolCallInformation: Any = protocol.ExtractedToolCallInformation
FunctionCall: Any = protocol.FunctionCall
ToolCall: Any = protocol.ToolCall

logger = init_logger("vllm.narrows")

VERSION = str(getattr(vllm, "__version__", "unknown"))
VERSIONS = ((0, 32), (0, 33))


def is_known() -> bool:
    """Whether the parsers were written for this version of vLLM."""
    return tuple(getattr(vllm, "__version_tuple__", ()))[:2] in VERSIONS


def known() -> str:
    """The versions of vLLM that this was written for, for messages."""
    return ", ".join(f"{major}.{minor}" for major, minor in VERSIONS)


__all__ = [
    "DeltaFunctionCall",
    "DeltaMessage",
    "DeltaToolCall",
    "ExtractedToolCallInformation",
    "FunctionCall",
    "ReasoningParser",
    "ReasoningParserManager",
    "ToolCall",
    "ToolParser",
    "ToolParserManager",
    "is_known",
    "known",
    "logger",
]
