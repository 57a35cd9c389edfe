"""What every engine refuses at once in a request, before it waits for a place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from narrows.engines.api import Request
from narrows.errors import InputError, LimitError, TokenError
from narrows.tokens import TokenVocabulary
from narrows.vocabulary.vocabulary import Vocabulary


def check_request(
    request: Request, *, vocabulary: Vocabulary, max_model_len: int, most_sequences: int, is_running: bool
) -> None:
    """Raises `InputError`, `TokenError`, and `LimitError` (`queue_full`, `context_length_exceeded`).

    most_sequences: those that may run and wait. is_running: whether a request with this id runs.
    """
    if request.n < 1:
        raise InputError(f"n must be at least 1, not {request.n}", code="sampling_params_invalid", pointer="/n")
    if request.n > most_sequences:
        raise LimitError(
            f"{request.n} sequences at once exceed the {most_sequences} that may run and wait",
            code="queue_full",
            pointer="/n",
            limit="max_queue",
            hint="Ask for fewer",
        )
    if is_running:
        raise InputError(f"a request {request.request_id!r} is running", code="request_id_in_use")
    count = len(request.prompt_token_ids)
    if count == 0:
        raise InputError("the prompt is empty", code="prompt_empty", hint="Give at least one token")
    size = vocabulary.size
    check_ids(request.prompt_token_ids, "prompt_token_ids", size)
    check_ids(request.output_token_ids, "output_token_ids", size)
    given, most = len(request.output_token_ids), request.sampling.max_tokens
    if most is not None and given > most:
        raise InputError(
            f"output_token_ids holds {given} tokens, and max_tokens allows {most}",
            code="sampling_params_invalid",
            pointer="/output_token_ids",
        )
    check_ids(request.sampling.stop_token_ids, "stop_token_ids", size)
    check_ids(list(request.sampling.logit_bias), "logit_bias", size)
    if request.constraint is not None and not _are_same(vocabulary, request.constraint.vocabulary):
        raise InputError(
            "the constraint was compiled for another vocabulary",
            code="vocabulary_mismatch",
            hint="Compile it with engine.vocabulary",
        )
    needed = most or given + 1
    if count + needed > max_model_len:
        raise LimitError(
            f"a prompt of {count} tokens and {needed} more exceed the context of {max_model_len} tokens",
            code="context_length_exceeded",
            limit="max_model_len",
            hint="Shorten the prompt or lower max_tokens",
        )


def _are_same(own: Vocabulary, other: TokenVocabulary) -> bool:
    """Whether `other` is the engine's vocabulary or an equal one, such as one read again from the same file."""
    return other is own or (other.size, other.eos_ids, other.special) == (own.size, own.eos_ids, own.special)


def check_ids(ids: Sequence[int], name: str, size: int) -> None:
    """Raises `InputError` or `TokenError`, with the pointer `/name`, unless all are ids below `size`."""
    if not ids:
        return
    try:
        low, high = min(ids), max(ids)
        np.asarray(ids, dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must hold token ids", code="token_invalid", pointer=f"/{name}") from None
    if low < 0 or high >= size:
        wrong = low if low < 0 else high
        raise TokenError(f"{name} holds {wrong}, outside 0..{size - 1}", pointer=f"/{name}")
