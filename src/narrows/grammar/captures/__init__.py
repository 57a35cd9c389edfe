"""What the rules of a grammar capture in a text: the name of each, and the part of the text that it read.

Front ends put captures on references to rules (`ir.Ref.capture`). They change no text and no mask: the core does not
see them. When somebody asks, the text is read again, here, in Python: network.py has the rules, chart.py reads the
text, choice.py takes one reading. First it is read with terminals that take as much as they can. If the text cannot be
read so, all readings are looked at.

Cost: some microseconds for each byte, and some milliseconds for the grammar. Ambiguous and right-recursive rules take
more, up to `Limits.capture_work`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from narrows.errors import InputError
from narrows.grammar import ir
from narrows.grammar.captures.chart import Chart, Ends, Step
from narrows.grammar.captures.choice import Choice, Found
from narrows.grammar.captures.network import Network
from narrows.grammar.captures.split import split
from narrows.grammar.captures.work import CaptureWork, Terminals
from narrows.grammar.embed import refs_in
from narrows.grammar.flatten import TokenFacts
from narrows.limits import Limits

__all__ = ["Capture", "Step", "by_their_ends", "captures_of", "has_captures"]


@dataclass(frozen=True, slots=True)
class Capture:
    """A part of a text that a rule read, and that the grammar gives a name."""

    name: str
    """As the grammar has it."""
    span: tuple[int, int]
    """Where it begins and ends, in bytes of the text in UTF-8."""
    data: bytes
    """The text in `span`, without the stop texts (`stop` in Lark) of rules inside."""

    @property
    def text(self) -> str:
        """As characters. Bytes that are no UTF-8 become U+FFFD."""
        return self.data.decode("utf-8", "replace")


def captures_of(
    module: ir.Module, steps: Sequence[Step], limits: Limits, facts: TokenFacts | None = None, *, is_whole: bool = True
) -> list[Capture]:
    """What is captured in a text, in the order in which it begins; of two that begin together, the outer one first.

    facts: those of the vocabulary, if the text consists of tokens. is_whole: whether the text is complete. If not, only
    what is complete is reported.

    Raises InputError `text_not_matched`, UnsupportedError `captures_unsupported`, and LimitError (`capture_work`,
    `constraint_bytes`)."""
    work = CaptureWork(limits)
    terminals = Terminals(work)
    network = Network(module, terminals, work, facts)
    ways: tuple[Ends, ...] = ("longest",) if module.longest else ("greedy", "all")
    for ends in ways:
        chart = Chart(network, terminals, work, ends=ends, object_keys=limits.object_keys)
        chart.read(steps)
        choice = Choice(chart, network, work)
        found = choice.whole() if is_whole else choice.unfinished()
        if found is not None:
            return _reported(found, bytes(chart.text), terminals, work)
    raise InputError(
        "the text is none of the grammar", code="text_not_matched", hint="Give a whole text of the grammar"
    )


def _reported(found: list[Found], text: bytes, terminals: Terminals, work: CaptureWork) -> list[Capture]:
    spans: list[tuple[str, int, int]] = []
    hidden: list[tuple[int, int]] = []
    for one in found:
        what, start, end = one.what, one.start, one.end
        middle = end
        if what.body is not None and what.end is not None:
            middle = start + split(text[start:end], terminals.of(what.body), terminals.of(what.end), terminals, work)
        named = (what.name, start, middle), (what.end_name, middle, end)
        spans += [(name, low, high) for name, low, high in named if name is not None]
        if what.hides_end and middle < end:
            hidden.append((middle, end))
    hidden.sort()
    return [Capture(name, (low, high), _without(text, low, high, hidden, work)) for name, low, high in spans]


def _without(text: bytes, low: int, high: int, hidden: list[tuple[int, int]], work: CaptureWork) -> bytes:
    """A part of the text without what is hidden in it, unless it is hidden itself."""
    work.spend(1 + (high - low) // 64)
    kept: list[bytes] = []
    for index in range(bisect_left(hidden, (low, low)), len(hidden)):
        start, end = hidden[index]
        if end > high:
            break
        if (start, end) == (low, high):
            return text[low:high]
        work.spend(1)
        kept.append(text[low:start])
        low = end
    return b"".join([*kept, text[low:high]])


def by_their_ends(captures: Sequence[Capture]) -> list[Capture]:
    """In the order in which they end; of two that end together, the inner one first."""
    inner_first = list(reversed(captures))
    inner_first.sort(key=lambda one: (one.span[1], -one.span[0]))
    return inner_first


def has_captures(module: ir.Module) -> bool:
    """Whether something in it is captured. Cost: linear in the nodes."""
    return any(ref.capture is not None for node in module.rules.values() for ref in refs_in(node))
