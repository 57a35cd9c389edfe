"""A wire format as data: what its TOML file says.

format.py makes a parser, a grammar and a text of it. from_toml.py reads the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from narrows.arguments import ITERABLE, TEXT, of, optional, quoted, wants
from narrows.errors import InputError
from narrows.formats.families.openers import CallContext, Opener
from narrows.formats.reasoning import ReasoningStyle

if TYPE_CHECKING:
    from narrows.formats.families.base import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Detect:
    """Literals by which a chat template gives its format away."""

    all: tuple[str, ...]
    """All of these are there."""
    any: tuple[str, ...] = ()
    """One of these is there."""
    none: tuple[str, ...] = ()
    """None of these is there."""
    likely: tuple[str, ...] = ()
    """Literals of templates that go with the format but do not write its calls. They tell with less confidence, and
    only if no other format fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatDefinition:
    """What a wire format's TOML file says. Immutable."""

    name: str
    """The canonical name: that of the file."""
    title: str
    """What a call looks like, in a few words."""
    models: tuple[str, ...]
    """Models that write it, by name."""
    aliases: tuple[str, ...]
    """Names under which other servers know it."""
    reasoning: ReasoningStyle | None
    """The style of reasoning that goes with it. None: these models do not reason."""
    ids: str
    """The style of ids that a parser makes where the wire carries none."""
    calls: tuple[Shape, ...]
    """Ways of writing calls; the first is the one that is rendered by default."""
    read_only: frozenset[str] = frozenset()
    """Forms that are read where a model slips into them, but neither rendered nor allowed by the grammar."""
    before: str
    """Layout between the text and the first call."""
    between: str
    """Layout between calls."""
    around_reasoning: tuple[str, ...] = ("", "", "")
    """Layout that is written after the opener of reasoning, before its closer and after that."""
    detect: Detect | None
    """How a chat template gives the format away. None: it is not detected."""
    source: str
    """The TOML file's text."""
    tokens: tuple[str, ...] = ()
    """Parts of markers that vocabularies hold as single tokens, where a marker is more than its token."""
    ends: tuple[str, ...] = ()
    """Markup that models write at the end of a turn, before its end token: read over."""
    turns: tuple[str, ...] = ()
    """What ends or heads a turn in these models' prompts, besides what is known of all (see `formats.prompt`)."""
    strip: bool = False
    """Leave out the whitespace at the ends of the text, and before calls."""
    untyped: str = "string"
    """What an argument written as bare text is where no schema says: "string", or "json" where it can be JSON."""
    verified: bool = True
    """Compared with a chat template of a model that writes it, or with what a model writes. False: written from
    descriptions and other parsers."""

    @property
    def written(self) -> tuple[Shape, ...]:
        """The ways of writing calls that the grammar allows."""
        return tuple(shape for shape in self.calls if shape.form not in self.read_only)

    @property
    def heading(self) -> str:
        """What stands before text; "" if nothing does."""
        return next((heading for shape in self.calls if (heading := shape.heading())), "")

    def openers(self, names: tuple[str, ...] | None = None, named: str | None = None) -> list[Opener]:
        """What begins a call. names: the tools' names, if they are known; named: the tool that the request names."""
        wants(optional(ITERABLE), names=names)
        wants(optional(TEXT), named=named)
        head = self.reasoning.head if self.reasoning is not None else None
        context = CallContext(names=names, named=named, head=head)
        return [opener for shape in self.calls for opener in shape.openers(context)]

    def form(self, name: str | None) -> Shape:
        """The way of writing calls of this name (None: the first)."""
        wants(optional(TEXT), form=name)
        for shape in self.calls:
            if name is None or shape.form == name:
                return shape
        known = ", ".join(shape.form for shape in self.calls)
        raise InputError(f"{self.name} has no form {quoted(name)}", code="form_unknown", hint=f"Its forms: {known}")

    def markers(self, style: ReasoningStyle | None) -> tuple[str, ...]:
        """Every literal that a vocabulary may hold as one token."""
        wants(optional(of("a ReasoningStyle", ReasoningStyle)), style=style)
        return _markers(self, style)


@lru_cache(maxsize=256)  # each parser that is fed ids asks
def _markers(fmt: FormatDefinition, style: ReasoningStyle | None) -> tuple[str, ...]:
    markers = [marker for shape in fmt.calls for marker in shape.markers()]
    for pair in (*style.pairs, *style.wraps) if style else ():
        markers += pair
    markers += fmt.ends
    tokens = [*fmt.tokens, *(style.tokens if style else ())]
    # The others are more than a token.
    whole = [marker for marker in markers if not any(token in marker for token in tokens)]
    return tuple(dict.fromkeys(whole + tokens))
