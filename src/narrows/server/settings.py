"""How a server is set up. The command line fills this in; tests and embedders make it directly."""

from __future__ import annotations

from dataclasses import dataclass

from narrows.arguments import FLAG, INTEGER, LIST, NUMBER, TEXT, optional, quoted, wants
from narrows.errors import InputError
from narrows.limits import DEFAULT_LIMITS, LIMITS, Limits

POLICIES = ("fcfs", "priority")


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
    """In schemas of requests, objects that list their properties take no others, unless they say so
    (`additionalProperties`). False: they do, as JSON Schema has it. A request's `disable_additional_properties` comes
    first."""
    strict_schemas: bool = False
    """Refuse every schema that cannot be enforced, also where the request does not say `strict`. False: there, what can
    be enforced is."""
    max_tool_calls: int | None = 16
    """Calls in one answer, where the request does not say (`max_tool_calls`). None: without end."""
    stop_at_repeated_call: bool = True
    """The answer ends where the model makes the same call twice in a row, or several in turn twice; the last is not
    sent. A request's `stop_at_repeated_call` comes first."""
    scheduling_policy: str = "fcfs"
    """"fcfs": clients take turns, each in order of arrival, and a request's `priority` other than 0 is refused, since
    whoever sends a low one would go before all others. "priority": it counts, lower first. As in vLLM."""
    limits: Limits = DEFAULT_LIMITS
    """Bounds on requests and on what they compile to."""
    send_timeout: float = 120.0
    """Seconds that a client may keep an answer from going on before it is dropped."""
    head_timeout: float = 10.0
    """Seconds that a request's head may take to come. Then 408. This and what follows hold under
    `narrows.server.run`."""
    body_timeout: float = 30.0
    """Seconds that a request's body may take to come, and"""
    body_rate: int = 10_000
    """one more for each so many bytes that have come. Then 408."""
    keep_alive_timeout: int = 5
    """Seconds that a connection may stay open between requests."""
    max_connections: int | None = None
    """Open connections. A new one beyond takes the place of one that waits for its client, longest first; where all are
    at work it gets 503, but for /health and /metrics. None: 4,096, or what the process's limit on descriptors leaves
    room for."""
    shutdown_timeout: float = 8.0
    """Seconds that requests may go on when the server is told to stop. Then they end with code server_stopping."""

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
        wants(TEXT, scheduling_policy=self.scheduling_policy)
        wants(LIMITS, limits=self.limits)
        wants(NUMBER, send_timeout=self.send_timeout, head_timeout=self.head_timeout, body_timeout=self.body_timeout)
        wants(NUMBER, shutdown_timeout=self.shutdown_timeout)
        wants(INTEGER, body_rate=self.body_rate, keep_alive_timeout=self.keep_alive_timeout)
        wants(optional(INTEGER), max_connections=self.max_connections)
        for name in ("send_timeout", "head_timeout", "body_timeout", "body_rate", "max_connections"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name} must be more than 0, not {value}", code="invalid_value")
        for name in ("keep_alive_timeout", "shutdown_timeout"):
            if not getattr(self, name) >= 0:
                raise InputError(f"{name} must be at least 0, not {getattr(self, name)}", code="invalid_value")
        if self.scheduling_policy not in POLICIES:
            raise InputError(
                f"scheduling_policy is one of {', '.join(POLICIES)}, not {quoted(self.scheduling_policy)}",
                code="invalid_value",
            )
        if self.max_tool_calls is not None and self.max_tool_calls < 1:
            raise InputError(
                f"max_tool_calls must be at least 1, not {quoted(self.max_tool_calls)}",
                code="invalid_value",
                hint="None is for no bound",
            )
