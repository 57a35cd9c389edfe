"""How a server is set up. The command line fills this in; tests and embedders make it directly."""

from __future__ import annotations

from dataclasses import dataclass

from narrows.arguments import FLAG, INTEGER, LIST, NUMBER, TEXT, optional, quoted, wants
from narrows.errors import InputError
from narrows.limits import DEFAULT_LIMITS, LIMITS, Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything but the engine itself. Raises `InputError` for a value that makes no sense."""

    api_keys: tuple[str, ...] = ()
    """Any of these opens /v1 as a bearer token; none: open to whoever reaches the port."""
    served_model_names: tuple[str, ...] = ()
    """What clients may call the model; the first is used in answers. None: the engine's own name."""
    tool_call_parser: str | None = None
    """The wire format's name or a TOML file. None: found from the chat template."""
    reasoning_parser: str | None = "auto"
    """A reasoning style's name, "auto" for the format's own, None to leave it in the content."""
    chat_template: str | None = None
    """Jinja text in place of the model's own."""
    allowed_origins: tuple[str, ...] = ()
    """Web origins that browsers may call from. None: no CORS headers."""
    disable_additional_properties: bool = True
    """In schemas of requests, objects that list their properties take no others, unless they say so (`additionalProperties`). False:
    they do, as JSON Schema has it. A request's `disable_additional_properties` comes first."""
    strict_schemas: bool = False
    """Refuse every schema that cannot be enforced, also where the request does not say `strict`. False: there, what can be enforced is."""
    max_tool_calls: int | None = 16
    """Calls in one answer, where the request does not say (`max_tool_calls`). None: without end."""
    stop_at_repeated_call: bool = True
    """The answer ends where the model makes the same call twice in a row, or several in turn twice; the last is not sent. A request's `stop_at_repeated_call` comes first."""
    limits: Limits = DEFAULT_LIMITS
    """Bounds on requests and on what they compile to."""
    send_timeout: float = 120.0
    """Seconds that a client may keep a stream from going on before it is dropped."""
    drain_seconds: float = 3.0
    """Seconds that open streams may go on when the server is told to stop."""

    def __post_init__(self) -> None:
        wants(
            LIST,
            api_keys=self.api_keys,
            served_model_names=self.served_model_names,
            allowed_origins=self.allowed_origins,
        )
        wants(optional(TEXT), tool_call_parser=self.tool_call_parser, reasoning_parser=self.reasoning_parser)
        wants(optional(TEXT), chat_template=self.chat_template)
        wants(
            FLAG, disable_additional_properties=self.disable_additional_properties, strict_schemas=self.strict_schemas
        )
        wants(FLAG, stop_at_repeated_call=self.stop_at_repeated_call)
        wants(optional(INTEGER), max_tool_calls=self.max_tool_calls)
        wants(LIMITS, limits=self.limits)
        wants(NUMBER, send_timeout=self.send_timeout, drain_seconds=self.drain_seconds)
        if self.max_tool_calls is not None and self.max_tool_calls < 1:
            raise InputError(
                f"max_tool_calls must be at least 1, not {quoted(self.max_tool_calls)}",
                code="invalid_value",
                hint="None is for no bound",
            )
