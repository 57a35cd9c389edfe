from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from narrows.events import Event

class Vocabulary:
    def __init__(
        self,
        bytes: NDArray[np.uint8],
        offsets: NDArray[np.uint64],
        end_tokens: Sequence[int],
        size: int,
        max_bytes: int,
    ) -> None: ...
    @property
    def size(self) -> int: ...
    def token_bytes(self, token: int) -> bytes: ...
    def extends(self, data: bytes) -> bool: ...
    def along(self, data: bytes) -> list[int]: ...
    def segment(self, data: bytes) -> list[int] | None: ...
    @property
    def shared_bytes(self) -> int: ...
    @property
    def trie_bytes(self) -> int: ...
    @property
    def trie_nodes(self) -> int: ...

class Constraint:
    @staticmethod
    def compile(vocabulary: Vocabulary, ir: dict[str, Any], limits: dict[str, Any]) -> Constraint: ...
    @property
    def bytes(self) -> int: ...
    @property
    def is_apart(self) -> bool: ...
    def stats(self) -> dict[str, int]: ...

class Matcher:
    def __init__(self, constraint: Constraint | Matcher) -> None: ...
    def fill_mask(self, row: NDArray[np.int32]) -> None:
        """Write the mask: which tokens may come now.

        row: a writable int32[ceil(V/32)], C-contiguous, for the vocabulary's size V. Bit t & 31 of word t >> 5 is 1 if
        token t is allowed. End tokens are allowed where `is_accepting`, other special tokens only where the grammar
        names them, and ids without bytes never. After the end (`is_finished`) it is all zero.

        Does not change the position. Cost: a copy, about a microsecond for 128,000 tokens, if the mask is known; else
        tens of microseconds, without the GIL. Raises InputError `mask_shape` or `wrong_type`, and LimitError
        `step_work` or `sequence_work`.
        """

    def accept(self, token: int) -> bool:
        """Take the token, if it is allowed. False, and nothing changes, if it is not.

        An end token that is taken ends the text (`is_finished`). After that every token is refused. Makes no mask.
        Cost: well under a microsecond if the token's bytes were seen at this place before. Raises TokenError for an id
        outside the vocabulary, and LimitError `step_work` or `sequence_work`; then nothing changes.
        """

    def try_accept(self, token: int) -> bool | None:
        """`accept`, but it never waits: None, and nothing changes, if it is not known yet where the token leads, or if
        another thread computes for the constraint. An end token is never known. For a thread that must not be held up.
        Raises TokenError for an id outside the vocabulary."""

    def try_accepts(self, tokens: Sequence[int]) -> int | None:
        """`accepts`, but it never waits: None if it is not known yet where the tokens lead, or if another thread
        computes for the constraint. Changes nothing. Raises TokenError for an id outside the vocabulary."""

    def accept_bytes(self, data: bytes) -> bool:
        """Take the bytes as one step, however they are cut into tokens. False, and nothing changes, if they do not fit.

        They are ordinary text: neither an end nor a special token. A character may be cut. Cost: linear in the bytes.
        Raises InputError `wrong_type`, and LimitError `step_work` or `sequence_work`.
        """

    def accepts(self, tokens: Sequence[int]) -> int:
        """How many of the tokens would be accepted in a row. Changes nothing, and makes no mask. Raises TokenError for
        an id outside the vocabulary, and LimitError `step_work` or `sequence_work`."""

    def rollback(self, n: int) -> None:
        """Take back the last n steps: a token is one, and so is each `accept_bytes`. Cost: that of cutting a list.
        Raises InputError `rollback_too_far` if there are fewer."""

    def reset(self) -> None:
        """Go back to the start of the text. What the constraint has computed is kept."""

    @property
    def is_accepting(self) -> bool:
        """Whether the text so far is a complete text of the grammar, so that it may end here."""

    @property
    def is_finished(self) -> bool:
        """Whether an end token was accepted. The mask is then all zero, and every token is refused."""

    def __len__(self) -> int:
        """The number of accepted steps: tokens, and calls of `accept_bytes`."""

    def forced_bytes(self, at_most: int = 65536) -> bytes:
        """The bytes that must come next, at most `at_most`: as long as there is one way to go on, and the text may not
        end before. b"" if there is none, or if a special token may come. A character may be cut. Changes nothing.
        Raises LimitError."""

    def single_tokens(self, at_most: int = 256) -> list[int]:
        """The next tokens as long as the mask has a single one, at most `at_most`. Changes nothing. `forced_tokens`
        says more. Cost: a mask for each token. Raises LimitError."""

    def only_token(self) -> int | None:
        """The special token that the grammar names here, if nothing else may come. None otherwise. Makes no mask."""

    def shortest_parts(self) -> list[bytes | int]:
        """What ends the text with the fewest bytes: bytes, and ids of tokens that the grammar names, in order.
        `shortest_end` has it as tokens. Raises InputError `no_shortest_end` if no end is within reach, and LimitError.
        """

    def explanation(self, token: int) -> dict[str, Any]:
        """The facts behind `explain`, as a dict: `allowed`, `offset`, `rules`, `expected` (bytes as ints),
        `end_expected` and `named_tokens`. Changes nothing. Raises TokenError for an id outside the vocabulary."""

    def fill_draft_masks(
        self, tokens: Sequence[int], rows: NDArray[np.int32], parents: Sequence[int] | None = None
    ) -> None:
        """The masks along a draft, in one call. Changes nothing.

        tokens: n ids. rows: int32[n + 1, ceil(V/32)], C-contiguous. Row 0 is the mask after the text so far, and row i
        + 1 that after tokens[i]. parents: for a tree, the index of the token that each one follows, -1 for the text so
        far; it must be smaller than the token's own. Without it, each follows the one before. Rows after a token that
        does not fit are all zero.

        Cost: that of an `accept` and a `fill_mask` for each token. Raises InputError `mask_shape`, `invalid_input` or
        `wrong_type`, TokenError, and LimitError.
        """

    def fill_ending_mask(self, at_most: int, row: NDArray[np.int32]) -> None:
        """The mask without the tokens after which more than `at_most` further tokens would be needed to end the text.
        The end token is not counted.

        Cost: that of a step for each token of the mask, and of a shortest end for each place that they lead to. So it
        is for the last tokens of a budget. Raises as `fill_mask` does, and InputError `no_shortest_end`.
        """

    def fill_healing_mask(self, before: bytes, row: NDArray[np.int32]) -> None:
        """The mask of the tokens that spell `before` again, or the beginning of it, and then go on as the grammar
        allows. For token healing: `before` is the end of a prompt that was taken away. Raises as `fill_mask` does."""

    def history(self, last: int = ...) -> list[int]:
        """The ids of the last accepted steps, in order. -1 stands for one of `accept_bytes`."""

    def steps(self) -> list[int | bytes]:
        """All accepted steps, in order: a token's id, or the bytes of one of `accept_bytes`."""

    @property
    def state_key(self) -> int:
        """A number for the place in the grammar. While the constraint's cache is not emptied (`Constraint.stats`,
        `epoch`), equal keys mean that equal texts may follow. It says nothing across constraints or processes."""

