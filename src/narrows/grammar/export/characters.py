"""Regular parts over bytes, as automata over characters: for languages that read code points and know no bytes.

`Alignment` finds the parts that begin and end between two characters of UTF-8. `Characters` gives, for a term of
regular.py, the characters that may come next and what follows each. Byte strings that are not UTF-8 are left out: no
text has them.

Cost: linear in the nodes, and for a term in its derivatives. Both are charged to a `Work`.
"""

from __future__ import annotations

from dataclasses import dataclass

from narrows.grammar import ir
from narrows.grammar.regular import EMPTY, NEVER, Regular
from narrows.grammar.utf8 import Ranges
from narrows.grammar.work import Work

# The states of a UTF-8 decoder (RFC 3629): between characters; one, two, three bytes to come; and those after a first
# byte that narrows the second.
_BETWEEN, _ONE, _TWO, _THREE, _E0, _ED, _F0, _F4, _STATES = range(9)
_BROKEN = 1 << _STATES


def _bits(first: int, last: int) -> int:
    return (1 << (last + 1)) - (1 << first)


_MOVES: dict[int, tuple[tuple[int, int], ...]] = {
    _BETWEEN: (
        (_bits(0, 0x7F), _BETWEEN),
        (_bits(0xC2, 0xDF), _ONE),
        (1 << 0xE0, _E0),
        (_bits(0xE1, 0xEC) | _bits(0xEE, 0xEF), _TWO),
        (1 << 0xED, _ED),
        (1 << 0xF0, _F0),
        (_bits(0xF1, 0xF3), _THREE),
        (1 << 0xF4, _F4),
    ),
    _ONE: ((_bits(0x80, 0xBF), _BETWEEN),),
    _TWO: ((_bits(0x80, 0xBF), _ONE),),
    _THREE: ((_bits(0x80, 0xBF), _TWO),),
    _E0: ((_bits(0xA0, 0xBF), _ONE),),
    _ED: ((_bits(0x80, 0x9F), _ONE),),
    _F0: ((_bits(0x90, 0xBF), _TWO),),
    _F4: ((_bits(0x80, 0x8F), _TWO),),
}

Moves = tuple[int, ...]
"""For each state of the decoder, the states in which a part may leave it, as bits. `_BROKEN`: some text is no UTF-8."""

_STAY: Moves = tuple(1 << state for state in range(_STATES))
_NOWHERE: Moves = (0,) * _STATES


