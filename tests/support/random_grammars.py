"""Random grammars and vocabularies that go where engines break: left and hidden left recursion, ambiguity, nullable loops, cycles,
rules that produce nothing, counters, intersections and complements, literal sets, markers, tokens by id; several ids with the same
bytes, empty tokens, holes, bytes that no token has, special tokens, several end tokens, padding.

Everything follows from a seed, so that a failure is one number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from narrows.grammar import ir

ALPHABETS = (
    b"ab",
    b"abc",
    b"ab,",
    b"[]a,",
    b'"\\ab',
    b"01.-",
    "aé".encode(),
    b"<a>b",
    b"a",
    b"ab \n",
    bytes((0, 1, 254, 255)),
)
MARKERS = ("<a>", "<b>", "<call>", "ab")
RULES = ("root", "r1", "r2", "r3")


@dataclass
class Vocabulary:
    tokens: list[bytes | None]
    special: dict[str, int] = field(default_factory=dict)
    eos: list[int] = field(default_factory=list)
    size: int | None = None
    alphabet: bytes = b"ab"

    @property
    def seen(self) -> list[bytes | None]:
        """What a mask is about: end and special tokens have no bytes, ids beyond the tokenizer do not exist."""
        hidden = {*self.special.values(), *self.eos}
        seen = [b"" if i in hidden else data for i, data in enumerate(self.tokens)]
        return seen + [None] * ((self.size or 0) - len(seen))


def vocabulary(rng: Random) -> Vocabulary:
    alphabet = rng.choice(ALPHABETS)
    tokens: list[bytes | None] = [bytes((b,)) for b in alphabet if rng.random() < 0.9]
    for _ in range(rng.choice((3, 10, 10, 30))):
        tokens.append(text(rng, alphabet, 2, rng.choice((2, 3, 5, 9))))
    if rng.random() < 0.3:
        tokens.extend(rng.choice(tokens) for _ in range(2))  # the same bytes again
    if rng.random() < 0.3:
        tokens.append(b"")
    if rng.random() < 0.2:
        tokens.append(bytes((rng.randrange(256),)))
    tokens.extend([None] * rng.choice((0, 0, 1)))
    special_names = [m for m in MARKERS if rng.random() < 0.4]
    ends = rng.choice((1, 1, 1, 2, 3))
    tokens.extend([b""] * (len(special_names) + ends))
    rng.shuffle(tokens)
    empty = [i for i, t in enumerate(tokens) if t == b""]
    rng.shuffle(empty)
    special = {name: empty.pop() for name in special_names}
    eos = [empty.pop() for _ in range(ends)]
    if special and rng.random() < 0.2:
        eos.append(rng.choice(list(special.values())))  # a marker that also ends
    for i in [*special.values(), *eos]:  # what a careless caller gives: the name as the bytes
        if rng.random() < 0.2:
            tokens[i] = text(rng, alphabet, 1, 3)
    size = len(tokens) + rng.choice((0, 0, 1, 40)) if rng.random() < 0.5 else None
    return Vocabulary(tokens, special, sorted(set(eos)), size, alphabet)


def module(rng: Random, vocab: Vocabulary) -> ir.Module:
    made = rng.choice(TEMPLATES)(rng, vocab) if rng.random() < 0.3 else _rules(rng, vocab)
    return ir.Module(made, "root")


def text(rng: Random, alphabet: bytes, low: int, high: int) -> bytes:
    return bytes(rng.choice(alphabet) for _ in range(rng.randint(low, max(low, high))))


def _rules(rng: Random, vocab: Vocabulary) -> dict[str, ir.Node]:
    names = RULES[: rng.choice((1, 1, 2, 3, 4))]
    rules = {name: node(rng, vocab, rng.choice((1, 2, 3, 4)), names) for name in names}
    if rng.random() < 0.8:  # long texts
        more = node(rng, vocab, 1, names)
        rules["root"] = ir.Seq(
            (ir.Repeat(ir.Alt((rules["root"], more)), rng.choice((0, 3)), rng.choice((None, None, 9))), more)
        )
    return rules


def node(rng: Random, vocab: Vocabulary, depth: int, names: tuple[str, ...]) -> ir.Node:
    """Any node outside a lexeme."""
    roll = rng.random()
    if depth == 0 or roll < 0.12:
        return _leaf(rng, vocab, names)
    inner = depth - 1
    if roll < 0.37:
        return ir.Seq(tuple(node(rng, vocab, inner, names) for _ in range(rng.choice((0, 2, 2, 2, 3, 4)))))
    if roll < 0.62:
        return ir.Alt(tuple(node(rng, vocab, inner, names) for _ in range(rng.choice((0, 1, 2, 2, 3, 4)))))
    if roll < 0.77:
        return ir.Repeat(node(rng, vocab, inner, names), *_bounds(rng, 3))
    if roll < 0.97:
        return ir.Lexeme(regular(rng, vocab.alphabet, rng.choice((1, 2, 3))))
    return regular(rng, vocab.alphabet, 2)


def _leaf(rng: Random, vocab: Vocabulary, names: tuple[str, ...]) -> ir.Node:
    roll = rng.random()
    if roll < 0.30:
        return ir.Ref(rng.choice(names))
    if roll < 0.60:
        return ir.Bytes(text(rng, vocab.alphabet, 0, 3))
    if roll < 0.72:
        return ir.Marker(rng.choice(MARKERS))
    if roll < 0.80:
        usable = [i for i, data in enumerate(vocab.seen) if data is not None]
        ids = {rng.choice(usable) for _ in range(rng.choice((1, 1, 2, 4)))}
        negate = rng.random() < 0.25 and bool(set(usable) - ids - set(vocab.eos))
        return ir.Token(tuple(sorted(ids)), negate)
    if roll < 0.90:
        return ir.Lexeme(regular(rng, vocab.alphabet, 1))
    return _byte_set(rng, vocab.alphabet)


def regular(rng: Random, alphabet: bytes, depth: int) -> ir.Node:
    roll = rng.random()
    if depth == 0 or roll < 0.1:
        roll = rng.random()
        if roll < 0.45:
            return ir.Bytes(text(rng, alphabet, 0, 3))
        if roll < 0.75:
            return _byte_set(rng, alphabet)
        if roll < 0.93:
            return ir.Literals(tuple(text(rng, alphabet, 0, 4) for _ in range(rng.choice((0, 1, 2, 5, 12)))))
        return substrings(rng, alphabet)
    inner = depth - 1
    if roll < 0.3:
        return ir.Seq(tuple(regular(rng, alphabet, inner) for _ in range(rng.choice((0, 2, 2, 3)))))
    if roll < 0.5:
        return ir.Alt(tuple(regular(rng, alphabet, inner) for _ in range(rng.choice((0, 1, 2, 3)))))
    if roll < 0.65:
        return ir.Repeat(regular(rng, alphabet, inner), *_bounds(rng, 6))
    if roll < 0.75:  # a counted class, up to beyond the longest token
        return ir.Repeat(_byte_set(rng, alphabet), *_bounds(rng, 30))
    if roll < 0.85:
        return ir.And(tuple(regular(rng, alphabet, inner) for _ in range(rng.choice((1, 2, 2, 3)))))
    if roll < 0.92:
        return ir.And((ir.Repeat(_byte_set(rng, alphabet)), ir.Not(regular(rng, alphabet, inner))))
    if roll < 0.97:
        return ir.Not(regular(rng, alphabet, inner))
    return ir.Lexeme(regular(rng, alphabet, inner))


def substrings(rng: Random, alphabet: bytes) -> ir.Substrings:
    whole = text(rng, alphabet, 0, rng.choice((2, 6, 15)))
    read = text(rng, alphabet, 1, 2) if rng.random() < 0.1 else b""
    if rng.random() < 0.5:
        return ir.Substrings(whole, "characters", read)
    marks = (b"", b"", b"", ir.CUT, ir.CUT, ir.END)
    return ir.Substrings(b"".join(bytes((b,)) + rng.choice(marks) for b in whole) + rng.choice(marks), "pieces", read)


def _byte_set(rng: Random, alphabet: bytes) -> ir.ByteSet:
    if rng.random() < 0.1:
        return ir.ANY_BYTE
    chosen = bytes(b for b in alphabet if rng.random() < 0.7)
    made = ir.byte_set(chosen)
    return ir.ByteSet(ir.ANY_BYTE.bits & ~made.bits) if rng.random() < 0.15 else made


def _bounds(rng: Random, most: int) -> tuple[int, int | None]:
    low = rng.choice((0, 0, 0, 1, 1, rng.randint(0, most)))
    high = rng.choice((None, None, low, low + 1, low + rng.randint(0, most)))
    if rng.random() < 0.02 and high is not None:
        low, high = high + 1, low  # nothing matches
    return low, high


# Shapes that random trees rarely take.


def _template(rng: Random, vocab: Vocabulary, *bodies: str) -> dict[str, ir.Node]:
    """Rules written as words: `x` `y` are random texts, `_` the empty text, `!` nothing, `.` any lexeme, a capital a rule."""
    letters = {"S": "root", "A": "r1", "B": "r2", "C": "r3"}
    x, y = ir.Bytes(text(rng, vocab.alphabet, 1, 2)), ir.Bytes(text(rng, vocab.alphabet, 1, 1))

    def symbol(letter: str) -> ir.Node:
        if letter in letters:
            return ir.Ref(letters[letter])
        return {"x": x, "y": y, "_": ir.EMPTY, "!": ir.NEVER}.get(letter) or ir.Lexeme(regular(rng, vocab.alphabet, 2))

    rules: dict[str, ir.Node] = {}
    for name, body in zip(RULES, bodies, strict=False):
        rules[name] = ir.Alt(tuple(ir.Seq(tuple(symbol(c) for c in option)) for option in body.split("|")))
    for name in letters.values():
        rules.setdefault(name, y)
    return rules


_SHAPES = (
    ("SS|x|_",),  # ambiguous and nullable
    ("SS|x",),
    ("SSS|SS|x|y|_",),
    ("Sx|y",),  # left recursion
    ("xS|y",),  # right recursion
    ("xS|_",),
    ("xSx|y|_",),  # not deterministic
    ("xSy|_",),
    ("S|x",),  # a cycle
    ("S|_",),
    ("A", "S|x"),
    ("Ax|y", "Sy|x"),  # indirect left recursion
    ("ASx|y", "_|y"),  # hidden left recursion
    ("ABSx|y", "_|x", "A|_"),
    ("A|B", "!|A", "xB|y"),  # an unproductive rule
    ("xA|yB", "A", "y|_"),
    ("SAS|x", "y|_"),
    ("AAA", "_|x|BB", "_|y"),
    ("AB|BA", ".|_", ".|A"),
    ("ASB|.", "x|_", "y|_"),
    ("AS|_", ".", "_"),  # a loop over something that may be nothing
    ("A", "B", "C|x", "A|yC|_"),
    ("xAy|xBx", "Ax|x", "xB|x"),  # left and right recursive at once
    ("SxS|ySy|.",),
)


TEMPLATES = tuple((lambda rng, vocab, s=shape: _template(rng, vocab, *s)) for shape in _SHAPES)
