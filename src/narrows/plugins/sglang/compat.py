"""The names of SGLang that the detectors need, imported in one place.

Tested with 0.5.23: its parser classes were run, its serving code was read. Other versions are checked by their
features: if a class or method that the detectors need is missing, the detectors are not registered, and the log names
it.
"""

from __future__ import annotations

import logging
from typing import Any

from sglang.srt.function_call.base_format_detector import BaseFormatDetector
from sglang.srt.function_call.core_types import StreamingParseResult, StructureInfo, ToolCallItem
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser import reasoning_parser

logger = logging.getLogger("narrows.sglang")

BaseReasoningFormatDetector: Any = reasoning_parser.BaseReasoningFormatDetector
ReasoningParser: Any = reasoning_parser.ReasoningParser
ReasoningResult: Any = reasoning_parser.StreamingParseResult


def missing() -> list[str]:
    """Names that the detectors need and this SGLang lacks."""
    present = {
        "FunctionCallParser.ToolCallParserEnum": isinstance(
            getattr(FunctionCallParser, "ToolCallParserEnum", None), dict
        ),
        "FunctionCallParser.parse_stream_end": hasattr(FunctionCallParser, "parse_stream_end"),
        "BaseFormatDetector.finish": hasattr(BaseFormatDetector, "finish"),
        "ReasoningParser.DetectorMap": isinstance(getattr(ReasoningParser, "DetectorMap", None), dict),
        "ReasoningParser.parse_stream_end": hasattr(ReasoningParser, "parse_stream_end"),
    }
    return [name for name, is_present in present.items() if not is_present]


__all__ = [
    "BaseFormatDetector",
    "BaseReasoningFormatDetector",
    "FunctionCallParser",
    "ReasoningParser",
    "ReasoningResult",
    "StreamingParseResult",
    "StructureInfo",
    "ToolCallItem",
    "logger",
    "missing",
]
