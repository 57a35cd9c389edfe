"""What cannot be asked of an upstream, whatever it is."""

from __future__ import annotations

from narrows.engines.api import Request
from narrows.errors import UnsupportedError


def check_possible(request: Request) -> None:
    """Raises `UnsupportedError` code `upstream_unsupported` for what needs the model's own logits."""
    strategies = request.strategies
    for name, is_asked, pointer in (
        ("a logits processor", bool(request.logits_processors), "/logits_processors"),
        ("the score of given tokens", request.score_output, "/select"),
        ("token_healing", request.token_healing, "/token_healing"),
        ("a budget", strategies.budget, "/budget"),
        ("a thinking budget", request.thinking_budget is not None, "/thinking_token_budget"),
        ("sample_first", strategies.sample_first == "always", "/sample_first"),
        ("jump_forward", strategies.jump_forward == "always", "/jump_forward"),
    ):
        if is_asked:
            raise UnsupportedError(
                f"{name} needs the logits of the model, which another server does not give",
                code="upstream_unsupported",
                pointer=pointer,
                hint="Leave it out, or serve the model with narrows itself",
            )
