"""The JSON of a whole object, list, tuple or set as Python writes it: `{'a': True, 'b': (1, None)}`.

Some templates write arguments with Python's `str`, and models do the same. The region for literal arguments reads them,
fed once. So this is linear, without `eval` and without recursion.
"""

from __future__ import annotations

from functools import lru_cache

from narrows.events import Content, ToolCallArguments
from narrows.limits import Limits
from narrows.stream.literals.dialect import Dialect
from narrows.stream.machine import Machine
from narrows.stream.regions.literals import LiteralArguments
from narrows.stream.regions.raw_arguments import RawArguments
from narrows.stream.regions.text import Text
from narrows.stream.source import OF_TEXT
from narrows.tools.request import Tools

_PYTHON = Dialect(
    assign="=", close=")", quotes=("'", '"'), escapes=True, bare_keys=False, bare_strings=False, loose_quotes=None
)


def python_to_json(text: str, max_depth: int) -> str | None:
    """The JSON of the value that the text is; None where it is none, or is nested deeper than `max_depth`."""
    machine = Machine(OF_TEXT, Tools(None), str, _limits(max_depth))
    machine.text, machine.final = text, True
    machine.start_call("", (0, 0))
    home = Text(Content, "after")
    whole = LiteralArguments(_PYTHON, home, RawArguments(home)).read_value(machine)
    if not whole or machine.pos < len(text) or machine.trouble is not None:
        return None
    return "".join(event.text for event in machine.events if isinstance(event, ToolCallArguments))


@lru_cache(maxsize=16)
def _limits(max_depth: int) -> Limits:
    return Limits(stream_depth=max_depth + 1)
