"""The stream parser of one answer: a format's regions, its markers, and what is known of the answer beforehand.

Cost: some 10 us, whatever the tools; their schemas are read when a call needs them. The first delta takes 7 us more,
once an answer of the format has made the regions of text (0.1 ms, at most 1). The first call of a shape makes the
regions of that shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.formats.reading import answer_regions
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.stream.ids import id_factory
from narrows.stream.machine import Due
from narrows.stream.parser import StreamParser
from narrows.stream.strip import StrippingParser

if TYPE_CHECKING:
    from collections.abc import Callable

    from narrows.formats.definition import FormatDefinition
    from narrows.formats.reasoning import ReasoningStyle
    from narrows.tokens import TokenVocabulary
    from narrows.tools.request import Choice, Tools


def answer_parser(
    fmt: FormatDefinition,
    table: Tools,
    choice: Choice,
    style: ReasoningStyle | None,
    *,
    parallel: bool = True,
    open_text: str = "",
    make_id: Callable[[int], str] | None = None,
    vocab: TokenVocabulary | None = None,
    limits: Limits = DEFAULT_LIMITS,
    hold_calls: bool = False,
    one_piece: bool = False,
    strip: bool = False,
    constrained: bool = False,
) -> StreamParser:
    """See `Format.parser`. `open_text`: the part of the prompt that the answer goes on from (prompt.py). `one_piece`:
    the content was held to a grammar of its own."""
    calls = table.tools != {} and choice.mode != "none"
    kind = StrippingParser if strip else StreamParser
    return kind(
        lambda alphabet: answer_regions(fmt, style, calls, parallel, alphabet, choice.name, one_piece),
        lambda: fmt.markers(style),
        table,
        make_id or id_factory(fmt.ids),
        limits,
        open_text,
        vocab,
        hold_calls,
        Due(call=calls and choice.mode in ("required", "named"), grammar=calls and constrained),
        style.pairs[0][0] if style is not None and style.shown else "",
    )
