"""Holds `transformers`' `generate` to grammars: a logits processor.

    vocabulary = narrows.Vocabulary.from_transformers(tokenizer, size=model.config.vocab_size)
    constraint = vocabulary.compile(narrows.Grammar.from_json_schema(schema))
    model.generate(**inputs, logits_processor=[LogitsProcessor(constraint)], max_new_tokens=200)

Right for batches with a constraint for each prompt, padding, beams, several sequences for a prompt, and assisted and
prompt-lookup decoding: the state of a row is found by its tokens (rows.py).

Cost for each step: the masks (microseconds for each row, once they are known), one copy of rows * size / 8 bytes to the
device, and there one pass over the scores.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

from narrows.constraint import Constraint, fill_masks
from narrows.errors import InputError
from narrows.plugins.transformers.rows import Rows

_BITS: NDArray[np.int32] = (np.uint32(1) << np.arange(32, dtype=np.uint32)).view(np.int32)


class LogitsProcessor(transformers.LogitsProcessor):  # type: ignore[misc]
    """For one call of `generate` after the other. Another call is known by its prompts: they are not the ones of the
    call before, with at most one token more than it had. To be sure, make a new processor; that costs nothing."""

    supports_continuous_batching = False

    def __init__(self, constraints: Constraint | Sequence[Constraint | None]) -> None:
        """`constraints`: one for all prompts of a batch, or a list with one for each; None leaves a prompt free.

        Raises InputError `rows_invalid` for an empty list, and for constraints of vocabularies of different sizes.
        """
        given = [constraints] if isinstance(constraints, Constraint) else list(constraints)
        sizes = {constraint.vocabulary.size for constraint in given if constraint is not None}
        if not given or len(sizes) > 1:
            raise InputError(
                "constraints is one, or a list of those of one vocabulary", code="rows_invalid", pointer="/constraints"
            )
        self._rows = Rows(given)
        self._words = (next(iter(sizes), 0) + 31) // 32
        self._bits: torch.Tensor | None = None
        """The bits of a word, on the device of the scores."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """The scores, with minus infinity for each token that is not allowed. Scores beyond the vocabulary are those of
        no token. A row that has ended is left as it is."""
        rows = self._rows.at(input_ids.cpu().numpy())
        if not self._words:
            return scores
        masks = np.zeros((len(rows), self._words), dtype=np.int32)
        made = [(place, row.matcher) for place, row in enumerate(rows) if row.is_open]
        filled = np.empty((len(made), self._words), dtype=np.int32)
        fill_masks([matcher for _, matcher in made if matcher is not None], filled)
        masks[[place for place, _ in made]] = filled
        free = [place for place, row in enumerate(rows) if not row.is_open and not row.is_lost]
        masks[free] = -1
        refused = self._refused(masks, scores.device)
        missing = scores.shape[-1] - refused.shape[1]
        if missing > 0:  # what lies beyond is no token, and free rows keep it
            refused = torch.nn.functional.pad(refused, (0, missing), value=True)
            if free:
                refused[free] = False
        return scores.masked_fill(refused[:, : scores.shape[-1]], -torch.inf)

    def _refused(self, masks: NDArray[np.int32], device: torch.device) -> torch.Tensor:
        """bool[rows, words * 32] of the masks int32[rows, words]: which tokens are not allowed."""
        if device.type == "cpu":
            bits = np.unpackbits((~masks).view(np.uint8), axis=1, bitorder="little")
            return torch.from_numpy(bits).view(torch.bool)
        if self._bits is None or self._bits.device != device:
            self._bits = torch.from_numpy(_BITS).to(device)
        return (torch.from_numpy(masks).to(device).unsqueeze(-1) & self._bits == 0).flatten(1)
