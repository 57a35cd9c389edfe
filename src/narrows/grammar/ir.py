"""The intermediate form (IR). Every front end lowers to it; the core and the oracle (narrows.reference) read it.

A `Module` is a set of named rules over bytes. The nodes are immutable values and may be shared. The content of a
`Lexeme`, `And` or `Not` is regular (no `Ref`, no `Marker`, no `Token`). It becomes one lazily determinised automaton.
Other nodes become transition networks with a stack. Any context-free grammar is allowed: the core handles left
recursion, ambiguity and nullable loops.

The placement of `Lexeme` decides the speed, never the meaning. Masks are cached per automaton state, for all grammars
of a vocabulary. So a string, a number, and a run of spaces should each be a lexeme of its own, built the same way
wherever it occurs. In modules that have no marks, fuse.py finds the maximal regular parts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Union


@dataclass(frozen=True, slots=True)
class Bytes:
    """Exactly these bytes; b"" is the empty text."""

    data: bytes


@dataclass(frozen=True, slots=True)
class ByteSet:
    """One byte out of a set; bit b of `bits` is set if byte b is in it. No bits: nothing matches."""

    bits: int


@dataclass(frozen=True, slots=True)
class Literals:
    """One of these byte strings: an enum, a choice, property names. Up to hundreds of thousands; duplicates are
    harmless."""

    options: tuple[bytes, ...]


Unit = Literal["characters", "pieces"]
CUT = b"\xff"
END = b"\xfe"


@dataclass(frozen=True, slots=True)
class Substrings:
    """A part of a text, or the empty text. The text may have some megabytes: its suffixes are sorted, in linear time,
    and no node is made for a part.

    `unit`: "characters" allows any run of characters of UTF-8. With "pieces", `text` has the byte `CUT` where a part
    may end and another one may begin, and `END` where one may only end; a part may also begin with the text. UTF-8 has
    neither byte, and neither is read. What comes after the last of them belongs to no part.

    `read`: only the parts that begin with these bytes, and of these what comes after."""

    text: bytes
    unit: Unit = "characters"
    read: bytes = b""


@dataclass(frozen=True, slots=True)
class Seq:
    """The items one after the other. No items: the empty text."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alt:
    """Any of the items. No items: nothing matches."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The item `min` to `max` times (None: without end). Inside a lexeme, bounds are counters: large ones cost
    nothing."""

    item: Node
    min: int = 0
    max: int | None = None


@dataclass(frozen=True, slots=True)
class And:
    """Texts that match all items. Regular only."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Byte strings that do not match the item; usually inside an `And`. Regular only."""

    item: Node


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A regular part that becomes one automaton."""

    item: Node


@dataclass(frozen=True, slots=True)
class Capture:
    """What is reported of the text that a rule reads (narrows.grammar.captures). It changes no text and no mask.

    With `body` and `end`, the text is one of `body` and then one of `end`, and the latter is reported apart. `body`
    takes as much as it can. Both are regular."""

    name: str | None
    """None: the text is not reported."""
    end_name: str | None = None
    """The name of the text of `end`, if it is reported."""
    body: Node | None = None
    end: Node | None = None
    hides_end: bool = False
    """The text of `end` is left out of all captures that hold it, too."""


@dataclass(frozen=True, slots=True)
class Ref:
    """The rule of this name."""

    name: str
    capture: Capture | None = None
    is_ignored: bool = False
    """The text stands between others: no capture ends with it, and nothing in it is captured."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A wire-format marker: the special token of this name if the vocabulary has one, else these characters."""

    text: str


@dataclass(frozen=True, slots=True)
class Token:
    """One token out of these ids, whatever its bytes; with `negate`, any token except these and the end tokens.

    `names`: special tokens that count with the ids. A vocabulary that lacks one of them cannot have the grammar."""

    ids: tuple[int, ...]
    negate: bool = False
    names: tuple[str, ...] = ()


NameSpelling = Literal["bytes", "json", "single"]


