"""Reads objects of a body by hand, each with its place, and refuses what would constrain and is not understood.

Large values are taken by reference, as in protocol.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from pydantic import ValidationError

from narrows.arguments import quoted
from narrows.errors import InputError, UnsupportedError
from narrows.limits import Limits
from narrows.server import elsewhere, foreign
from narrows.server.errors import RequestError, from_validation
from narrows.server.fields import Model, kind_of, pointer_to
from narrows.server.sizes import check_sizes

M = TypeVar("M", bound=Model)

SHARED = frozenset(
    "seed top_k min_p presence_penalty frequency_penalty repetition_penalty logit_bias min_tokens ignore_eos priority "
    "chat_template_kwargs disable_additional_properties repetition_detection stop_at_repeated_call structured_outputs "
    "thinking_token_budget".split()
) | frozenset(elsewhere.NAMES)
"""Fields of chat completions that every face takes at the top of its body, beside its own."""


def top(model: type[M], body: Any, limits: Limits, instead: dict[str, str]) -> tuple[M, dict[str, Any]]:
    """The body's top as the face's model, and the shared fields in it. Raises `InputError` and `LimitError`.

    `instead`: our name of a constraint -> the face's, for hints. Unknown fields that would constrain are refused. The
    others stay in `model_extra`."""
    if not isinstance(body, dict):
        raise RequestError("Input should be an object", code="invalid_type", pointer="")
    names = {field.alias or name for name, field in model.model_fields.items()}
    check_sizes(body, len(names) + len(SHARED), limits)
    shared = {name: body[name] for name in SHARED if name in body and name not in names}
    own = {name: value for name, value in body.items() if name not in shared and value is not None}
    foreign.check_top({name: value for name, value in own.items() if name not in names}, names, limits, instead)
    try:
        return model.model_validate(own), shared
    except ValidationError as error:
        raise from_validation(error) from None


class Fields:
    """An object of the body. Raises `RequestError` where the value is none."""

    def __init__(self, value: Any, pointer: str) -> None:
        if not isinstance(value, dict):
            raise RequestError(f"Input should be an object, not {kind_of(value)}", code="invalid_type", pointer=pointer)
        self.all: dict[str, Any] = value
        self.pointer = pointer

    def at(self, name: str) -> str:
        """The place of a field."""
        return pointer_to(self.pointer, name)

    def text(self, name: str, default: str | None = None) -> str:
        """A string. With `default`, null stands for that; without it, the field must be there."""
        value = self.all.get(name)
        if value is None and default is not None:
            return default
        if value is None:
            raise RequestError("Field required", code="missing_field", pointer=self.at(name))
        if not isinstance(value, str):
            raise RequestError(
                f"Input should be a string, not {kind_of(value)}", code="invalid_type", pointer=self.at(name)
            )
        return value

    def one_of(self, name: str, options: Iterable[str], default: str | None = None) -> str:
        """One of these strings."""
        value = self.text(name, default)
        if value not in options:
            raise unknown(value, options, self.at(name))
        return value

    def objects(self, name: str) -> Iterator[Fields]:
        """The objects of a list. None of them where the field is null or not there."""
        value = self.all.get(name)
        if value is not None and not isinstance(value, list):
            raise RequestError(
                f"Input should be an array, not {kind_of(value)}", code="invalid_type", pointer=self.at(name)
            )
        for i, item in enumerate(value or ()):
            yield Fields(item, f"{self.at(name)}/{i}")

    def flag(self, name: str) -> bool | None:
        """A boolean, or None where it is not there."""
        value = self.all.get(name)
        if value is not None and not isinstance(value, bool):
            raise RequestError(
                f"Input should be a boolean, not {kind_of(value)}", code="invalid_type", pointer=self.at(name)
            )
        return value

    def only(self, known: Iterable[str], harmless: Iterable[str] = ()) -> None:
        """Refuse every field that is neither `known` nor `harmless`, unless it is empty. For objects that hold a
        constraint."""
        known = tuple(known)
        extra = {name: value for name, value in self.all.items() if name not in known}
        foreign.check_inside(extra, known, frozenset(harmless), self.pointer)


def unknown(value: str, options: Iterable[str], pointer: str) -> InputError:
    return InputError(
        f"Input should be one of {', '.join(options)}, not {quoted(value)}", code="invalid_value", pointer=pointer
    )


def left_out(what: str, pointer: str, hint: str = "Leave it out") -> UnsupportedError:
    """The error for a part of an API that is not there."""
    return UnsupportedError(f"{what} is not supported", pointer=pointer, code="field_unsupported", hint=hint)
