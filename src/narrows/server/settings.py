"""The settings of a server. The command line sets them from its options; other programs create them directly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from narrows.arguments import FLAG, INTEGER, LIST, NUMBER, TEXT, optional, quoted, wants
from narrows.errors import InputError
from narrows.limits import DEFAULT_LIMITS, LIMITS, Limits

SchedulingPolicy = Literal["fcfs", "priority"]
POLICIES = get_args(SchedulingPolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything but the engine. Raises `InputError` for an invalid value."""

    api_keys: tuple[str, ...] = ()
    """Each of these gives access, as a bearer token or in x-api-key. /health, /metrics and the API page need none.
    None: everybody who reaches the port has access."""
    served_model_names: tuple[str, ...] = ()
    """Names of the model for clients. The first is used in answers. None: the engine's own name."""
    tool_call_parser: str | None = None
    """The wire format's name or a TOML file. None: found from the chat template."""
    reasoning_parser: str | None = "auto"
    """A reasoning style's name, or "auto" for the format's own. None: reasoning stays in the content."""
    chat_template: str | None = None
    """Jinja text to use in place of the model's own template."""
    allowed_origins: tuple[str, ...] = ()
    """Web origins whose pages may call the server. None: no CORS headers."""
    disable_additional_properties: bool = True
    """In schemas of requests, an object that lists its properties allows no others, unless the schema says so
    (`additionalProperties`). False: it allows them, as in JSON Schema. A request's `disable_additional_properties`
    comes first."""
    strict_schemas: bool = False
    """Refuse every schema that cannot be enforced, also without `strict` in the request. False: without `strict`, only
    what can be enforced is enforced."""
    max_tool_calls: int | None = 16
    """The most calls in one answer, for requests without `max_tool_calls`. None: no bound."""
    stop_at_repeated_call: bool = True
    """End the answer where the model makes the same call twice in a row, or the same series of calls twice. The last
    call is not sent. A request's `stop_at_repeated_call` comes first."""
    stored_responses: int = 1_000
    """Answers of /v1/responses that are remembered for `previous_response_id`, in memory. 0: none."""
    stored_response_bytes: int = 64_000_000
    """Bytes of JSON that the remembered answers take together, each with the conversation up to it. Where there is no
    room, the client that uses most of it loses its oldest answer."""
    playground: bool = True
    """Serve the playground at / (docs/playground.md)."""
    scheduling_policy: SchedulingPolicy = "fcfs"
    """How waiting requests are ordered. "fcfs": clients take turns, each in order of arrival. A request with a
    `priority` other than 0 is refused, since a client could put itself before all others. "priority": lower numbers
    first. As in vLLM."""
    limits: Limits = DEFAULT_LIMITS
    """Bounds on requests and on what they are compiled to."""
    send_timeout: float = 120.0
    """Seconds that a client may read nothing of its answer before its connection is dropped."""
    head_timeout: float = 10.0
    """Seconds for a request's head to come. Then 408. This setting and those below hold under `narrows.server.run`."""
    body_timeout: float = 30.0
    """Seconds for a request's body to come. Then 408."""
    body_rate: int = 10_000
    """Bytes of a body: for each `body_rate` of them that have come, it has one second more than `body_timeout`."""
    keep_alive_timeout: int = 5
    """Seconds that an idle connection stays open between requests."""
    max_connections: int | None = None
    """Open connections. Beyond them, a new one takes the place of the connection whose client has been awaited longest.
    Where none waits for its client, the new one gets 503, except for /health and /metrics. None: 4,096, or fewer if the
    process's limit on descriptors has no room."""
    shutdown_timeout: float = 8.0
    """Seconds for running requests when the server is told to stop. Then they end with code server_stopping."""

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
        wants(FLAG, stop_at_repeated_call=self.stop_at_repeated_call, playground=self.playground)
        wants(optional(INTEGER), max_tool_calls=self.max_tool_calls)
        wants(TEXT, scheduling_policy=self.scheduling_policy)
        wants(LIMITS, limits=self.limits)
        wants(NUMBER, send_timeout=self.send_timeout, head_timeout=self.head_timeout, body_timeout=self.body_timeout)
        wants(NUMBER, shutdown_timeout=self.shutdown_timeout)
        wants(INTEGER, body_rate=self.body_rate, keep_alive_timeout=self.keep_alive_timeout)
        wants(INTEGER, stored_responses=self.stored_responses, stored_response_bytes=self.stored_response_bytes)
        wants(optional(INTEGER), max_connections=self.max_connections)
        for name in ("send_timeout", "head_timeout", "body_timeout", "body_rate", "max_connections"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name} must be more than 0, not {value}", code="invalid_value")
        for name in ("keep_alive_timeout", "shutdown_timeout", "stored_responses", "stored_response_bytes"):
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
                hint="None means no bound",
            )
