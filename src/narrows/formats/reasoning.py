"""How reasoning is set off from content, as data: what `formats/definitions/reasoning/NAME.toml` says. styles.py reads
it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """How messages are headed: the `[head]` table of a reasoning style."""

    start: str
    """Begins a message, with its author. At the beginning of an answer, it stands in the prompt."""
    channel: str
    constrain: str
    """May stand before the word for the notation."""
    recipient: str
    """Stands before the recipient."""
    message: str
    """Ends the head."""
    namespace: str
    """Stands before the names of tools that are functions."""
    people: tuple[str, ...]
    """Recipients that are no tools."""
    reasoning: tuple[str, ...]
    """The channels of reasoning."""
    content: tuple[str, ...]
    """The channels of content; a message without a channel is content, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningStyle:
    """How reasoning is set off from content: `formats/definitions/reasoning/NAME.toml`."""

    name: str
    """That of the file."""
    pairs: tuple[tuple[str, str], ...]
    """(opener, closer); the first pair is the one that is rendered."""
    aliases: tuple[str, ...] = ()
    """Names under which other servers know it."""
    wraps: tuple[tuple[str, str], ...] = ()
    """(opener, closer) around the content after the reasoning: markup, where they come. The first pair is rendered."""
    tokens: tuple[str, ...] = ()
    """Parts of these markers that vocabularies hold as single tokens."""
    before_open: str = ""
    """May stand before an opener at the very beginning; there, the parser reads over all whitespace."""
    after_open: str = ""
    """Layout after an opener."""
    before_close: str = ""
    """Layout before a closer."""
    after_close: str = ""
    """Layout after a closer."""
    inside_content: str = ""
    """At most this much is layout after an opener of the content and before its closer."""
    anywhere: bool = False
    """Reasoning (and content that is set off) may begin after content too."""
    calls: str = "end"
    """A call inside ends the reasoning ("end") or is part of it ("data")."""
    content: str = "end"
    """The opener of content that is set off, inside reasoning that was not closed: it ends the reasoning ("end"), does
    so where it begins or ends a line ("line"), or is part of it ("data"). Before any reasoning, it counts in any case,
    and so does a call's."""
    message_start: str = ""
    """What begins with this begins a message, whatever was not closed before."""
    head: Head | None = None
    """How messages are headed, where heads are more than a few literals."""
    calls_in_content: str = "end"
    """A call inside content that is set off ends it ("end") or is part of it ("data")."""
    before_calls: int = 0
    """Which of `wraps` is written where calls follow."""
    content_bare: bool = True
    """Content may be written without its opener. The parser reads it so in any case."""
    opened: bool = False
    """Without a prompt to tell, the answer begins inside."""
    close_alone: bool = False
    """A closer at the very beginning says that there is no reasoning; it is markup."""
    shown: bool = False
    """Reasoning is left in the content, with its markers. Where an answer begins inside, the opener is written before
    it."""

    @property
    def closer(self) -> str:
        """What ends reasoning, wherever it stands."""
        return self.pairs[0][1]

    @property
    def empty(self) -> tuple[str, ...]:
        """Openers whose last newline is missing, with a closer right after: there is no reasoning."""
        return tuple(
            opener.rstrip("\n") + closer for opener, _ in self.pairs if opener[-1:] == "\n" for _, closer in self.pairs
        )

    def wrap(self, calls_follow: bool) -> tuple[str, str]:
        """The (opener, closer) that is written around content."""
        return self.wraps[self.before_calls if calls_follow else 0]
