"""Where SGLang keeps what the detectors need.

Tried: 0.5.23 (its parser classes run; its serving code read). Other versions are taken by what they offer: if something
that the detectors rely on is missing, they are not registered, and the log says what.
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
    """What this SGLang lacks of what the detectors rely on."""
    wanted = {
        "FunctionCallParser.ToolCallParserEnum": isinstance(
            getattr(FunctionCallParser, "ToolCallParserEnum", None), dict
        ),
        "FunctionCallParser.parse_stream_end": hasattr(FunctionCallParser, "parse_stream_end"),
        "BaseFormatDetector.finish": hasattr(BaseFormatDetector, "finish"),
        "ReasoningParser.DetectorMap": isinstance(getattr(ReasoningParser, "DetectorMap", None), dict),
        "ReasoningParser.parse_stream_end": hasattr(ReasoningParser, "parse_stream_end"),
    }
    return [name for name, there in wanted.items() if not there]


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
