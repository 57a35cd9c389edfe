"""One sequence as llguidance keeps it: the tokens so far, whether it has stopped and why.

`LLMatcher` and `LLInterpreter` are faces of it. Errors are raised here; `LLMatcher` keeps them.

End tokens are no part of the matcher's text: they are counted beside it. Whether the text has ended is found out when
somebody asks, since that takes a mask.

Cost: a token is some microseconds of Python more than `narrows.Matcher`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from narrows.compat.llguidance import limits as parser_limits
from narrows.compat.llguidance.forced import forced_run, forced_tokens
from narrows.compat.llguidance.limits import LLParserLimits
from narrows.compat.llguidance.reading import Compiled, Read, read
from narrows.constraint import Matcher
from narrows.errors import ConcurrentUseError, InputError, LimitError, NarrowsError
from narrows.grammar.captures import by_their_ends

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from narrows.compat.llguidance.tokenizer import LLTokenizer

Mask = NDArray[np.int32]
"""int32[ceil(V/32)]: bit t & 31 of word t >> 5 is set if token t is allowed."""

NOT_STOPPED = "NotStopped"
_BYTES_KEPT = 20
"""For each character of a grammar: its text and rules, beside what the engine keeps."""
_GOES_ON_AFTER_ROLLBACK = (NOT_STOPPED, "EndOfSentence", "NoExtension", "NoExtensionBias")


class ParserError(InputError):
    """What llguidance's parser reports: code `parser_stopped`, `token_rejected`, `token_out_of_range`,
    `max_tokens_reached`, `no_token_fits`, `rollback_invalid`."""


def compiled_for(
    tokenizer: LLTokenizer, grammar: str | Mapping[str, Any], limits: LLParserLimits | None
) -> tuple[Compiled, object]:
    """The grammar compiled, and a lease that keeps it in the tokenizer's cache. A text that was compiled before costs a
    look-up."""
    bounds = parser_limits.of_narrows(limits)

    def compile_it() -> Compiled:
        return read(grammar, bounds).compiled(tokenizer.vocabulary, bounds)

    if not isinstance(grammar, str):
        return compile_it(), None
    lease = tokenizer._cache.get((grammar, bounds), compile_it, _BYTES_KEPT * len(grammar))
    return lease.value, lease


class Parser:
    """One sequence. For one thread at a time."""

    def __init__(
        self, tokenizer: LLTokenizer, compiled: Compiled, lease: object = None, *, verbose_errors: bool = True
    ) -> None:
        self.tokenizer = tokenizer
        self.grammar: Read = compiled.read
        self.limits = compiled.limits
        self.matcher: Matcher = compiled.constraint.matcher()
        self.tokens: list[int] = []
        self._lease = lease
        self._verbose_errors = verbose_errors
        self._ends: list[int] = []
        """Places in `tokens` of the end tokens that the matcher has not read."""
        self._left = compiled.read.max_tokens
        self._stop = NOT_STOPPED
        self._is_settled = True
        self._message: str | None = None
        self._forced: list[int] | None = None

    def copy(self) -> Parser:
        """An independent parser at the same place."""
        other = Parser.__new__(Parser)
        other.__dict__.update(self.__dict__)
        other.matcher, other.tokens, other._ends = self.matcher.fork(), list(self.tokens), list(self._ends)
        return other

    @property
    def words(self) -> int:
        """Of a mask."""
        return (self.tokenizer.vocab_size + 31) // 32

    @property
    def is_accepting(self) -> bool:
        """Whether the text may end here."""
        return self.matcher.is_accepting

    def captures(self) -> list[tuple[str, bytes]]:
        """What rules have captured in the text so far: names and texts, in the order in which they end."""
        if not self.grammar.has_captures:
            return []
        return [(one.name, one.data) for one in by_their_ends(self.matcher.captures(limits=self.limits))]

    @property
    def stop_reason(self) -> str:
        """Why the text is over, in llguidance's words. Finding out may take a mask."""
        self._settle()
        return self._stop

    @property
    def is_stopped(self) -> bool:
        """Whether no token but an end token may come."""
        return self.stop_reason != NOT_STOPPED

    # Going on.

    def consume(self, tokens: Sequence[int]) -> None:
        """Reads the tokens; whether the text has ended counts after the last one. Raises ParserError, after which the
        parser has stopped."""
        if tokens:
            self._must_go("consume_token")
        for token in tokens:
            self._consume(token)
        self._is_settled = False

    def try_consume(self, tokens: Sequence[int]) -> int:
        """Reads tokens as long as they fit. Returns how many."""
        for done, token in enumerate(tokens):
            if self.is_stopped or self.validate((token,)) == 0:
                return done
            self._consume(token)
            self._is_settled = False
        return len(tokens)

    def _consume(self, token: int) -> None:
        if self._left == 0:
            raise self._stopped("MaxTokensTotal", "max_tokens_total reached", "max_tokens_reached")
        if self._left is not None:
            self._left -= 1
        self._forced = None
        if token in self.tokenizer._table.eos and self.matcher.is_accepting:
            self._ends.append(len(self.tokens))
            self.tokens.append(token)
            return
        self._check_range(token)
        try:
            fits = not self._has_ended and self.matcher.accept(token)
        except LimitError as error:
            self._stopped("ParserTooComplex", str(error), error.code)
            raise
        if not fits:
            raise self._stopped("ParserTooComplex", self._rejected(token), "token_rejected")
        self.tokens.append(token)

    @property
    def _has_ended(self) -> bool:
        """Whether the last token is an end token."""
        return bool(self._ends) and self._ends[-1] == len(self.tokens) - 1

    def _rejected(self, token: int) -> str:
        text = self.tokenizer._table.debug([token])
        message = f'Parser Error: token "{text}" doesn\'t satisfy the grammar'
        if self._has_ended:
            return f"{message}; it stands after an end token"
        return f"{message}; {self.matcher.explain(token)}" if self._verbose_errors else message

    def _check_range(self, token: int) -> None:
        if token >= self.tokenizer.vocab_size:
            raise self._stopped("InternalError", f"token id {token} out of range", "token_out_of_range")

    def validate(self, tokens: Sequence[int]) -> int:
        """How many of the tokens, from the start, could be read. Raises ParserError for an id that is none."""
        if self.is_stopped or not tokens:
            return 0
        for token in tokens:
            self._check_range(token)
        ends = self.tokenizer._table.eos
        if not any(token in ends for token in tokens):
            return self.matcher.accepts(tokens)
        there = self.matcher.fork()
        for done, token in enumerate(tokens):
            if token in ends and there.is_accepting:
                return done + 1
            if not there.accept(token):
                return done
        return len(tokens)

    def rollback(self, count: int) -> None:
        """Takes back the last tokens."""
        if not count:
            return
        if count > len(self.tokens):
            raise ParserError(f"rollback: {count} > {len(self.tokens)}", code="rollback_invalid")
        if self.stop_reason in _GOES_ON_AFTER_ROLLBACK:
            self._stop = NOT_STOPPED
        self._must_go("rollback")
        rest = len(self.tokens) - count
        kept = [place for place in self._ends if place < rest]
        self.matcher.rollback(count - (len(self._ends) - len(kept)))
        self._ends = kept
        del self.tokens[rest:]
        if self._left is not None:
            self._left += count
        self._forced = None
        self._is_settled = True

    # What may come.

    def forced_tokens(self) -> list[int]:
        """The tokens that must come, in the tokenizer's own words."""
        if self._forced is None:
            tokens = self.tokenizer._tokens
            self._forced = []
            if tokens.is_canonical and not self.grammar.no_forcing:
                self._forced = forced_tokens(
                    self.matcher,
                    self.tokens[-1] if self.tokens else None,
                    tokens.table,
                    tokens.encode,
                    has_tokens=self.grammar.names_tokens,
                )
        return self._forced

    def forced_bytes(self) -> bytes:
        """The bytes that must come. A special token is the byte 0xFF and its id in brackets."""
        table = self.tokenizer._table
        return forced_run(self.matcher, table, has_tokens=self.grammar.names_tokens)[0]

    def fill_mask(self, row: Mask) -> None:
        """The tokens that may come next. Where tokens are forced, that is the first of them. Raises ParserError if the
        parser has stopped, or no token fits."""
        self._must_go("compute_mask")
        forced = self.forced_tokens()
        if forced:
            row[:] = 0
            set_bits(row, forced[:1])
            return
        try:
            self.matcher.fill_mask(row)
        except LimitError as error:
            self._stopped("ParserTooComplex", str(error), error.code)
            raise
        self.finish_mask(row)

    def finish_mask(self, row: Mask) -> None:
        """What is missing in a mask of the matcher: the end tokens."""
        if self.matcher.is_accepting:
            set_bits(row, self.tokenizer._table.eos)
        elif not row.any():
            raise self._stopped("NoExtensionBias", "NoExtensionBias", "no_token_fits")

    def fill_end_mask(self, row: Mask) -> None:
        """The end tokens alone."""
        row[:] = 0
        set_bits(row, self.tokenizer._table.eos)

    # Stopping.

    def _settle(self) -> None:
        """Finds out whether the text has ended."""
        if self._is_settled:
            return
        self._is_settled = True
        if self._stop != NOT_STOPPED or not self.matcher.is_accepting:
            return
        if self.tokens and self.tokens[-1] in self.tokenizer._table.eos:
            self._stop = "EndOfSentence"
            return
        row = np.zeros(self.words, np.int32)
        self.matcher.fill_mask(row)
        if not row.any():
            self._stop = "NoExtension"

    def _must_go(self, caller: str) -> None:
        if self.is_stopped:
            message = self._message or "no error message"
            raise ParserError(f"parser stopped in {caller}; {message}", code="parser_stopped")

    def _stopped(self, reason: str, message: str, code: str) -> ParserError:
        self._stop, self._message, self._is_settled = reason, message, True
        return ParserError(message, code=code)


def set_bits(row: Mask, tokens: Sequence[int]) -> None:
    """Allow these tokens in a mask."""
    words = row.view(np.uint32)
    for token in tokens:
        words[token >> 5] |= np.uint32(1 << (token & 31))


def is_kept(error: NarrowsError) -> bool:
    """Whether an error is one of the sequence, which `LLMatcher` keeps, and not one of its caller."""
    return not isinstance(error, ConcurrentUseError)
