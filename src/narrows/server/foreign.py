"""Fields that this server does not know. One that would constrain an answer elsewhere is refused, never dropped.

The rules:
- Objects that hold a constraint (`response_format`, `tools`, `tool_choice`, `structured_outputs`) may have known fields
  only.
- At the top of the body, fields of other servers that mean the same as ours are understood (elsewhere.py). Any other
  unknown field is refused if other servers constrain answers by it, if its name looks like
  a constraint, or if it is a misspelt known field of that kind. Objects that are not known (`extra_body`, `nvext`) are
  searched for the same names.
- A bound on the answer's tokens under another API's name is refused, too: without it the answer may be very long.
- Any other unknown field is ignored, with a warning in the log. null, false and empty values ask for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from narrows.errors import LimitError, UnsupportedError
from narrows.limits import Limits

_FORMAT = "response_format"
_CALLS_IN_CHATS = "tools in /v1/chat/completions"
_INSTEAD: dict[str, str] = {
    "response_format": _FORMAT,
    "structured_outputs": "structured_outputs",
    "tools": _CALLS_IN_CHATS,
    "tool_choice": _CALLS_IN_CHATS,
    "functions": "tools",
    "function_call": "tool_choice",
    "allowed_tools": "tool_choice of type allowed_tools",
    "tool_config": "tool_choice",
    "disable_parallel_tool_use": "parallel_tool_calls",
    "format": _FORMAT,
    "output_format": _FORMAT,
    "output_type": _FORMAT,
    "response_mime_type": _FORMAT,
    "json": "structured_outputs.json",
    "json_schema": _FORMAT,
    "json_mode": "response_format of type json_object",
    "guided_json": "structured_outputs.json",
    "guided_regex": "structured_outputs.regex",
    "guided_choice": "structured_outputs.choice",
    "guided_grammar": "structured_outputs.grammar",
    "grammar": "structured_outputs.grammar",
    "ebnf": "structured_outputs.ebnf",
    "regex": "structured_outputs.regex",
    "choice": "structured_outputs.choice",
    "choices": "structured_outputs.choice",
    "enum": "structured_outputs.choice",
    "structural_tag": "structured_outputs.structural_tag",
    "allowed_token_ids": "logit_bias",
    "allowed_tokens": "logit_bias",
    "allowed_words": "structured_outputs",
    "bad_words": "logit_bias",
    "bad_words_ids": "logit_bias",
    "banned_strings": "stop",
    "banned_tokens": "logit_bias",
    "banned_words": "logit_bias",
    "force_words_ids": "structured_outputs",
    "suppress_tokens": "logit_bias",
    "custom_logit_processor": "the Python API",
    "logits_processor": "the Python API",
    "logits_processors": "the Python API",
    "prompt_logprobs": "logprobs",
    "use_beam_search": "n",
    "thinking_budget": "thinking_token_budget",
    "thinking_budget_tokens": "thinking_token_budget",
    "reasoning_budget": "thinking_token_budget",
}
"""Fields of other servers (and of their older releases), and what to use here."""
_PARTS = ("schema", "grammar", "regex", "bnf")
"""A name that contains one of these looks like a constraint."""
_BEGINNINGS = ("guided", "structur", "constrain", "pattern")
"""So does a name with a word that begins with one of these."""
_WORDS = frozenset(("format", "json", "lark", "regexp"))
"""And, at the top of the body, a name with one of these words."""
_HARMLESS = frozenset(
    (
        "reasoning_format",
        "encoding_format",
        "audio_format",
        "image_format",
        "timestamp_format",
        "guided_decoding_backend",  # it names an engine, and no answer
    )
)
_MEANT = (
    "response_format",
    "structured_outputs",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_tool_calls",
    "logit_bias",
    "stop",
    "stop_at_pointer",
    "budget",
    "thinking_token_budget",
    "repetition_detection",
    "token_healing",
    "jump_forward",
    "sample_first",
)
"""Known fields whose misspellings are looked for."""
_OTHER_DATA = ("metadata", "headers", "labels", "tags", "documents", "data_sources")
"""Objects whose keys mean nothing to a model's server: a name that contains one of these is not searched."""
_BOUND = "max_tokens"
_BOUNDS = frozenset(
    (_BOUND, "max_completion_tokens", "max_output_tokens", "max_new_tokens", "n_predict", "num_predict")
)
"""The names that APIs have for it."""
_LONGEST = 64
"""Characters of a name that are looked at."""
_DEEPEST = 4


