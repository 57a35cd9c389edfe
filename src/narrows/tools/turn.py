"""The options of a turn. Parser and grammar are made from one value, so that the two agree."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOptions:
    """The options that `Format.parser`, `Format.parse` and `Format.grammar` share. `Format.parser` explains them."""

    tools: Any = None
    tool_choice: Any = "auto"
    parallel: bool = True
    reasoning: str | None = "auto"
    prompt: str = ""
    """The end of the rendered prompt: at least the open turn of the assistant."""

    def arguments(self) -> dict[str, Any]:
        """The options as keyword arguments: `fmt.grammar(**turn.arguments())`."""
        return {name: getattr(self, name) for name in _NAMES}


_NAMES = tuple(field.name for field in fields(TurnOptions))
