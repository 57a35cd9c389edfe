"""`LLInterpreter`: one sequence, for a caller that lets the grammar write what is forced.

    interpreter.process_prompt(prompt)            the prompt, its end open for longer tokens
    mask, json = interpreter.compute_mask()       None for the mask: the text is over
    backtrack, tokens = interpreter.commit_token(token)   what to add: the token, and those that are forced after it

What rules capture is reported when the text is over. Temperatures of rules are not reported, so grammars that have them
are refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from narrows.compat.llguidance import misuse
from narrows.compat.llguidance.encoders import encode_marked
from narrows.compat.llguidance.forced import Goes, chopped, forced_run
from narrows.compat.llguidance.limits import LLParserLimits
from narrows.compat.llguidance.matcher import biases
from narrows.compat.llguidance.memory import rows_at
from narrows.compat.llguidance.parser import Mask, Parser, compiled_for
from narrows.compat.llguidance.tokenizer import LLTokenizer
from narrows.errors import InputError, UnsupportedError
from narrows.grammar import ir
from narrows.grammar.grammar import Grammar

_PREFIX = "%prefix"
"""The rule of what a prompt's last tokens had, and the model writes again."""
_NOT_COUNTED = (
    "rows",
    "cached_rows",
    "all_items",
    "lexer_cost",
    "slices_applied",
    "trie_nodes_walked",
    "definitive_bytes",
    "lexer_ops",
    "num_lex_errors",
    "num_lexemes",
)
"""llguidance's counts of its own work. They are 0 here."""


