"""How a server is set up. The command line fills this in; tests and embedders make it directly."""

from __future__ import annotations

from dataclasses import dataclass

from narrows.limits import DEFAULT_LIMITS, Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything but the engine itself."""

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
    limits: Limits = DEFAULT_LIMITS
    """Bounds on requests and on what they compile to."""
    send_timeout: float = 120.0
    """Seconds that a client may keep a stream from going on before it is dropped."""
    drain_seconds: float = 3.0
    """Seconds that open streams may go on when the server is told to stop."""
