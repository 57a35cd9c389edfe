"""One model of a server, with what is its own and not the server's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from narrows.arguments import TEXT, optional, wants

if TYPE_CHECKING:
    from narrows.engines.api import Engine


@dataclass(frozen=True, slots=True)
class ServedModel:
    """An engine, and how its chats are written and read. For `create_app` with several models.

    Raises `InputError` for an invalid value.
    """

    engine: Engine
    """What runs it. The caller closes it."""
    tool_call_parser: str | None = None
    """The wire format's name or a TOML file. None: found from the chat template."""
    reasoning_parser: str | None = "auto"
    """A reasoning style's name, or "auto" for the format's own. None: reasoning stays in the content."""
    chat_template: str | None = None
    """Jinja text to use in place of the model's own template."""

    def __post_init__(self) -> None:
        wants(optional(TEXT), tool_call_parser=self.tool_call_parser, reasoning_parser=self.reasoning_parser)
        wants(optional(TEXT), chat_template=self.chat_template)