def fill_masks(matchers: Sequence[Matcher], rows: NDArray[np.int32], threads: int) -> None: ...

class Flattening:
    """Writes nodes of `narrows.grammar.ir` as arrays (core/bind/flatten.cpp). `tokens(node)` says where the ids of a
    `Token` or a `Marker` begin and how many there are; None for a marker that has none."""

    def __init__(
        self,
        rules: dict[str, Any],
        numbers: dict[str, int],
        tokens: Callable[[Any], tuple[int, int] | None],
        spent: int,
        most_work: int,
        most_nodes: int,
    ) -> None: ...
    def add(self, root: object) -> int: ...
    def arrays(self) -> dict[str, bytes]: ...
    @property
    def spent(self) -> int: ...

class Regular:
    """Terms by number (core/automata/regular.hpp). A question spends what is `left`, and raises LimitError beyond."""

    left: int
    def __init__(self, most_bytes: int, most_depth: int) -> None: ...
    def byte_set(self, bits: bytes) -> int: ...
    def literals(self, options: Sequence[bytes]) -> int: ...
    def substrings(self, text: bytes, characters: bool) -> int: ...
    def seq(self, first: int, rest: int) -> int: ...
    def alt(self, items: Sequence[int]) -> int: ...
    def both(self, items: Sequence[int]) -> int: ...
    def complement(self, item: int) -> int: ...
    def repeat(self, item: int, least: int, most: int | None) -> int: ...
    def matches(self, term: int, text: bytes) -> bool: ...
    def is_never(self, term: int) -> bool: ...
    def texts(self, term: int, most: int) -> list[bytes] | None: ...
    def derivative(self, term: int, byte: int) -> tuple[int, bytes]: ...
    def shape(self, term: int) -> tuple[Any, ...]: ...
    @property
    def bytes(self) -> int: ...

