"""xgrammar's classes and functions on narrows' engine: `import narrows.compat.xgrammar as xgrammar`.

    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=config.vocab_size)
    compiled = xgrammar.GrammarCompiler(info).compile_json_schema(schema)
    matcher = xgrammar.GrammarMatcher(compiled)
    bitmask = xgrammar.allocate_token_bitmask(1, info.vocab_size)
    matcher.fill_next_token_bitmask(bitmask)
    xgrammar.apply_token_bitmask_inplace(logits, bitmask.to(logits.device))

Names, signatures, defaults and what happens at the edges are those of xgrammar 0.2.8. docs/compat_xgrammar.md says what
differs, and which names raise `compat_unsupported`.

    exception.py       the errors
    encodings.py       how tokens are written
    tokenizer_info.py  a vocabulary                       serialized.py    texts that can be read again
    schemas.py         schemas with xgrammar's options    definition.py    what a grammar is made of
    grammar.py         grammars                           structural_tag.py    models of Pydantic
    compiler.py        compiled grammars and their cache
    matcher.py         one sequence    draft_tree.py    batch.py    bitmask.py
    contrib/hf.py      a logits processor                 testing.py config.py builtin_structural_tag.py
    replace.py         for code that imports xgrammar itself

Importing this needs numpy alone. torch, transformers and Pydantic are imported by the names that need them.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from narrows.compat.xgrammar import exception
from narrows.compat.xgrammar.batch import BatchGrammarMatcher
from narrows.compat.xgrammar.bitmask import (
    allocate_token_bitmask,
    apply_token_bitmask_inplace,
    get_bitmask_shape,
    reset_token_bitmask,
    torch_module,
)
from narrows.compat.xgrammar.builtin_structural_tag import (
    get_builtin_structural_tag,
    get_model_structural_tag,
    normalize_tool_choice,
    register_model_structural_tag,
)
from narrows.compat.xgrammar.compiler import CompiledGrammar, GrammarCompiler
from narrows.compat.xgrammar.config import (
    get_max_recursion_depth,
    get_serialization_version,
    max_recursion_depth,
    set_max_recursion_depth,
)
from narrows.compat.xgrammar.exception import (
    CompatError,
    DeserializeFormatError,
    DeserializeVersionError,
    InvalidJSONError,
    InvalidStructuralTagError,
)
from narrows.compat.xgrammar.grammar import Grammar
from narrows.compat.xgrammar.matcher import GrammarMatcher
from narrows.compat.xgrammar.replace import replace_xgrammar
from narrows.compat.xgrammar.tokenizer_info import TokenizerInfo, VocabType

if TYPE_CHECKING:
    from narrows.compat.xgrammar import contrib, structural_tag, testing
    from narrows.compat.xgrammar.contrib import hf
    from narrows.compat.xgrammar.structural_tag import StructuralTag, StructuralTagItem

    bitmask_dtype: Any

__all__ = [
    "exception",
    "structural_tag",
    "testing",
    "contrib",
    "hf",
    "BatchGrammarMatcher",
    "CompatError",
    "CompiledGrammar",
    "DeserializeFormatError",
    "DeserializeVersionError",
    "Grammar",
    "GrammarCompiler",
    "GrammarMatcher",
    "InvalidJSONError",
    "InvalidStructuralTagError",
    "StructuralTag",
    "StructuralTagItem",
    "TokenizerInfo",
    "VocabType",
    "allocate_token_bitmask",
    "apply_token_bitmask_inplace",
    "bitmask_dtype",
    "get_bitmask_shape",
    "get_builtin_structural_tag",
    "get_max_recursion_depth",
    "get_model_structural_tag",
    "get_serialization_version",
    "max_recursion_depth",
    "normalize_tool_choice",
    "register_model_structural_tag",
    "replace_xgrammar",
    "reset_token_bitmask",
    "set_max_recursion_depth",
]

_LATER = {
    "structural_tag": "structural_tag",
    "testing": "testing",
    "contrib": "contrib",
    "hf": "contrib.hf",
    "StructuralTag": "structural_tag:StructuralTag",
    "StructuralTagItem": "structural_tag:StructuralTagItem",
}
"""What is imported when it is first used: a module, and the name in it."""


def __getattr__(name: str) -> Any:
    if name == "bitmask_dtype":
        return torch_module().int32
    place = _LATER.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    file, _, member = place.partition(":")
    if name == "contrib":
        with suppress(ImportError):  # `xgrammar.contrib.hf` is there without an import of its own
            import_module(f"{__name__}.contrib.hf")
    module = import_module(f"{__name__}.{file}")
    return getattr(module, member) if member else module