def check_top(
    extra: Mapping[str, Any], known: Iterable[str], limits: Limits, own: Mapping[str, str] | None = None
) -> None:
    """Raise `UnsupportedError` code field_unsupported for the first unknown field that would constrain the answer.

    `known`: the request's own fields. `own`: what hints say in place of a name of ours, for other APIs. Raises
    `LimitError` where there are more than `unknown_fields` unknown ones."""
    known = frozenset(known)
    seen = 0
    for pointer, name, value, top in _named(extra):
        seen += 1
        if seen > limits.unknown_fields:
            raise LimitError(
                "too many unknown fields",
                limit="unknown_fields",
                pointer=pointer,
                hint=f"at most {limits.unknown_fields} are allowed",
            )
        if asks_for_nothing(value):
            continue
        plain = _snake(name[:_LONGEST])
        instead = _INSTEAD.get(plain)
        if instead is None and plain not in _HARMLESS and _looks_like_one(plain, top):
            instead = _FORMAT if "format" in plain or "schema" in plain or "json" in plain else "structured_outputs"
        if instead is None and top:
            close = get_close_matches(plain, _MEANT, 1, 0.85)
            instead = close[0] if close else None
        if instead is None and top and plain in _BOUNDS and (_BOUND in known or _BOUND in (own or {})):
            instead = _BOUND
        if instead is None and not top and plain in known and plain in _MEANT:
            instead = f"{plain} at the top of the body"
        if instead is not None:
            instead = (own or {}).get(instead, instead)
            if not top and instead in known:
                instead = f"{instead}, at the top of the body"
            raise UnsupportedError(
                f"{name[:_LONGEST]} is not supported",
                pointer=pointer,
                code="field_unsupported",
                hint="Leave it out" if instead == plain and top else f"Use {instead}, or leave it out",
            )


def check_inside(extra: Mapping[str, Any], known: Iterable[str], harmless: frozenset[str], pointer: str) -> None:
    """The same for an object that holds a constraint: every field is refused that is neither known nor `harmless`."""
    for name, value in extra.items():
        if name in harmless or _is_empty(value):
            continue
        close = get_close_matches(name[:_LONGEST], list(known), 1, 0.7)
        raise UnsupportedError(
            f"this server does not know the field {name[:_LONGEST]!r} here",
            pointer=f"{pointer}/{_escaped(name)}",
            code="field_unsupported",
            hint=f"Did you mean {close[0]}?" if close else "Leave it out",
        )


def asks_for_nothing(value: Any) -> bool:
    """Whether the value is one that clients send for a field that they do not use."""
    return _is_empty(value) or value in ("auto", "none", "text", {"type": "text"}, ["text"])


def _is_empty(value: Any) -> bool:
    return value is None or value is False or value in ("", [])


def _named(extra: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, bool]]:
    """(pointer, name, value, whether it stands at the top) of each unknown field and each field in unknown objects."""
    todo: list[tuple[str, Mapping[str, Any], int]] = [("", extra, 0)]
    while todo:
        at, fields, depth = todo.pop()
        for name, value in fields.items():
            pointer = f"{at}/{_escaped(name)}"
            yield pointer, name, value, depth == 0
            if isinstance(value, dict) and depth < _DEEPEST and not any(part in name.lower() for part in _OTHER_DATA):
                todo.append((pointer, value, depth + 1))


def _looks_like_one(name: str, top: bool) -> bool:
    if any(part in name for part in _PARTS):
        return True
    words = name.replace(".", "_").split("_")
    return any(word.startswith(_BEGINNINGS) for word in words) or (top and not _WORDS.isdisjoint(words))


def _snake(name: str) -> str:
    """`responseFormat` as `response_format`."""
    return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name)).replace("-", "_")


def _escaped(name: str) -> str:
    return name[:_LONGEST].replace("~", "~0").replace("/", "~1")
