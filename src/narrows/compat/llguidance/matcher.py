"""`LLMatcher`: one sequence held to a grammar. Errors of the grammar and of the sequence are kept, not raised."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar

import numpy as np

from narrows.compat.llguidance import limits as parser_limits
from narrows.compat.llguidance import misuse, vocabularies
from narrows.compat.llguidance.json_options import KEY
from narrows.compat.llguidance.limits import LLParserLimits
from narrows.compat.llguidance.memory import rows_at
from narrows.compat.llguidance.parser import NOT_STOPPED, Mask, Parser, compiled_for, is_kept
from narrows.compat.llguidance.reading import read, regex_grammar
from narrows.compat.llguidance.regex_to_lark import regex_to_lark
from narrows.compat.llguidance.tokenizer import LLTokenizer
from narrows.errors import InputError, NarrowsError

_Result = TypeVar("_Result")
_ALLOWED = 200
"""The bias of a token that is allowed."""


class JsonCompileOptions(TypedDict, total=False):
    """How JSON is spelled (json_options.py)."""

    item_separator: str | None
    key_separator: str | None
    whitespace_pattern: str | None
    whitespace_flexible: bool | None
    coerce_one_of: bool | None
    lenient: bool | None
    json_allowed_escapes: str | None
    json_allow_general_unicode_escapes: bool | None


class LLMatcher:
    """grammar: a Lark text, or JSON of grammars as a text or a dict (reading.py). log_level has no effect.

    A grammar that cannot be read, a limit, or a token that does not fit makes the matcher an error for good:
    `is_error()`, `get_error()`. Only misuse raises: an argument of a wrong type, a mask of a wrong size, a matcher in
    two threads at once.
    """

    def __init__(
        self,
        tokenizer: LLTokenizer,
        grammar: str | Mapping[str, Any],
        *,
        log_level: int | None = None,
        limits: LLParserLimits | None = None,
    ) -> None:
        if not isinstance(tokenizer, LLTokenizer):
            raise misuse.wrong_type("tokenizer", "an LLTokenizer", tokenizer)
        bounds = limits or LLParserLimits()
        parser_limits.of_narrows(bounds)
        self._tokenizer = tokenizer
        self._parser: Parser | None = None
        self._error = ""
        try:
            compiled, lease = compiled_for(tokenizer, grammar, limits)
            self._parser = Parser(tokenizer, compiled, lease, verbose_errors=bounds.verbose_errors)
        except NarrowsError as error:
            self._error = said(error)

    # Grammars.

    @staticmethod
    def grammar_from_json_schema(
        schema: str | Mapping[str, Any],
        defaults: JsonCompileOptions | None = None,
        overrides: JsonCompileOptions | None = None,
    ) -> str:
        """The text of a grammar for a JSON Schema. Options count in the order defaults, the schema's `x-guidance`,
        overrides. Raises InputError, code `json_invalid`; whether it is a schema is found out later."""
        if defaults is None and overrides is None:
            text = schema if isinstance(schema, str) else _json(schema)
            return f'{{ "grammars": [{{ "json_schema": {text} }}] }}'
        value = _value(schema)
        if not isinstance(value, dict):
            raise InputError("Expecting object schema to apply options", code="schema_invalid")
        own = value.get(KEY)
        options = {} if defaults is None else dict(_value(defaults))
        options.update(own if isinstance(own, dict) else {})
        options.update({} if overrides is None else _value(overrides))
        entry = {"name": "json_schema", "json_schema": {**value, KEY: options}, "lark_grammar": None}
        return _json({"grammars": [entry], "max_tokens": None})

    @staticmethod
    def grammar_from_lark(lark: str) -> str:
        """The text itself."""
        return lark

    @staticmethod
    def grammar_from_regex(regex: str) -> str:
        """The text of a grammar for a pattern of Rust's `regex`."""
        return _json(regex_grammar(regex_to_lark(regex, "")))

    @staticmethod
    def validate_grammar(
        grammar: str | Mapping[str, Any], tokenizer: LLTokenizer | None = None, *, limits: LLParserLimits | None = None
    ) -> str:
        """ "" for a grammar that can be used, otherwise the error. With warnings and no error: "WARNING: ..."."""
        is_error, messages = LLMatcher.validate_grammar_with_warnings(grammar, tokenizer, limits=limits)
        if not messages:
            return ""
        return messages[0] if is_error else "WARNING: " + "\n".join(messages)

    @staticmethod
    def validate_grammar_with_warnings(
        grammar: str | Mapping[str, Any], tokenizer: LLTokenizer | None = None, *, limits: LLParserLimits | None = None
    ) -> tuple[bool, list[str]]:
        """(is_error, the error or the warnings). Without a tokenizer, special tokens are not looked for."""
        bounds = parser_limits.of_narrows(limits)
        try:
            made = read(grammar, bounds)
            if tokenizer is not None:
                made.compiled(tokenizer.vocabulary, bounds)
            elif made.names_tokens:
                return False, [*made.warnings, "no tokenizer - can't validate <special_token>"]
            else:
                made.compiled(vocabularies.of_bytes().vocabulary, bounds)
        except NarrowsError as error:
            return True, [said(error)]
        return False, list(made.warnings)

    # The state.

    def is_error(self) -> bool:
        """Whether there was an error. Then `get_error` has its text."""
        return bool(self._error)

    def get_error(self) -> str:
        """ "" if there is none."""
        return self._error

    def get_grammar_warnings(self) -> list[str]:
        """What is enforced more loosely or more tightly than the grammar says."""
        return [] if self._parser is None else list(self._parser.grammar.warnings)

    def deep_copy(self) -> LLMatcher:
        """An independent matcher at the same place."""
        other = LLMatcher.__new__(LLMatcher)
        other._tokenizer, other._error = self._tokenizer, self._error
        other._parser = None if self._parser is None else self._parser.copy()
        return other

    def is_accepting(self) -> bool:
        """Whether the text may end here."""
        return self._of(lambda parser: parser.is_accepting, False)

    def is_stopped(self) -> bool:
        """Whether no token but an end token may come. Also true for an error."""
        return self._of(lambda parser: parser.is_stopped, True)

    def stop_reason(self) -> str:
        """Why the text is over: one of llguidance's names, such as `NotStopped` or `EndOfSentence`."""
        return self._of(lambda parser: parser.stop_reason, "InternalError")

    # Going on.

    def consume_token(self, sampled_token: int) -> bool:
        """False if the token does not fit; then the matcher is an error. An end token after the end changes
        nothing."""
        token = misuse.count("sampled_token", sampled_token)
        if token in self._tokenizer._table.eos and self.is_stopped():
            return True
        return self._consume((token,))

    def consume_tokens(self, sampled_tokens: Sequence[int]) -> bool:
        """False if one of them does not fit; then the matcher is an error."""
        return self._consume(misuse.token_ids("sampled_tokens", sampled_tokens))

    def _consume(self, tokens: Sequence[int]) -> bool:
        def consume(parser: Parser) -> bool:
            parser.consume(tokens)
            return True

        return self._of(consume, False)

    def try_consume_tokens(self, tokens: Sequence[int]) -> int:
        """Reads tokens as long as they fit. Returns how many."""
        ids = misuse.token_ids("tokens", tokens)
        return self._of(lambda parser: parser.try_consume(ids), 0)

    def validate_tokens(self, tokens: Sequence[int]) -> int:
        """How many of the tokens, from the start, could be read. Changes nothing, but an id that is none makes the
        matcher an error."""
        ids = misuse.token_ids("tokens", tokens)
        return self._of(lambda parser: parser.validate(ids), int(ids[:1] == [self._tokenizer.eos_token]))

    def rollback(self, num_tokens: int) -> bool:
        """Takes back the last tokens. False if there are not so many; then the matcher is an error."""
        count = misuse.count("num_tokens", num_tokens)

        def back(parser: Parser) -> bool:
            parser.rollback(count)
            return True

        return self._of(back, False)

    def reset(self) -> bool:
        """Back to the start. An error stays one."""
        return self.rollback(0 if self._parser is None else len(self._parser.tokens))

    # What may come.

    def compute_ff_tokens(self) -> list[int]:
        """The tokens that must come next, as the tokenizer writes them."""
        return self._of(lambda parser: list(parser.forced_tokens()), [])

    def compute_ff_bytes(self) -> bytes:
        """The bytes that must come next. A special token is the byte 0xFF and its id in brackets."""
        return self._of(lambda parser: parser.forced_bytes(), b"")

    def compute_bitmask(self) -> bytes:
        """A bit for each token, in words of 32."""
        return self._mask().astype("<i4").tobytes()

    def compute_logit_bias(self) -> bytes:
        """A byte for each token: 200 if it is allowed, else 0."""
        return biases(self._mask(), self._tokenizer.vocab_size)

    def unsafe_compute_mask_ptr(self, trg_pointer: int, trg_byte_size: int) -> None:
        """Writes the mask to memory at an address. Raises InputError, code `mask_invalid`, for a wrong size."""
        self._fill(rows_at(trg_pointer, trg_byte_size, 1, self._words)[0])

    def unsafe_compute_mask_ptr_with_draft_token(
        self, trg_pointer: int, trg_byte_size: int, draft_tokens: Sequence[int]
    ) -> None:
        """The mask, and after it those along the draft tokens, as long as these fit."""
        draft = misuse.token_ids("draft_tokens", draft_tokens)
        self._fill_along(rows_at(trg_pointer, trg_byte_size, len(draft) + 1, self._words), draft)

    @property
    def _words(self) -> int:
        return (self._tokenizer.vocab_size + 31) // 32

    def _mask(self) -> Mask:
        row = np.zeros(self._words, np.int32)
        self._fill(row)
        return row

    def _fill(self, row: Mask) -> None:
        """After the end, and for an error: the end tokens."""

        def fill(parser: Parser) -> bool:
            if parser.is_stopped:
                return False
            parser.fill_mask(row)
            return True

        if not self._of(fill, False):
            row[:] = 0
            for token in self._tokenizer._table.eos:
                row.view(np.uint32)[token >> 5] |= np.uint32(1 << (token & 31))

    def _is_plain(self) -> bool:
        """Whether the mask is what the engine's matcher says, and the end tokens."""
        return self._of(lambda parser: not parser.is_stopped and not parser.forced_tokens(), False)

    def _finish(self, row: Mask) -> None:
        """What is missing in a mask of the engine's matcher."""

        def finish(parser: Parser) -> bool:
            parser.finish_mask(row)
            return True

        if not self._of(finish, False):
            self._fill(row)

    def _fill_along(self, rows: Mask, draft: Sequence[int]) -> None:
        read_ones = 0
        for place, row in enumerate(rows):
            self._fill(row)
            if place == len(draft) or self.is_stopped() or not self.try_consume_tokens([draft[place]]):
                break
            read_ones += 1
        if read_ones:
            self.rollback(read_ones)

    # Captures.

    def get_capture(self, name: str) -> bytes | None:
        """The last text of this name (get_captures); None if there is none."""
        return dict(self.get_captures()).get(name)

    def get_captures(self) -> list[tuple[str, bytes]]:
        """What rules have captured in the text so far (`Matcher.captures`), each in its final extent, in the order in
        which they end. llguidance also lists what a rule had while it could still go on.

        Cost: the text is read again."""
        return self._of(lambda parser: parser.captures(), [])

    def _of(self, ask: Callable[[Parser], _Result], otherwise: _Result) -> _Result:
        """What the parser says. `otherwise` for an error, which is kept if it is new."""
        if self._parser is None or self._error:
            return otherwise
        try:
            return ask(self._parser)
        except NarrowsError as error:
            if not is_kept(error):
                raise
            self._error = said(error)
            return otherwise

    def __repr__(self) -> str:
        state = "error" if self._error else "open" if self.stop_reason() == NOT_STOPPED else self.stop_reason()
        return f"<narrows.compat.llguidance.LLMatcher, {state}>"


def biases(row: Mask, size: int) -> bytes:
    """A byte for each token: 200 if it is allowed, else 0."""
    bits = np.unpackbits(row.astype("<i4").view(np.uint8), count=size, bitorder="little")
    made: bytes = (bits * np.uint8(_ALLOWED)).tobytes()
    return made


def said(error: NarrowsError) -> str:
    """The text of an error as a matcher keeps it, with its code."""
    return f"{error} [{error.code}]"


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"this is not JSON: {error}", code="json_invalid") from None


def _value(source: Any) -> Any:
    if not isinstance(source, str):
        return json.loads(_json(source))
    try:
        return json.loads(source)
    except (ValueError, RecursionError) as error:
        raise InputError(f"this is not valid JSON: {error}", code="json_invalid") from None