@dataclass(frozen=True, slots=True)
class Distinct:
    """A lexeme that reads a name, such as a key of an object. Within one run of the rule that holds it, no name is read
    twice.

    `spelling` says which bytes are the same name. "bytes": equal bytes. "json" and "single": bytes that spell the same
    string, in JSON or in Python between single quotes, however it is escaped. A string is never the same name as bytes.
    Only the first `Limits.object_keys` names are compared. The lexeme must not match the empty text. Wherever it is
    read, it must match more names than have been read by then, or as many as that limit: so another name is always
    possible. A `Guard` before it can see to that.

    `name`: the only name that the lexeme reads, whatever its bytes, such as a declared key with its colon. For a string
    it is the string in UTF-8. Such names are compared without being read, and beyond that limit, too."""

    item: Lexeme
    spelling: NameSpelling = "bytes"
    name: bytes | None = None


MOST_COUNTED = 2**30 - 1
"""Most tokens that `Counted` can bound."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A lexeme that reads at most `most` tokens, at least one. A token that begins before the lexeme and ends in it
    counts, and so does one that begins in it and ends after it. Where the lexeme cannot end after so many tokens, it
    goes on until it can: the language is that of the lexeme, cut into tokens. Where text is read as bytes, nothing is
    counted."""

    item: Lexeme
    most: int


@dataclass(frozen=True, slots=True)
class Guard:
    """Reads nothing. Matches where all of these names have been read in this run of the rule that holds it; with
    `negate`, where at least one has not. The names are those of `Distinct.name`, at least one.

    From wherever a text can stand, some way on must be open. What a rule reads must not depend on names alone: no rule
    that holds a guard may match the empty text because of it."""

    names: tuple[bytes, ...]
    spelling: NameSpelling = "bytes"
    negate: bool = False


Node = Union[
    Bytes,
    ByteSet,
    Literals,
    Substrings,
    Seq,
    Alt,
    Repeat,
    And,
    Not,
    Lexeme,
    Ref,
    Marker,
    Token,
    Distinct,
    Guard,
    Counted,
]

EMPTY = Bytes(b"")
NEVER = Alt(())
ANY_BYTE = ByteSet((1 << 256) - 1)


@dataclass(frozen=True, slots=True)
class Module:
    """Named rules and the one to start from. Rules are looked up by `Ref`; a missing one is the front end's bug."""

    rules: dict[str, Node]
    start: str = "root"
    sources: dict[str, str] = field(default_factory=dict)
    """Rule name -> where it came from (a JSON pointer, line:column), for `explain` and errors."""
    places: dict[int, str] = field(default_factory=dict, compare=False)
    """id of a lexeme that may take the core much work -> where it came from."""
    longest: bool = False
    """Lexemes are cut by the longest match. A text is read as lexemes, one after the other. As long as one of those
    that are open can go on, none ends: all others are given up. Where none can, those that can end there end, and what
    the rules allow after any of them begins. No lexeme reads nothing, and no `Token` has an id with bytes. A text may
    come to a place from which it cannot be completed."""
    marked: bool = False
    """The front end has put every lexeme where it belongs: nothing is fused, and nothing needs to be looked at for
    it."""


def byte_set(*parts: int | tuple[int, int] | bytes) -> ByteSet:
    """A `ByteSet` from single bytes, inclusive ranges and byte strings."""
    bits = 0
    for part in parts:
        if isinstance(part, int):
            bits |= 1 << part
        elif isinstance(part, bytes):
            for b in part:
                bits |= 1 << b
        else:
            low, high = part
            bits |= (1 << (high + 1)) - (1 << low)
    return ByteSet(bits)


def seq(*items: Node) -> Node:
    """`Seq` that drops empty texts and unwraps a single item."""
    kept = tuple(i for i in items if i != EMPTY)
    return kept[0] if len(kept) == 1 else Seq(kept) if kept else EMPTY


def alt(*items: Node) -> Node:
    """`Alt` that unwraps a single item."""
    return items[0] if len(items) == 1 else Alt(items)


def optional(item: Node) -> Node:
    """The item or nothing."""
    return Repeat(item, 0, 1)
