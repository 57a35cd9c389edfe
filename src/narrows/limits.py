"""All bounds on untrusted input.

Limits count work and memory, never seconds, so that the same input reaches the same limit on every machine. Each field
states its unit and the cost of its default. `tests/test_limits.py` names a test that reaches each limit. Reaching a
limit raises `LimitError`, which names the field. So a caller who trusts the input can raise exactly that limit.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from narrows.arguments import of, quoted
from narrows.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on one compilation, one sequence and one stream. Immutable: `dataclasses.replace` changes a field."""

    # Front ends: untrusted input.
    reading_work: int = 1_000_000
    """Units of work (sub-schemas, characters, ranges of classes, alternatives, digits, nodes, each 8 bytes of a text to
    sort) to read one grammar, from its text to the arrays of the core. Some 1 us each, so 1 s. All tools of a request
    are one grammar."""
    schema_bytes: int = 8_000_000
    """Bytes of a JSON Schema's text."""
    schema_depth: int = 512
    """Levels of nesting inside a JSON Schema or any JSON value in it."""
    schema_places: int = 30_000
    """Sub-schemas of one schema that are reached. About 50 us each."""
    schema_branches: int = 10_000
    """Alternatives of one place of a schema after `anyOf` is distributed over its siblings. Also the number of schemas
    that apply there at once."""
    number_digits: int = 400
    """Digits of a bound on a number (`minimum` ...), written without exponent. Each digit is a branch of an
    automaton."""
    grammar_bytes: int = 4_000_000
    """Bytes of a grammar's text, or of the text whose parts it allows."""
    regex_bytes: int = 65_536
    """Bytes of one regular expression."""
    nesting: int = 1_000
    """Open groups at any point of a regular expression or grammar text."""
    ir_nodes: int = 1_000_000
    """Nodes of the intermediate form of one grammar. Each 16 bytes of a literal count as one node. Some 3 us each."""

    # Vocabularies.
    vocabulary_tokens: int = 4_000_000
    """Token ids of one vocabulary, including padding. A byte for each unused id, about 100 bytes for each token."""
    token_bytes: int = 65_536
    """Bytes of one token."""

    # The compiled grammar.
    states: int = 1_000_000
    """States of the transition networks of one grammar. About 40 bytes each."""
    term_depth: int = 400
    """Nesting of one terminal's regular expression after simplification. Values above 4,000 count as 4,000."""

    # Work and memory while matching.
    step_work: int = 40_000_000
    """Units of work (derivatives, stack operations, trie nodes) of one step or one mask. Some 5 to 10 ns each, so 0.2
    to 0.4 s. Compiling tries the costly masks of a text with several rules, and they may take half of that."""
    sequence_work: int = 1_000_000_000
    """The same units for all calls of one sequence, and as many again for each 10,000 tokens of its text. So 5 to
    10 s, and 1 ms a token at most. Cached masks and steps cost nothing. A fork begins with the units spent so far. A
    rollback gives none back."""
    live_items: int = 8_192
    """Parallel readings of the text that are open at once."""
    object_keys: int = 128
    """Additional keys of one object that are remembered, so that they cannot be repeated in any spelling. Later keys
    can be repeated. Some 0.1 ms for each key, once."""
    constraint_bytes: int = 64_000_000
    """Bytes of the cached configurations and masks of one constraint. When the cache is full, it is emptied and built
    again. A running call may use up to twice as many."""
    vocabulary_bytes: int = 256_000_000
    """Bytes of automaton states and their masks that the constraints of one vocabulary share. Emptied when full."""

    # Captures: one text that is read again to find them.
    capture_work: int = 10_000_000
    """Units of work (items, moves, states of terminals) to find the captures of one text. Some 0.5 us and 10 bytes
    each, so 5 s and 100 MB. A byte of a text takes 5 to 30 where there is one reading."""

    # The stream parser: text of one answer that is held back.
    stream_name_chars: int = 1_024
    """Characters of an open name, key or id, and of whitespace whose meaning is open. If there are more, they are text
    and not markup. Also those of a key in the pointers that `JsonValues` reports."""
    stream_held_chars: int = 1_000_000
    """Characters held from an opening marker until its call has a name, or of one value until its type is known. If
    there are more, the former are content, the latter a string. One to four bytes each."""
    stream_depth: int = 512
    """Open brackets in one call's JSON. With more, the call ends incomplete. Eight bytes each. Also those in a text
    that `JsonValues` reads."""
    stream_keys: int = 10_000
    """Names of one call's arguments, and of the objects open in them, that are kept. So a name that is given twice
    counts once, in arguments that are not JSON. With more, the call ends incomplete. Some 200 bytes each, and their
    text."""

    # The server: one request, and the caches between requests.
    body_bytes: int = 8_388_608
    """Bytes of a request body. Its JSON may be nested 200 levels deep."""
    body_values: int = 1_000_000
    """JSON values in a request body, and in the arguments of one call in it. Some 0.5 us and 60 bytes each. Also those
    in a text that `JsonValues` reads."""
    bodies_bytes: int = 268_435_456
    """Bytes of all request bodies that are being read or processed. Further requests are told to retry later."""
    messages: int = 10_000
    """Messages of one conversation. Also the number of tool calls in them."""
    tools: int = 1_024
    """Tools of one request."""
    select_options: int = 1_000
    """Options of one request that are scored as a whole. Each costs the computation of its tokens."""
    stop_strings: int = 64
    """Stop texts of one request. Also the pointers of the values that end its answers, and of those that it asks
    for."""
    stop_characters: int = 4_096
    """Characters of all stop texts of one request, and of such pointers. Some 60 bytes each for every sequence."""
    stop_token_ids: int = 1_024
    """Stop token ids of one request."""
    sequences: int = 128
    """Sequences of one request: prompts times `n`."""
    embedding_inputs: int = 2_048
    """Inputs of one request for embeddings. Each costs the computation of its tokens."""
    logprob_values: int = 500_000
    """Log-probabilities of one answer: sequences times tokens times (1 + `top_logprobs`). Some 300 bytes each."""
    unknown_fields: int = 1_000
    """Unknown fields of one request, including those inside unknown objects. Some 0.1 ms each."""
    compile_queue: int = 64
    """Grammars that wait to be compiled. One client may have at most as many as there are free places. Further requests
    are told to retry later."""
    reading_bytes: int = 1_000_000_000
    """Bytes of the process that reads long schemas and grammars, in addition to the 45 MB of its start. Enforced only
    if the system can limit a process (Linux)."""
    grammar_cache_entries: int = 256
    """Compiled grammars kept for the next request with the same definition."""
    grammar_cache_bytes: int = 256_000_000
    """Bytes of compiled grammars, including those of running requests. To stay below, those that no request uses are
    dropped, the least recently used first. If the grammars in use alone come near the limit, a client that uses as much
    as is left gets no new ones. Running sequences may exceed it by `constraint_bytes` each. In addition, all grammars
    share `vocabulary_bytes`."""
    prompt_cache_characters: int = 1_048_576
    """Characters of prompt pieces (tools, earlier turns) whose token ids are cached for later requests. Some 12 bytes
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