class LLInterpreter:
    """grammar: as for `LLMatcher`. enable_backtrack: nothing is ever taken back here. enable_ff_tokens: `commit_token`
    adds the tokens that are forced. log_level is kept and has no effect.

    Raises InputError (a ValueError) and LimitError for a grammar that cannot be used, and UnsupportedError, code
    `temperature_unsupported`.
    """

    def __init__(
        self,
        tokenizer: LLTokenizer,
        grammar: str | Mapping[str, Any],
        enable_backtrack: bool | None = None,
        enable_ff_tokens: bool | None = None,
        log_level: int | None = None,
        limits: LLParserLimits | None = None,
    ) -> None:
        if not isinstance(tokenizer, LLTokenizer):
            raise misuse.wrong_type("tokenizer", "an LLTokenizer", tokenizer)
        compiled, lease = compiled_for(tokenizer, grammar, limits)
        if compiled.read.temperatures:
            raise UnsupportedError(
                f"an interpreter does not report temperatures of rules: {compiled.read.temperatures[0]}",
                code="temperature_unsupported",
            )
        if enable_ff_tokens is not False and not tokenizer.is_canonical:
            raise InputError(
                "ff_tokens requires canonical tokenization",
                code="not_canonical",
                hint="Install tokenizers, or set enable_backtrack=False and enable_ff_tokens=False",
            )
        self._parser = Parser(tokenizer, compiled, lease)
        self._adds_forced = enable_ff_tokens is not False
        self.log_level = 1 if log_level is None else log_level
        self._is_started = False
        self._has_mask = False
        """Whether a mask was made and no token has come since."""
        self._is_over = False
        self._pending_stop = False
        self._text = bytearray()
        self._prefix = 0
        """Bytes at the start of `_text` that belong to the prompt."""
        self._reported = [0, 0]
        """Bytes and tokens of the text that `progress` has had."""
        self._is_generated = False
        self._started_at = time.monotonic()

    def deep_copy(self) -> LLInterpreter:
        """An independent interpreter at the same place."""
        other = LLInterpreter.__new__(LLInterpreter)
        other.__dict__.update(self.__dict__)
        other._parser = self._parser.copy()
        other._text = bytearray(self._text)
        other._reported = list(self._reported)
        return other

    def is_accepting(self) -> bool:
        """Whether the text may end here."""
        return self._parser.is_accepting

    def stop_reason(self) -> str:
        """Why the text is over: one of llguidance's names, such as `NotStopped` or `EndOfSentence`."""
        return self._parser.stop_reason

    def has_pending_stop(self) -> bool:
        """Whether the next `compute_mask` says that the text is over."""
        return self._pending_stop

    # The start.

    def start_without_prompt(self) -> None:
        """Raises InputError, code `called_twice`, after the start."""
        self._start()

    def process_prompt(self, prompt: Sequence[int]) -> list[int]:
        """The prompt, with the tokens that are forced at its end, and without those at its end that the model might
        write otherwise together with what follows. It writes their bytes again."""
        ids = misuse.token_ids("prompt", prompt)
        self._start()
        parser, tokens = self._parser, self._parser.tokenizer._tokens
        if not tokens.is_canonical:
            return ids
        table = tokens.table
        before = table.raw(ids)
        run, after = b"", None
        if not parser.grammar.no_forcing:
            run, after = forced_run(parser.matcher, table, has_tokens=parser.grammar.names_tokens)
        made, fixed = encode_marked(before + run, tokens.encode, table)
        goes = Goes(parser.matcher.fork() if after is None else after, table)
        cut, length = chopped(table, made[fixed:], goes.beyond)
        if length <= len(run):
            self._go_on(run[: len(run) - length])
        else:
            data = before + run
            self._write_again(data[len(data) - length : len(before)])
        return made[: len(made) - cut]

    def _start(self) -> None:
        if self._is_started:
            raise InputError("the interpreter has started already", code="called_twice", hint="Make one per sequence")
        self._is_started = True

    def _go_on(self, run: bytes) -> None:
        """Reads what is part of the prompt already."""
        parser = self._parser
        ids, _ = encode_marked(run, parser.tokenizer._tokens.encode, parser.tokenizer._table)
        parser.consume(ids)
        self._text += parser.tokenizer._table.raw(ids)

    def _write_again(self, prefix: bytes) -> None:
        """Puts bytes of the prompt before the grammar."""
        parser = self._parser
        module = parser.grammar.grammar.module
        rules = {**module.rules, _PREFIX: ir.seq(ir.Bytes(prefix), ir.Ref(module.start))}
        changed = Grammar(ir.Module(rules, _PREFIX, module.sources, module.places))
        parser.matcher = parser.tokenizer.vocabulary.compile(changed, parser.limits).matcher()
        self._prefix = len(prefix)

    # Going on.

    def validate_tokens_raw(self, tokens: Sequence[int]) -> int:
        """How many of the tokens, from the start, could be read."""
        return self._parser.validate(misuse.token_ids("tokens", tokens))

    def compute_mask(self) -> tuple[bytes | None, str]:
        """(a byte for each token: 200 if it is allowed, else 0; JSON about the text since the last call). None for the
        mask if the text is over. Raises InputError (a ValueError) if it was over before."""
        row, about = self._mask()
        if row is None:
            return None, about
        return biases(row, self._parser.tokenizer.vocab_size), about

    def compute_mask_into(self, trg: bytearray) -> str:
        """Writes a bit for each token, in words of 32; none if the text is over."""
        if not isinstance(trg, bytearray) or len(trg) < self._parser.words * 4:
            raise InputError("Invalid buffer size", code="mask_invalid")
        row, about = self._mask()
        trg[:] = bytes(len(trg)) if row is None else row.astype("<i4").tobytes().ljust(len(trg), b"\0")
        return about

    def unsafe_compute_mask_ptr(self, trg_pointer: int, trg_byte_size: int) -> str:
        """Writes the mask to memory at an address; the end token alone if the text is over."""
        target = rows_at(trg_pointer, trg_byte_size, 1, self._parser.words)[0]
        return self._fill(target)

    def _fill(self, target: Mask) -> str:
        row, about = self._mask()
        if row is None:
            self._parser.fill_end_mask(target)
        else:
            target[:] = row
        return about

    def _mask(self) -> tuple[Mask | None, str]:
        if not self._is_started:
            self._start()
        if self._is_over:
            raise InputError("compute_mask() called after stop", code="parser_stopped")
        self._started_at = time.monotonic()
        if self._parser.stop_reason in ("EndOfSentence", "NoExtension"):
            self._is_over = self._pending_stop = True
            return None, self._about()
        row = np.zeros(self._parser.words, np.int32)
        self._parser.fill_mask(row)
        self._has_mask = True
        return row, self._about()

    def commit_token(self, sampled_token: int | None) -> tuple[int, list[int]]:
        """(how many tokens to take back, which is 0; the tokens to add: this one, and those that are forced after
        it). Nothing where no mask was made, or the text is over."""
        if self._is_over or not self._has_mask:
            return 0, []
        if sampled_token is None:
            raise InputError("sampled_token is required when mask was present", code="token_missing")
        token = misuse.count("sampled_token", sampled_token)
        tokens = [token]
        self._consume(tokens)
        if self._adds_forced and not self._parser.is_stopped:
            forced = list(self._parser.forced_tokens())
            self._consume(forced)
            tokens += forced
        self._pending_stop = self._parser.is_stopped
        self._has_mask = False
        return 0, tokens

    def _consume(self, tokens: Sequence[int]) -> None:
        table = self._parser.tokenizer._table
        for token in tokens:
            ends = token in table.eos and self._parser.is_accepting
            self._parser.consume((token,))
            if not ends:
                self._text += table.raw([token])

    # What is reported.

    def _about(self) -> str:
        new = bytes(self._text[self._prefix + self._reported[0] :])
        captures = self._parser.captures() if self._is_over else []
        progress: list[dict[str, Any]] = [
            *[{"object": "capture", "name": name, **_shown(data), "log_prob": 0.0} for name, data in captures],
            {
                "object": "text",
                **_shown(new),
                "log_prob": 0.0,
                "num_tokens": max(len(self._parser.tokens) - self._reported[1], 0),
                "is_generated": self._is_generated,
                "stats": {
                    "runtime_us": int((time.monotonic() - self._started_at) * 1e6),
                    "compute_time_us": int((time.monotonic() - self._started_at) * 1e6),
                    **dict.fromkeys(_NOT_COUNTED, 0),
                },
            },
        ]
        self._reported = [self._reported[0] + len(new), len(self._parser.tokens)]
        self._is_generated = not self._is_over
        if self._is_over:
            text = bytes(self._text[self._prefix :])
            progress.append({"object": "final_text", **_shown(text), "stop_reason": self._parser.stop_reason})
        return json.dumps({"progress": progress, "stop": self._is_over, "temperature": 0.0})


def _shown(data: bytes) -> dict[str, str]:
    return {"str": data.decode("utf-8", "replace"), "hex": data.hex()}
