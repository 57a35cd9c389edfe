"""Every bound that narrows keeps on input from strangers, in one place.

Limits count work and memory, never seconds: the same input meets the same limit on every machine. A field states its
unit, its default and what that default costs; `tests/test_limits.py` holds a test that hits each one. Reaching a limit
raises `LimitError`, which names the field, so that a caller who trusts the input can raise exactly that bound.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from narrows.arguments import of, quoted
from narrows.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on one compilation, one sequence and one stream. Immutable; use `dataclasses.replace` to vary it."""

    # Front ends: what a stranger sends.
    reading_work: int = 1_000_000
    """Units of work (sub-schemas, characters, ranges of classes, alternatives, digits, nodes) that reading one grammar
    may take, from its text to the arrays of the core; some 1 us each, so 1 s. All tools of a request are one
    grammar."""
    schema_bytes: int = 8_000_000
    """Bytes of a JSON Schema's text."""
    schema_depth: int = 512
    """Levels of nesting inside a JSON Schema or any JSON value in it."""
    schema_places: int = 30_000
    """Sub-schemas of one schema that are reached; about 50 us each."""
    schema_branches: int = 10_000
    """Alternatives of one place of a schema after `anyOf` is distributed over its siblings, and schemas that hold there
    at once."""
    number_digits: int = 400
    """Digits of a bound on a number (`minimum` ...) when written without exponent; each digit is a branch of an
    automaton."""
    grammar_bytes: int = 4_000_000
    """Bytes of a grammar's text."""
    regex_bytes: int = 65_536
    """Bytes of one regular expression."""
    nesting: int = 1_000
    """Open groups at any point of a regular expression or grammar text."""
    ir_nodes: int = 1_000_000
    """Nodes of the intermediate form that one grammar may lower to, literals counted by one node each 16 bytes; some 3
    us each."""

    # Vocabularies.
    vocabulary_tokens: int = 4_000_000
    """Token ids of one vocabulary, padding included; a byte each for a hole, about 100 bytes each for a token."""
    token_bytes: int = 65_536
    """Bytes of one token."""

    # The compiled grammar.
    states: int = 1_000_000
    """States of the transition networks of one grammar; about 40 bytes each."""
    term_depth: int = 400
    """Nesting of one terminal's regular expression after simplification. At most 4,000 are used, whatever stands
    here."""

    # Work and memory while matching.
    step_work: int = 20_000_000
    """Units of work (derivatives, stack operations, trie nodes) that one step or one mask may take; some 5 ns each, so
    0.1 s."""
    sequence_work: int = 1_000_000_000
    """The same units for all calls of one sequence, and as many again for each 10,000 tokens of its text; so 5 s, and
    0.5 ms a token. Masks and steps that are known cost nothing. A fork begins with what was spent, and a rollback gives
    nothing back."""
    live_items: int = 8_192
    """Parallel readings of the text that may be open at once."""
    object_keys: int = 128
    """Additional keys of one object that may not come again, in any spelling; those after them may. A key costs some
    0.1 ms once."""
    constraint_bytes: int = 64_000_000
    """Bytes of remembered configurations and masks of one constraint. When full, they are dropped and built again; a
    call may go on to twice as many."""
    vocabulary_bytes: int = 256_000_000
    """Bytes of automaton states and their masks that the constraints of one vocabulary share. When full, likewise."""

    # The stream parser: what is held back of one answer.
    stream_name_chars: int = 1_024
    """Characters of an open name, key or id, and of whitespace whose meaning is open. Longer: it was no markup, but
    text."""
    stream_held_chars: int = 1_000_000
    """Characters held from an opening marker until its call has a name, or of one value until its type is known.
    Longer: the former is content, the latter a string. One to four bytes each."""
    stream_depth: int = 512
    """Open brackets in one call's JSON. Deeper: the call ends incomplete. Eight bytes each."""
    stream_keys: int = 10_000
    """Names of one call's arguments, and of the objects open in them, that are kept, so that one given twice counts
    once (where they are not JSON). More: the call ends incomplete. Some 200 bytes each, and their text."""

    # The server: one request, and what is kept between requests.
    body_bytes: int = 8_388_608
    """Bytes of a request body. JSON in it may nest 200 levels."""
    body_values: int = 1_000_000
    """JSON values in a request body, and in one call's arguments in it; some 0.5 us and 60 bytes each."""
    bodies_bytes: int = 268_435_456
    """Bytes of all request bodies that are being read or looked at. Beyond, requests are told to come back."""
    messages: int = 10_000
    """Messages of one conversation, and tool calls in them."""
    tools: int = 1_024
    """Tools of one request."""
    stop_strings: int = 64
    """Stop texts of one request."""
    stop_characters: int = 4_096
    """Characters of all stop texts of one request; each sequence of it has some 60 bytes for each."""
    stop_token_ids: int = 1_024
    """Token ids of one request that end an answer."""
    sequences: int = 128
    """Sequences of one request: prompts times `n`."""
    logprob_values: int = 500_000
    """Log-probabilities that one answer may have: sequences times tokens times (1 + `top_logprobs`); some 300 bytes
    each."""
    unknown_fields: int = 1_000
    """Fields of one request that the server does not know, those inside unknown objects included; some 0.1 ms each."""
    compile_queue: int = 64
    """Grammars that may wait to be compiled at once; one client has at most as many as there are places left. Further
    requests are told to come back."""
    reading_bytes: int = 1_000_000_000
    """Bytes that the process which reads long schemas and grammars may take, beyond the 45 MB that it starts with.
    Where the system can bound a process (Linux)."""
    grammar_cache_entries: int = 256
    """Compiled grammars kept for the next request with the same definition."""
    grammar_cache_bytes: int = 256_000_000
    """Bytes that compiled grammars hold as they are used, those of running requests included. Those that no request
    uses are dropped to keep it, least recently used first. Where what is used alone comes near it, a client that uses
    as much as is left gets no new ones; running sequences may go beyond it by `constraint_bytes` each. Besides, all
    grammars share `vocabulary_bytes`."""
    prompt_cache_characters: int = 1_048_576
    """Characters of prompt pieces (tools, earlier turns) whose token ids are kept for the next request; some 12 bytes
    each."""

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 60:
                raise InputError(
                    f"Limits.{f.name} must be a positive integer below 2**60, not {quoted(value)}",
                    code="limits_invalid",
                )


DEFAULT_LIMITS = Limits()
LIMITS = of("narrows.Limits", Limits)
