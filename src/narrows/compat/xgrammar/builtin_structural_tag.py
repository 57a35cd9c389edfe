"""xgrammar's structural tags of models. narrows has none: it has the formats of many models instead, each with a
grammar and a parser. The names can be imported; calling one raises CompatError `compat_unsupported`."""

from __future__ import annotations

from typing import Any, NoReturn

from narrows.compat.xgrammar.exception import unsupported

_HINT = "Use narrows.formats.get(name).grammar(tools, vocab=vocabulary): docs/formats.md lists the models"


def get_model_structural_tag(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises CompatError `compat_unsupported`."""
    unsupported("structural tags of models", _HINT)


def get_builtin_structural_tag(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises CompatError `compat_unsupported`."""
    unsupported("structural tags of models", _HINT)


def register_model_structural_tag(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises CompatError `compat_unsupported`."""
    unsupported("structural tags of models", _HINT)


def normalize_tool_choice(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises CompatError `compat_unsupported`."""
    unsupported("structural tags of models", _HINT)
