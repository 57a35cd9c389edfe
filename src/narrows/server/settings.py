"""How a server is set up. The command line fills this in; tests and embedders make it directly."""

from __future__ import annotations

from dataclasses import dataclass

from narrows.errors import InputError
from narrows.limits import DEFAULT_LIMITS, Limits


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
    """Seconds that a client may keep an answer from going on before it is dropped."""
    head_timeout: float = 10.0
    """Seconds that a request's head may take to come. Then 408. This and what follows hold under `narrows.server.run`."""
    body_timeout: float = 30.0
    """Seconds that a request's body may take to come, and"""
    body_rate: int = 10_000
    """one more for each so many bytes that have come. Then 408."""
    keep_alive_timeout: int = 5
    """Seconds that a connection may stay open between requests."""
    max_connections: int | None = None
    """Open connections. A new one beyond takes the place of one that waits for its client, longest first; where all are at work it gets 503, but for
    /health and /metrics. None: 4,096, or what the process's limit on descriptors leaves room for."""
    shutdown_timeout: float = 8.0
    """Seconds that requests may go on when the server is told to stop. Then they end with code server_stopping."""

    def __post_init__(self) -> None:
        for name in ("send_timeout", "head_timeout", "body_timeout", "body_rate", "max_connections"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name} must be more than 0, not {value}", code="invalid_value")
        for name in ("keep_alive_timeout", "shutdown_timeout"):
            if not getattr(self, name) >= 0:
                raise InputError(f"{name} must be at least 0, not {getattr(self, name)}", code="invalid_value")
        if self.max_tool_calls is not None and self.max_tool_calls < 1:
            raise InputError(
                f"max_tool_calls must be at least 1, not {self.max_tool_calls}",
                code="invalid_value",
                hint="None is for no bound",
            )