class JsonScanner:
    fault: str | None
    def __init__(self, max_depth: int) -> None: ...
    def scan(self, text: str, pos: int) -> int: ...
    def end_of_text(self) -> None: ...
    @property
    def done(self) -> bool: ...
    @property
    def flaw(self) -> str | None: ...
    @property
    def kind(self) -> str: ...
    @property
    def in_string(self) -> bool: ...

class Markers:
    def __init__(self, markers: tuple[str, ...]) -> None: ...
    def search(self, text: str, pos: int, final: bool) -> tuple[int, int]: ...
    def match(self, text: str, pos: int, final: bool) -> int: ...

class Run:
    """Says which text is plain at one kind of place (core/stream/run.hpp). Without an event class, text is written as
    arguments."""

    @staticmethod
    def of_text(markers: tuple[str, ...], event: type[Any] | None, stops: str = "", escapes: bool = False) -> Run: ...
    @staticmethod
    def of_name(stops: str, markers: tuple[str, ...] = (), lead: str = "") -> Run: ...
    @staticmethod
    def of_markers(markers: tuple[str, ...], whitespace_before: bool = False) -> Run: ...
    @staticmethod
    def of_json(scanner: JsonScanner) -> Run: ...
    @property
    def markers(self) -> tuple[str, ...]: ...
    resume: Callable[[Any, tuple[str, tuple[int, int]] | None], Any] | None
    """`resume(machine, named)` returns a region at the place where this run holds. It is called if links have led here.
    `named`: the name that was read, with its span, if nothing was written for it yet."""

    def link(
        self,
        marker: str | None,
        next: Run,
        written: str | None = None,
        key: Callable[[str, int], str | None] | None = None,
        ahead: Run | None = None,
    ) -> None:
        """After the marker, `next` holds. With None for the marker: if no marker comes. `written` are the arguments
        that the marker stands for. `key(name, place)` returns the text to write for the name before the marker, or
        None if a region must handle it. The text is written at once or, without `written`, together with the next
        link's. `key` may be called twice for one place. A text's marker waits until a name or a marker of `ahead` has
        come after it."""

class RunReader:
    def __init__(self, arguments: type[Any], longest: int) -> None: ...
    def feed(self, text: str) -> list[Event]:
        """More text. Returns the events that it adds, adjacent pieces of the same kind joined."""

    def _take_any_text(self) -> None: ...
    def _arm(self, run: Run, index: int, offset: int, unread: str) -> None: ...
    def _disarm(self) -> tuple[int, str, Any, tuple[str, tuple[int, int]] | None]: ...
    @property
    def _unread(self) -> str: ...
    def _read_plain(self, text: str) -> list[Any] | None: ...
