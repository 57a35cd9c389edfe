"""The classes and functions of llguidance 1.9's Python package, on narrows' engine. See docs/compat_llguidance.md.

    from narrows.compat import llguidance

    tokenizer = llguidance.LLTokenizer("tokenizer.json")
    matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_json_schema(schema))

The submodules are llguidance's: `numpy`, `torch`, `hf`, `tiktoken`, `llamacpp`, `gbnf_to_lark`. Each is imported by
itself; torch only by `torch`.
"""

from importlib.metadata import version as _version

from narrows.compat.llguidance.compilers import JsonCompiler, LarkCompiler, RegexCompiler
from narrows.compat.llguidance.executor import LLExecutor
from narrows.compat.llguidance.grammar_from import GrammarFormat, grammar_from
from narrows.compat.llguidance.interpreter import LLInterpreter
from narrows.compat.llguidance.limits import LLParserLimits
from narrows.compat.llguidance.matcher import JsonCompileOptions, LLMatcher
from narrows.compat.llguidance.regex_to_lark import regex_to_lark
from narrows.compat.llguidance.struct_tag import StructTag
from narrows.compat.llguidance.tokenizer import LLTokenizer
from narrows.compat.llguidance.wrapper import TokenizerWrapper

__version__ = "1.9.1"
"""Of llguidance, whose classes these are."""

__all__ = [
    "LLTokenizer",
    "LLMatcher",
    "LLInterpreter",
    "LLExecutor",
    "LLParserLimits",
    "JsonCompileOptions",
    "JsonCompiler",
    "LarkCompiler",
    "RegexCompiler",
    "TokenizerWrapper",
    "grammar_from",
    "GrammarFormat",
    "StructTag",
    "regex_to_lark",
    "get_version",
    "__version__",
]


def get_version() -> str:
    """The versions of narrows and of the llguidance that it stands in for."""
    return f"narrows@{_version('narrows')} llguidance@{__version__}"
