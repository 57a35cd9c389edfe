"""narrows as the backend of vLLM's structured outputs: its interfaces StructuredOutputBackend and
StructuredOutputGrammar.

vLLM has one backend per engine, in the scheduler's process. narrows' backend takes the place of xgrammar's or
guidance's and holds that one. Without the flag, everything but narrows' own tool calls goes to the inner backend. Both
write the same bitmasks, so that requests of both kinds share a batch.

Grammars are compiled in vLLM's thread pool. One grammar object belongs to one sequence, also if n > 1. It keeps its
position over a preemption, because vLLM keeps it with the request. Cost per sequence and step: see narrows.Matcher,
plus a microsecond of Python for each row.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from vllm.logger import init_logger
from vllm.v1.structured_output.backend_types import (
    StructuredOutputBackend,
    StructuredOutputGrammar,
    StructuredOutputOptions,
)

from narrows.compile_cache import Lease
from narrows.constraint import Constraint
from narrows.errors import NarrowsError, without_frames
from narrows.plugins.vllm import grammar_request
from narrows.plugins.vllm.masking import constraints
from narrows.plugins.vllm.masking.constraints import Constraints, Definition, of_structured_outputs
from narrows.plugins.vllm.masking.stopping_matcher import Row, StoppingMatcher

logger = init_logger("vllm.narrows")

BACKEND = "narrows"
"""The name for `--structured-outputs-config.backend`."""
SWITCH = "NARROWS_VLLM_STRUCTURED_OUTPUTS"
"""The environment variable that makes the backend "auto" mean narrows."""

_KINDS = {
    StructuredOutputOptions.JSON: "json",
    StructuredOutputOptions.JSON_OBJECT: "json_object",
    StructuredOutputOptions.REGEX: "regex",
    StructuredOutputOptions.CHOICE: "choice",
    StructuredOutputOptions.GRAMMAR: "grammar",
    StructuredOutputOptions.STRUCTURAL_TAG: "structural_tag",
}
_WITH_JSON = ("json", "json_object", "structural_tag")


def takes_all(config: Any) -> bool:
    """Whether a `StructuredOutputsConfig` (or the environment variable) gives all structured outputs to narrows, not
    only its tool calls."""
    if config.backend == BACKEND:
        return True
    return config.backend == "auto" and os.environ.get(SWITCH, "").lower() in ("1", "true", "yes", "on")


def definition(params: Any, config: Any, extra_args: dict[str, Any] | None = None) -> Definition | None:
    """The definition in a request's `StructuredOutputsParams` and extra arguments. None if another backend handles the
    request."""
    kind = "grammar" if params.grammar is not None else "other"
    if not _takes(kind, params.grammar or "", takes_all(config)):
        return None
    has_own = constraints.ADDITIONAL_ARG in (extra_args or ())
    additional = constraints.reading(extra_args) if has_own else closing(config)
    return of_structured_outputs(params, config.disable_any_whitespace, additional)


def closing(config: Any) -> str | None:
    """The value of `additional` that vLLM's own flag asks for. None if the flag is not set."""
    return "declared" if getattr(config, "disable_additional_properties", False) else None


def _takes(kind: str, text: str, takes_all: bool) -> bool:
    return takes_all or (kind == "grammar" and grammar_request.is_for_tools(text))


