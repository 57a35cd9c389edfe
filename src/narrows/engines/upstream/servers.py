"""The servers that narrows can stand before: how each is asked, and how its events are read.

Each kind says which of the sampling parameters it knows; what it does not know is refused, not dropped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any

from narrows.engines.api import Request, SamplingParams
from narrows.engines.upstream.pieces import Piece
from narrows.errors import UnsupportedError
from narrows.grammar.export import Dialect, Written
from narrows.vocabulary.vocabulary import Vocabulary

Reader = Callable[[dict[str, Any]], Piece]
"""Reads the events of one answer, in order."""


class Server(ABC):
    """One kind of server. It has no state of a request."""

    kind: str
    path = "/v1/completions"
    health = "/health"
    dialect: Dialect | None = None
    """The language of its grammars. None: it takes none that is as strict."""
    takes_ids = True
    """Whether a prompt may be token ids."""
    knows_end_tokens = False
    """Whether a grammar may name the model's end tokens."""
    names_are_text = True
    """Whether it takes a special token for the characters of its name, where a grammar allows these characters."""
    unknown: Collection[str] = ()
    """Fields of SamplingParams that it does not know."""

    def __init__(self, model: str, vocabulary: Vocabulary) -> None:
        self.model = model
        self.vocabulary = vocabulary

    def check(self, request: Request) -> None:
        """Raises `UnsupportedError` code `upstream_unsupported` for what this server cannot do."""
        for name in self.unknown:
            if getattr(request.sampling, name) != getattr(_DEFAULTS, name):
                raise UnsupportedError(
                    f"{name} cannot be handed to this upstream ({self.kind})",
                    code="upstream_unsupported",
                    pointer=f"/{name}",
                    hint="Leave it out",
                )

    @abstractmethod
    def body(
        self, request: Request, prompt: list[int], seed: int | None, most: int, grammar: Written | None
    ) -> dict[str, Any]:
        """The body of the request for one sequence. `prompt`: with the tokens that its output begins with. `most`: the
        tokens that it may generate."""

    @abstractmethod
    def reader(self, request: Request) -> Reader:
        """A reader for one answer."""

    def banned(self, grammar: Written | None) -> list[int]:
        """Special tokens that may not come: under a grammar, those that it does not name. Without this, a server that
        compares texts could write the token of a name where the grammar allows the name's characters."""
        if grammar is None or not self.names_are_text:
            return []
        ends = self.vocabulary.eos_ids
        return [
            token for token in self.vocabulary.special.values() if token not in grammar.tokens and token not in ends
        ]


_DEFAULTS = SamplingParams()
