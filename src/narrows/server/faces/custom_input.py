"""The input of a custom tool. The model writes it as the one argument of a call, `{"input": "..."}`, since its wire
format has arguments. Clients get the text itself, piece by piece.

Cost: linear in the text. Holds back at most the twelve characters of an escape.
"""

from __future__ import annotations

import json
from typing import Any

NAME = "input"
_SHORT = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}


def parameters(description: str) -> dict[str, Any]:
    """The schema of the arguments."""
    text = {"type": "string", "description": description}
    return {"type": "object", "properties": {NAME: text}, "required": [NAME], "additionalProperties": False}


def arguments(text: str) -> str:
    """The arguments that stand for this input."""
    return json.dumps({NAME: text}, ensure_ascii=False)


class InputText:
    """Reads arguments as they come."""

    def __init__(self) -> None:
        self._quotes = 0
        """Quotes so far: two around the name, two around the text."""
        self._skip = False
        """The next character is escaped, in the name."""
        self._held = ""
        """The beginning of an escape."""

    def feed(self, arguments: str) -> str:
        """The text that these further characters of the arguments stand for."""
        out: list[str] = []
        at = 0
        while at < len(arguments):
            if self._quotes == 3 and not self._held:
                ends = (arguments.find("\\", at), arguments.find('"', at))
                end = min((end for end in ends if end >= 0), default=len(arguments))
                out.append(arguments[at:end])
                at = end
                if at == len(arguments):
                    break
            character = arguments[at]
            at += 1
            if self._quotes == 3 and (self._held or character == "\\"):
                self._held += character
                out.append(self._escaped())
            elif self._skip:
                self._skip = False
            elif character == "\\":
                self._skip = True
            elif character == '"':
                self._quotes += 1
        return "".join(out)

    def _escaped(self) -> str:
        """What the held escape stands for. "" if it is not whole, and then it stays held."""
        held = self._held
        if held[1:2] != "u":
            text = "" if len(held) < 2 else _SHORT.get(held[1], held)
        elif held[2:3] not in "dD" or held[3:4] not in "89abAB":
            text = "" if len(held) < 6 else chr(int(held[2:], 16))
        else:  # the first half of a pair: JSON under a grammar always has the second one
            text = "" if len(held) < 12 else json.loads(f'"{held}"')
        if text:
            self._held = ""
        return text
