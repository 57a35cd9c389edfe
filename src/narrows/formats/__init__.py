"""Wire formats: how models write tool calls and reasoning. One TOML file each, from which parser, grammar, rendered
text and detection come."""

from __future__ import annotations

from narrows.formats.detection import Detection, detect, detect_model
from narrows.formats.format import Format
from narrows.formats.reasoning import ReasoningStyle
from narrows.formats.registry import find, get, installed, load, names
from narrows.formats.response_template import from_response_template
from narrows.formats.styles import reasoning_style

__all__ = [
    "Detection",
    "Format",
    "ReasoningStyle",
    "detect",
    "detect_model",
    "find",
    "from_response_template",
    "get",
    "installed",
    "load",
    "names",
    "reasoning_style",
]