class Backend(StructuredOutputBackend):
    """Takes the place of `inner_class`. vLLM calls it as `inner_class(vllm_config, tokenizer=..., vocab_size=...)`."""

    inner_class: ClassVar[type[Any]]

    def __init__(self, vllm_config: Any, tokenizer: Any, vocab_size: int) -> None:
        self.vllm_config = vllm_config
        self.tokenizer = tokenizer
        self.vocab_size = vocab_size
        self._config = self.vllm_config.structured_outputs_config
        self._takes_all = takes_all(self._config)
        self._inner: Any = None
        if not self._takes_all:
            self.vocab_size = getattr(self.inner, "vocab_size", self.vocab_size)
        self._constraints: Constraints | None = None
        self._rows = RowViews()

    @property
    def inner(self) -> Any:
        """vLLM's own backend, made at the first use."""
        if self._inner is None:
            self._inner = self.inner_class(self.vllm_config, tokenizer=self.tokenizer, vocab_size=self.vocab_size)
        return self._inner

    @property
    def constraints(self) -> Constraints:
        if self._constraints is None:
            self._constraints = constraints.of_model(self.tokenizer, self.vllm_config.model_config, self.vocab_size)
        return self._constraints

    def compile_grammar(
        self, request_type: StructuredOutputOptions, grammar_spec: str, stop_token_ids: set[int] | None = None
    ) -> StructuredOutputGrammar:
        """The grammar of one sequence. An error fails only that request."""
        kind = _KINDS.get(request_type)
        if kind is not None and _takes(kind, grammar_spec, self._takes_all):
            compact = kind in _WITH_JSON and self._config.disable_any_whitespace
            if kind == "json":
                definition = constraints.of_json(grammar_spec, compact, closing(self._config))
            elif kind == "grammar":
                definition = constraints.of_grammar(grammar_spec)
            elif kind == "structural_tag":
                definition = constraints.of_structural_tag(grammar_spec, compact, closing(self._config))
            else:
                definition = Definition(kind, grammar_spec, compact)
            lease = self.constraints.lease(definition)
            return Grammar(StoppingMatcher(lease.value, stop_token_ids), self._rows, lease)
        return self.inner.compile_grammar(request_type, grammar_spec, stop_token_ids=stop_token_ids)

    def allocate_token_bitmask(self, max_num_seqs: int) -> torch.Tensor:
        """int32[max_num_seqs, ceil(V/32)], all ones."""
        if self._inner is not None:
            return self._inner.allocate_token_bitmask(max_num_seqs)
        return torch.full((max_num_seqs, (self.vocab_size + 31) // 32), -1, dtype=torch.int32)

    def destroy(self) -> None:
        self._constraints = None
        if self._inner is not None:
            self._inner.destroy()


class Grammar(StructuredOutputGrammar):
    """The grammar of one sequence, with vLLM's interface."""

    __slots__ = ("_failed", "_lease", "_rows", "matcher")

    def __init__(self, matcher: StoppingMatcher, rows: RowViews, lease: Lease[Constraint] | None = None) -> None:
        self.matcher = matcher
        self._lease = lease  # keeps the constraint in use while this object lives
        self._rows = rows
        self._failed: NarrowsError | None = None

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Append these tokens. False makes vLLM end only this request with an error."""
        try:
            for token in tokens:
                if self._failed is None and self.matcher.accept(token):
                    continue
                reason = self._failed or f"token {token} does not fit"
                logger.error("The grammar of request %s cannot go on: %s", request_id, reason)
                return False
        except NarrowsError as error:
            self._failed = without_frames(error)  # its frames hold this object
            logger.error("The grammar of request %s cannot go on: %s", request_id, error)
            return False
        return True

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """The longest prefix that the grammar accepts from here. Changes nothing."""
        try:
            return tokens[: self.matcher.accepts(tokens)]
        except NarrowsError:
            return []  # without drafts the step is only slower; `accept_tokens` meets the error again

    def rollback(self, num_tokens: int) -> None:
        self.matcher.rollback(num_tokens)

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        """Write the mask of the next token into this row."""
        self.fill(self._rows.of(bitmask)[batch_index])

    def fill(self, row: Row) -> None:
        """As `fill_bitmask`, into int32[ceil(V/32)]. If this exceeds a limit, the request fails at its next token."""
        try:
            self.matcher.fill_mask(row)
        except NarrowsError as error:
            self.fail(error, row)

    def fill_drafts(self, tokens: Sequence[int], rows: Row) -> None:
        """The masks along a chain of drafts, int32[len(tokens) + 1, ceil(V/32)]. The position does not change."""
        try:
            self.matcher.fill_draft_masks(tokens, rows)
        except NarrowsError as error:
            for row in rows:
                self.fail(error, row)

    def fail(self, error: NarrowsError, row: Row) -> None:
        """Keep the error for `accept_tokens`, which can end this request alone. Until then only end tokens may come."""
        self._failed = without_frames(error)
        self.matcher.fill_ends(row)

    def is_terminated(self) -> bool:
        """Whether vLLM may stop masking. Always False: after the end only end tokens are allowed, which matters with
        `ignore_eos`."""
        return False

    def reset(self) -> None:
        self.matcher.reset()
        self._failed = None


class RowViews:
    """A NumPy view of vLLM's bitmask. An engine uses one tensor all its life, so the view is made once."""

    __slots__ = ("_tensor", "_view")

    def __init__(self) -> None:
        self._tensor: torch.Tensor | None = None
        self._view: Row = np.empty((0, 0), dtype=np.int32)

    def of(self, tensor: torch.Tensor) -> Row:
        """int32[rows, words]: the tensor's own memory."""
        if tensor is not self._tensor:
            self._view, self._tensor = tensor.numpy(), tensor
        return self._view


def standing_in_for(inner_class: type[Any]) -> type[Backend]:
    """The backend class that replaces `inner_class` in vLLM."""
    return type(f"NarrowsOver{inner_class.__name__}", (Backend,), {"inner_class": inner_class})
