"""Where a `Llama` is in its answer, and the matcher there.

A logits processor is shown the tokens that were evaluated so far, with no word on where the prompt ends or which place
is asked about. With a draft model the tokens behind that place are shown, too. So this counts calls: `Llama.generate`
asks once for each token that it samples. At the first question of a generation, all tokens are the prompt. At question
n, the token that was sampled last stands n - 1 places behind the prompt, whatever follows it.

Cost: one `accept` for each question.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from narrows.constraint import Constraint, Matcher
from narrows.errors import EngineError

Ids = NDArray[np.intc]


class Position:
    """The place in one generation after the other. For one thread."""

    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint
        self.matcher: Matcher = constraint.matcher()
        self._next = 0
        """Where the token stands that is sampled next."""

    def begin(self, ids: Ids) -> None:
        """A new generation. `ids`: its prompt."""
        self.matcher.reset()
        self._next = len(ids)

    def go_on(self, ids: Ids) -> None:
        """The next question of this generation. `ids`: the tokens that were evaluated, int32[tokens].

        Raises EngineError, code `tokens_disagree`, if the constraint does not allow the token that was sampled last, or
        if it is missing: something else has changed what this generation writes.
        """
        if self._next >= len(ids):
            raise _disagrees("the tokens of this generation are gone")
        token = int(ids[self._next])
        self._next += 1
        if self.matcher.is_finished:
            return
        if not self.matcher.accept(token):
            raise _disagrees(f"token {token} was sampled, which the constraint did not allow")


def _disagrees(what: str) -> EngineError:
    return EngineError(
        what,
        code="tokens_disagree",
        hint="Give the constraint as the last logits processor, and use one generator of a Llama at a time",
    )
