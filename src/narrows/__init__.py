"""narrows holds a language model's token stream to a grammar while it is generated, and reads typed deltas out of it as
it flows."""

from narrows import formats
from narrows.constraint import Constraint, Explanation, Matcher, fill_masks
from narrows.errors import (
    ConcurrentUseError,
    EngineError,
    FormatError,
    GrammarError,
    InputError,
    LimitError,
    NarrowsError,
    TokenError,
    UnsupportedError,
    VocabularyError,
)
from narrows.events import Content, Event, Reasoning, ToolCallArguments, ToolCallEnd, ToolCallStart
from narrows.grammar.captures import Capture
from narrows.grammar.grammar import Grammar
from narrows.json_values import JsonValues, WholeValue
from narrows.limits import Limits
from narrows.typed import Typed
from narrows.vocabulary.vocabulary import Vocabulary

__version__ = "0.1.0"

__all__ = [
    "Vocabulary",
    "Grammar",
    "Capture",
    "Constraint",
    "Matcher",
    "Explanation",
    "Limits",
    "Typed",
    "JsonValues",
    "WholeValue",
    "fill_masks",
    "formats",
    "Event",
    "Reasoning",
    "Content",
    "ToolCallStart",
    "ToolCallArguments",
    "ToolCallEnd",
    "NarrowsError",
    "InputError",
    "GrammarError",
    "UnsupportedError",
    "VocabularyError",
    "FormatError",
    "TokenError",
    "LimitError",
    "ConcurrentUseError",
    "EngineError",
]
