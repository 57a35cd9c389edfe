"""How JSON is spelled, apart from any schema: gaps, strings, numbers, and any value at all.

Everything that is the same in all schemas is made once here and shared, because the core keeps what it learns by
automaton: one string body, one number, one gap. A gap comes after `{`, `[`, `,`, `:` and after each key, value and
item, so that every place where JSON allows whitespace has exactly one, and the grammar is unambiguous. None stands
before or after the root.

    "bounded"     at most one newline and at most 64 spaces and tabs per gap
    "compact"     none
    "any"         any run of space, tab, newline, carriage return
    "json.dumps"  one space after each comma and colon, as Python's json.dumps writes

Cost: making one spelling takes some 50 us, once per process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Literal, cast, get_args

from narrows.errors import InputError
from narrows.grammar import ir, json_text, utf8
from narrows.grammar.options import Escapes, KeyOrder, Whitespace

MAX_BLANKS = 64
_WHITESPACE, _KEY_ORDERS, _ESCAPES = get_args(Whitespace), get_args(KeyOrder), get_args(Escapes)

NULL = ir.Lexeme(ir.Bytes(b"null"))
BOOLEAN = ir.Lexeme(ir.Literals((b"true", b"false")))

DIGIT = ir.byte_set((0x30, 0x39))
NONZERO = ir.byte_set((0x31, 0x39))
_DIGITS = ir.Repeat(DIGIT, 1)
WHOLE = ir.Alt((ir.Bytes(b"0"), ir.Seq((NONZERO, ir.Repeat(DIGIT)))))
_INTEGER = ir.Seq((ir.optional(ir.Bytes(b"-")), WHOLE))
INTEGER = ir.Lexeme(_INTEGER)
"""Any integer: no fraction, no exponent."""


def _number() -> ir.Node:
    sign, fraction = _INTEGER.items[0], ir.optional(ir.Seq((ir.Bytes(b"."), _DIGITS)))
    e, plus = ir.byte_set(b"eE"), ir.optional(ir.Bytes(b"+"))
    small = ir.Alt((ir.Seq((plus, ir.Repeat(DIGIT, 1, 2))), ir.Seq((ir.Bytes(b"-"), ir.Repeat(DIGIT, 1, 3)))))
    hundreds = ir.Alt((ir.Seq((ir.byte_set(b"12"), DIGIT, DIGIT)), ir.Seq((ir.Bytes(b"30"), ir.byte_set(b"01234567")))))
    any_size = ir.Seq((_INTEGER.items[1], fraction, ir.optional(ir.Seq((e, small)))))
    great = ir.Seq((NONZERO, fraction, e, plus, hundreds))
    return ir.Seq((sign, ir.Alt((any_size, great))))


NUMBER = ir.Lexeme(_number())
"""Any number, in any form but one that runs out of binary64: an exponent has at most two digits (three after a minus),
or reaches up to 307 after a single digit before the point. A reader would make infinity of `1e999`."""


def _fractional() -> ir.Node:
    point, some_digit = ir.Bytes(b"."), ir.Seq((ir.Repeat(DIGIT), NONZERO, ir.Repeat(DIGIT)))
    length = ir.Repeat(ir.byte_set((0x30, 0x39), b"."), 3, 17)
    return ir.Seq((_INTEGER.items[0], ir.And((ir.Seq((WHOLE, point, some_digit)), length))))


FRACTIONAL = _fractional()
"""Numbers that are not integers, without exponent: some digit after the point is not zero. They have at most 16 digits,
so that no reader rounds them to an integer: the half of what lies between two doubles is less than the last digit."""


def seq(*items: ir.Node) -> ir.Node:
    """`ir.seq` for items of which the empty one is `ir.EMPTY` itself: faster, and called for every member."""
    kept = tuple([item for item in items if item is not ir.EMPTY])
    return ir.Seq(kept) if len(kept) > 1 else kept[0] if kept else ir.EMPTY


_NAMES: dict[str, ir.NameSpelling] = {"all": "json", "controls": "json", "single": "single"}
"""How keys are told apart, by how strings are escaped."""


class Spelling:
    """One choice of whitespace and escapes. Use `spelling(...)`: equal choices are the same object.

    Formats that write values in other notations derive from it (`narrows.formats.literal_rules`)."""

    def __init__(
        self,
        whitespace: Whitespace,
        escapes: json_text.Escapes,
        tag: str = "json",
        key_order: KeyOrder = "declared",
        longest_gap: int | None = None,
        gap: ir.Node | None = None,
    ) -> None:
        """`longest_gap`: characters of the longest gap, at least 1, if that is less than "bounded" or "any" has. `gap`:
        what may stand in each, if it is not what `whitespace` says; `tag` then tells it."""
        self.whitespace = whitespace
        self.key_order = key_order
        self.escapes = escapes
        self.names: ir.NameSpelling = _NAMES.get(escapes, "bytes")
        self.constants: dict[bool | None, tuple[bytes, ...]] = {None: (b"null",), True: (b"true",), False: (b"false",)}
        self.null: ir.Node = NULL
        self.boolean: ir.Node = BOOLEAN
        self.number: ir.Node = NUMBER
        self.gap: ir.Node = _gap(whitespace, longest_gap) if gap is None else gap
        self.comma_bytes, self.colon_bytes = (b", ", b": ") if whitespace == "json.dumps" else (b",", b":")
        self.comma = seq(ir.Bytes(self.comma_bytes), self.gap)
        """A comma and the gap after it. The gap before it belongs to what it follows."""
        self.open_object = seq(ir.Bytes(b"{"), self.gap)
        self.open_array = seq(ir.Bytes(b"["), self.gap)
        self.close_object = ir.Bytes(b"}")
        self.close_array = ir.Bytes(b"]")
        self.colon = seq(self.gap, ir.Bytes(self.colon_bytes), self.gap)
        self.character = json_text.char(utf8.ANY, escapes)
        self.characters = ir.Repeat(self.character)
        self.string = self.whole(self.quoted(self.characters))
        tag = f"{tag}/{whitespace}/{escapes}" if longest_gap is None else f"{tag}/{whitespace} {longest_gap}/{escapes}"
        self.value = ir.Ref(f"{tag}/value")
        self.object = ir.Ref(f"{tag}/object")
        self.array = ir.Ref(f"{tag}/array")
        self._any_rules: dict[str, ir.Node] | None = None

    def any_rules(self) -> Mapping[str, ir.Node]:
        """The rules of `value`, `object` and `array`: any JSON value, nested without bound. Their names tell the
        spelling, so that the rules of several schemas can lie in one module. Made once."""
        if self._any_rules is None:
            self._any_rules = self._rules_of_any()
        return self._any_rules

    def _rules_of_any(self) -> dict[str, ir.Node]:
        pair = seq(self.other_key([]), self.colon, self.value, self.gap)
        item = seq(self.value, self.gap)
        return {
            self.value.name: ir.Alt((self.object, self.array, self.string, self.number, self.boolean, self.null)),
            self.object.name: seq(self.open_object, ir.optional(self.separated(pair)), self.close_object),
            self.array.name: seq(self.open_array, ir.optional(self.separated(item)), self.close_array),
        }

    def separated(self, item: ir.Node, low: int = 1, high: int | None = None) -> ir.Node:
        """`low` to `high` items with commas between; low is at least 1."""
        more = ir.Repeat(seq(self.comma, item), low - 1, None if high is None else high - 1)
        return item if high == 1 else seq(item, more)

    def quoted(self, body: ir.Node) -> ir.Node:
        """A string with this body, to go inside `whole`."""
        return ir.Seq((ir.Bytes(b'"'), body, ir.Bytes(b'"')))

    def whole(self, quoted: ir.Node) -> ir.Node:
        """The node of a string, from the regular node of its text."""
        return ir.Lexeme(quoted)

    def literal(self, text: str) -> list[bytes]:
        """The spellings of one string, as `quoted` has them; the first is the canonical one."""
        raw = encode_basestring(text)
        if self.escapes == "controls":
            raw = raw.replace("\x7f", "\\u007f")
        if raw.isascii():
            return [raw.encode("ascii")]
        first = raw.encode("utf-8")
        return [first, encode_basestring_ascii(text).encode("ascii")] if self.escapes == "all" else [first]

    @property
    def strings_apart(self) -> bool:
        """A string is more than one lexeme, and cannot share one with other values."""
        return False

    def key(self, key: str) -> ir.Node:
        """A declared key with its colon."""
        options = self.literal(key)
        if self.gap is ir.EMPTY:
            options = [option + self.colon_bytes for option in options]
        node = ir.Bytes(options[0]) if len(options) == 1 else ir.Literals(tuple(options))
        return node if self.gap is ir.EMPTY else seq(node, self.colon)

    def key_once(self, key: str) -> ir.Node:
        """The same, once in a run of its rule."""
        node = self.key(key)
        items = node.items if isinstance(node, ir.Seq) else (node,)
        return seq(ir.Distinct(ir.Lexeme(items[0]), self.names, _name(key)), *items[1:])

    def marked_colon(self, mark: bytes) -> ir.Node:
        """A colon that is read once in a run of its rule, so that an `ir.Guard` of this name, in bytes, can tell."""
        colon = ir.Distinct(ir.Lexeme(ir.Bytes(self.colon_bytes)), name=mark)
        return seq(self.gap, colon, self.gap)

    def marked_key(self, key: str, mark: bytes) -> ir.Node:
        """A declared key, once in a run of its rule, with a marked colon."""
        literals = ir.Literals(tuple(self.literal(key)))
        return seq(ir.Distinct(ir.Lexeme(literals), self.names, _name(key)), self.marked_colon(mark))

    def have_read(self, keys: Iterable[str], negate: bool = False) -> ir.Node:
        """Nothing, where all of these keys have been read in the run of this rule; with `negate`, where one has not."""
        names = tuple([_name(key) for key in keys])
        if not names:
            return ir.NEVER if negate else ir.EMPTY
        return ir.Guard(names, self.names, negate)

    def other_key(self, keys: list[str], languages: tuple[ir.Node, ...] = (), has_empty: bool = True) -> ir.Node:
        """Any key but these, in every spelling. Not twice in one object. `languages`: regular nodes that the key's
        characters match; `has_empty`: whether the empty key does."""
        if not keys and not languages:
            return ir.Distinct(cast(ir.Lexeme, self.string), self.names)
        # A language is of strings, unless it says what they are not. The core reads it sooner by itself.
        is_text = any(_says_no_more(language) for language in languages)
        parts = [*languages] if is_text else [self.characters, *languages]
        if keys and self.escapes == "minimal":
            parts.append(ir.Not(ir.Literals(tuple([json_text.minimal(key) for key in keys]))))
        elif keys:
            parts.append(ir.Not(ir.alt(*[_every_spelling(key, self.escapes) for key in keys])))
        return ir.Distinct(ir.Lexeme(self.quoted(parts[0] if len(parts) == 1 else ir.And(tuple(parts)))), self.names)

    def one_of(self, keys: list[str]) -> ir.Node:
        """Any of these keys, spelled as declared ones are."""
        return ir.Lexeme(ir.Literals(tuple([option for key in keys for option in self.literal(key)])))


def _says_no_more(language: ir.Node) -> bool:
    """Whether a language of keys is one pattern or length, or several of which each key has one."""
    options = language.items if isinstance(language, ir.Alt) else (language,)
    return not any(isinstance(option, (ir.And, ir.Not)) for option in options)


def _name(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


@lru_cache(maxsize=4096)
def _every_spelling(key: str, escapes: json_text.Escapes) -> ir.Node:
    return json_text.literal(key, escapes)


def _gap(whitespace: Whitespace, longest: int | None) -> ir.Node:
    if whitespace == "any":
        return ir.optional(ir.Lexeme(ir.Repeat(ir.byte_set(b" \t\n\r"), 1, longest)))
    if whitespace != "bounded":
        return ir.EMPTY
    blank = ir.byte_set(b" \t")
    blanks = ir.Repeat(blank)
    most = MAX_BLANKS + 1 if longest is None else longest
    one_newline = ir.And((ir.Seq((blanks, ir.Bytes(b"\n"), blanks)), ir.Repeat(ir.byte_set(b" \t\n"), 1, most)))
    return ir.optional(ir.Lexeme(ir.Alt((ir.Repeat(blank, 1, min(most, MAX_BLANKS)), one_newline))))


@cache  # 16 entries at most
def _made(whitespace: Whitespace, escapes: Escapes, key_order: KeyOrder) -> Spelling:
    return Spelling(whitespace, escapes, key_order=key_order)


def spelling(whitespace: str, escapes: str, key_order: str = "declared") -> Spelling:
    for name, value, choices in (
        ("whitespace", whitespace, _WHITESPACE),
        ("key_order", key_order, _KEY_ORDERS),
        ("escapes", escapes, _ESCAPES),
    ):
        if value not in choices:
            named = ", ".join(f'"{c}"' for c in choices)
            raise InputError(f"{name} must be one of {named}, not {value!r}", code="invalid_option")
    return _made(whitespace, escapes, key_order)


@lru_cache(maxsize=64)
def spelling_with_gaps(
    longest: int, escapes: Escapes, key_order: KeyOrder, whitespace: Literal["bounded", "any"] = "bounded"
) -> Spelling:
    """The spelling `whitespace` whose gaps have at most so many characters: at least 1, and for "bounded" at most
    `MAX_BLANKS`."""
    return Spelling(whitespace, escapes, key_order=key_order, longest_gap=longest)