class Alignment:
    """Whether parts begin and end between characters. `And`, `Not` and `Substrings` are taken to do so: their automaton
    leaves out what does not."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._known: dict[int, Moves] = {}

    def holds(self, node: ir.Node) -> bool:
        """Whether every text of the node that begins between characters ends so."""
        return not self.moves(node)[_BETWEEN] & ~(1 << _BETWEEN)

    def moves(self, root: ir.Node) -> Moves:
        """The moves of a node."""
        known = self._known
        todo: list[tuple[ir.Node, bool]] = [(root, False)]
        while todo:
            node, ready = todo.pop()
            if id(node) in known:
                continue
            inner = _inner(node)
            if inner and not ready:
                todo.append((node, True))
                todo += [(child, False) for child in inner]
            else:
                self._work.spend(1)
                known[id(node)] = self._of(node, [known[id(child)] for child in inner])
        return known[id(root)]

    def _of(self, node: ir.Node, inner: list[Moves]) -> Moves:
        if isinstance(node, ir.Bytes):
            return self._of_texts((node.data,))
        if isinstance(node, ir.Literals):
            return self._of_texts(node.options)
        if isinstance(node, ir.ByteSet):
            return tuple(_step(state, node.bits) for state in range(_STATES))
        if isinstance(node, ir.Seq):
            moves = _STAY
            for item in inner:
                moves = _then(moves, item)
            return moves
        if isinstance(node, ir.Alt):
            moves = _NOWHERE
            for item in inner:
                moves = _either(moves, item)
            return moves
        if isinstance(node, ir.Repeat):
            return _repeated(inner[0], node.min, node.max)
        return inner[0] if inner else _STAY

    def _of_texts(self, texts: tuple[bytes, ...]) -> Moves:
        self._work.spend(sum(map(len, texts)) // 8)
        if all(text.isascii() for text in texts):
            ends = [1 << _BETWEEN, *[_BROKEN] * (_STATES - 1)]
            return tuple(ends) if b"" not in texts else _either(tuple(ends), _STAY)
        moves = _NOWHERE
        for text in texts:
            path = _STAY
            for byte in text:
                path = _then(path, tuple(_step(state, 1 << byte) for state in range(_STATES)))
            moves = _either(moves, path)
        return moves


def _inner(node: ir.Node) -> tuple[ir.Node, ...]:
    if isinstance(node, (ir.Seq, ir.Alt)):
        return node.items
    return (node.item,) if isinstance(node, (ir.Repeat, ir.Lexeme, ir.Distinct)) else ()


def _step(state: int, bits: int) -> int:
    ends = 0
    for those, after in _MOVES[state]:
        if bits & those:
            ends |= 1 << after
            bits &= ~those
    return ends | (_BROKEN if bits else 0)


def _then(first: Moves, second: Moves) -> Moves:
    result = []
    for ends in first:
        after = ends & _BROKEN
        for state in range(_STATES):
            if ends >> state & 1:
                after |= second[state]
        result.append(after)
    return tuple(result)


def _either(left: Moves, right: Moves) -> Moves:
    return tuple(a | b for a, b in zip(left, right, strict=True))


def _repeated(moves: Moves, least: int, most: int | None) -> Moves:
    """As many times: by squaring, so that a large number costs nothing. Without end, 16 times reach every state."""
    return _then(_power(moves, least), _power(_either(_STAY, moves), 16 if most is None else most - least))


def _power(moves: Moves, count: int) -> Moves:
    result = _STAY
    while count:
        if count & 1:
            result = _then(result, moves)
        moves = _then(moves, moves)
        count >>= 1
    return result


@dataclass(frozen=True, slots=True)
class Place:
    """One state of an automaton over characters."""

    may_end: bool
    moves: tuple[tuple[Ranges, int], ...]
    """Characters, and the term that follows them. The sets are disjoint."""


class Characters:
    """Terms of one `Regular` as states of an automaton over characters."""

    def __init__(self, regular: Regular) -> None:
        self._regular = regular
        self._places: dict[int, Place] = {}

    def place(self, term: int) -> Place:
        """What may come at a term that stands between two characters."""
        known = self._places.get(term)
        if known is None:
            known = self._places[term] = self._found(term)
        return known

    def _found(self, term: int) -> Place:
        found: dict[int, list[tuple[int, int]]] = {}
        # What is left to read: the state of the decoder, the bits of the code point so far, and the term.
        todo = [(_BETWEEN, 0, term)]
        while todo:
            state, prefix, at = todo.pop()
            if state != _BETWEEN and self._reads_rest(state, at):
                size = 1 << 6 * _LEFT[state]
                low, high = _SECOND.get(state, (0x80, 0xBF))
                part = size >> 6
                base = prefix * size
                after = self._after_rest(state, at)
                found.setdefault(after, []).append((base + (low - 0x80) * part, base + (high - 0x7F) * part - 1))
                continue
            for those, after in self._regular.derivatives(at):
                if self._dead(after):
                    continue
                for valid, next_state in _MOVES[state]:
                    self._regular.work.spend(1)
                    for low, high in _runs(those & valid):
                        if next_state == _BETWEEN:
                            first = low if state == _BETWEEN else prefix << 6 | low - 0x80
                            found.setdefault(after, []).append((first, first + high - low))
                            continue
                        self._regular.work.spend(high - low + 1)
                        for byte in range(low, high + 1):
                            bits = byte & _FIRST_BITS[next_state] if state == _BETWEEN else prefix << 6 | byte - 0x80
                            todo.append((next_state, bits, after))
        moves = tuple((_joined(ranges), after) for after, ranges in sorted(found.items()))
        return Place(self._regular.matches(term, b""), moves)

    def _reads_rest(self, state: int, term: int) -> bool:
        """Whether all that may complete the character leads to one term, which is not dead."""
        return self._rest(state, term) is not None

    def _after_rest(self, state: int, term: int) -> int:
        after = self._rest(state, term)
        assert after is not None
        return after

    def _rest(self, state: int, term: int) -> int | None:
        while state != _BETWEEN:
            ((valid, next_state),) = _MOVES[state]
            for those, after in self._regular.derivatives(term):
                if those & valid:
                    if valid & ~those or self._dead(after):
                        return None
                    term = after
                    break
            state = next_state
        return term

    def _dead(self, term: int) -> bool:
        return term == NEVER or (term != EMPTY and self._regular.is_never(term))


_LEFT = {_ONE: 1, _TWO: 2, _THREE: 3, _E0: 2, _ED: 2, _F0: 3, _F4: 3}
"""Bytes that are to come in each state."""
_SECOND = {_E0: (0xA0, 0xBF), _ED: (0x80, 0x9F), _F0: (0x90, 0xBF), _F4: (0x80, 0x8F)}
_FIRST_BITS = {_ONE: 0x1F, _TWO: 0x0F, _E0: 0x0F, _ED: 0x0F, _THREE: 0x07, _F0: 0x07, _F4: 0x07}
"""By the state after it: the bits that a first byte gives to the code point."""


def _runs(bits: int) -> list[tuple[int, int]]:
    """The ranges of set bits."""
    runs = []
    while bits:
        low = (bits & -bits).bit_length() - 1
        rest = ~(bits >> low)
        length = (rest & -rest).bit_length() - 1
        runs.append((low, low + length - 1))
        bits &= ~_bits(low, low + length - 1)
    return runs


def _joined(ranges: list[tuple[int, int]]) -> Ranges:
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and joined[-1][1] + 1 == low:
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return tuple(joined)
