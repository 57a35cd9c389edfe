"""A Python function as a tool: its schema from its type hints, its descriptions from its docstring, and its call.

    tool_of(get_weather)                             # {"type": "function", "function": {"name": ..., ...}}
    call(get_weather, '{"city": "Oslo", "days": 2}') # checks the arguments and calls it

Pydantic reads the type hints, converts the arguments and says what is wrong with them. `docstring-parser` reads the
docstring, in the styles of Google, NumPy, Sphinx and Epydoc. Both come with `pip install 'narrows[typed]'`.

Cost: about a millisecond for each call of either function.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from narrows.arguments import FLAG, FUNCTION, TEXT, Kind, optional, quoted, wants
from narrows.errors import GrammarError, InputError
from narrows.grammar.json_schema.python_types import adapter_of, input_error, schema_from

_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_ARGUMENTS = Kind("JSON text or a mapping", lambda value: isinstance(value, (str, Mapping)))


def tool_of(function: Callable[..., Any], *, name: str | None = None, strict: bool = False) -> dict[str, Any]:
    """The tool in OpenAI's form. `name`: the function's own if it is not given. A parameter without a type hint takes
    anything; one with a default may be left out.

    Raises InputError: `tools_invalid` for a function without a usable name, `library_missing`. Raises GrammarError
    (`schema_invalid`) where Pydantic has no schema for a type hint, and where the parameters make no JSON object:
    `*args`, or some that are given by position alone.
    """
    wants(FUNCTION, function=function)
    wants(optional(TEXT), name=name)
    wants(FLAG, strict=strict)
    called = name or getattr(function, "__name__", "")
    if not called or len(called) > 64 or not _NAME.issuperset(called):
        hint = "A name has 1 to 64 letters, digits, - and _: tool_of(function, name=...)"
        raise InputError(f"a tool cannot be named {quoted(called)}", code="tools_invalid", pointer="/name", hint=hint)
    parameters = schema_from(_bound(function))
    if parameters.get("type") != "object":
        hint = "Remove the / from its signature"
        raise GrammarError(f"{called} takes arguments by position alone", code="schema_invalid", hint=hint)
    made: dict[str, Any] = {"name": called}
    description = _describe(function, parameters)
    if description:
        made["description"] = description
    made["parameters"] = parameters
    return {"type": "function", "function": {**made, "strict": True} if strict else made}


def call(function: Callable[..., Any], arguments: str | Mapping[str, Any]) -> Any:
    """Calls the function with arguments as a model writes them: JSON text, or the object that it stands for. They are
    converted to the types of the parameters. Of a coroutine function, the result is to be awaited.

    Raises InputError: `arguments_invalid` with the JSON pointer of the first one that does not fit, `library_missing`.
    What the function itself raises is passed on.
    """
    wants(FUNCTION, function=function)
    wants(_ARGUMENTS, arguments=arguments)
    adapter = adapter_of(_bound(function))
    from pydantic import ValidationError

    try:
        if isinstance(arguments, str):
            args, kwargs = adapter.validate_json(arguments)
        else:
            args, kwargs = adapter.validate_python(arguments)
    except ValidationError as error:
        raise input_error(error, "arguments_invalid") from error
    return function(*args, **kwargs)


def _bound(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the same parameters, which returns what it is called with."""

    @functools.wraps(function)
    def bound(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return args, kwargs

    bound.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return bound


def _describe(function: Callable[..., Any], parameters: dict[str, Any]) -> str:
    """Writes the docstring's words on each parameter into its schema, if that has none; returns those on the whole."""
    text = inspect.getdoc(function)
    if not text:
        return ""
    try:
        from docstring_parser import ParseError, parse
    except ImportError as error:
        raise InputError(
            "a function as a tool needs docstring-parser", code="library_missing", hint="pip install 'narrows[typed]'"
        ) from error
    try:
        read = parse(text)
    except ParseError:
        return text
    for parameter in read.params:
        schema = parameters["properties"].get(parameter.arg_name)
        if isinstance(schema, dict) and parameter.description:
            schema.setdefault("description", parameter.description)
    return read.description or ""
