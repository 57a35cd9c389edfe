"""Puts this package in the place of xgrammar, for code that says `import xgrammar` itself."""

from __future__ import annotations

import sys
from importlib import import_module

from narrows.compat.xgrammar.exception import CompatError

_HERE = "narrows.compat.xgrammar"
_MODULES = (
    "builtin_structural_tag compiler config contrib contrib.hf exception grammar matcher structural_tag testing "
    "tokenizer_info"
).split()


def replace_xgrammar() -> None:
    """From now on `import xgrammar`, and `import xgrammar.testing` and so on, is this package. Call it before anything
    imports xgrammar; calling it again changes nothing.

    Modules that need torch, transformers or Pydantic are left out where those are missing. Raises CompatError
    `xgrammar_imported` if the real one is there already.
    """
    package = sys.modules[_HERE]
    if sys.modules.get("xgrammar", package) is not package:
        raise CompatError(
            "xgrammar has been imported already", code="xgrammar_imported", hint="Call replace_xgrammar() first of all"
        )
    sys.modules["xgrammar"] = package
    for name in _MODULES:
        try:
            sys.modules[f"xgrammar.{name}"] = import_module(f"{_HERE}.{name}")
        except ImportError:
            continue
