"""What a family of wire formats offers: the base class of all shapes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from narrows.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from narrows.formats.families.build import Build
    from narrows.formats.families.openers import CallContext, Entry, Opener
    from narrows.formats.rule_writer import RuleWriter
    from narrows.grammar import ir
    from narrows.tools.request import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape(ABC):
    """One way of writing calls: the keys of a `[[call]]` table, and what they mean. The base class of all families.

    Each field of a family is a key of the table, and the field's default is the key's default. A key without a default
    must be given, and must not be empty. A key whose name ends with `_also` lists further spellings. None of them may
    be empty. Methods that are not abstract do what most families need.
    """

    form: str
    """The name of this way of writing calls. A format may have several, each with a name of its own."""
    open: str
    """What calls begin with as they are written; "" if no marker announces them."""

    # A family makes this a key if a table may set it.
    at_start = False
    """Whether calls begin only where the answer begins, or goes on after its reasoning."""
    needs_head: ClassVar[bool] = False
    """Whether calls are messages with a head, so that the format's reasoning style must have a `[head]`."""

    def problems(self) -> Iterable[tuple[str, str]]:
        """What is wrong with the table, besides what its fields say: (key, message) each."""
        return ()

    # Reading.

    @abstractmethod
    def markers(self) -> tuple[str, ...]:
        """The literals that may be single tokens of a vocabulary."""

    def markers_after_values(self) -> tuple[str, ...]:
        """The markers that end a bare value. None of them may end as it begins."""
        return self.markers()

    @abstractmethod
    def openers(self, context: CallContext) -> list[Opener]:
        """What begins a call of this shape. Builds no regions."""

    @abstractmethod
    def entries(self, build: Build) -> list[Entry]:
        """The same openers (of `openers(build)`, in that order), each with the region that reads on."""

    # The grammar.

    @abstractmethod
    def call(self, writer: RuleWriter, tool: Tool | None) -> ir.Node:
        """The grammar of one call of this tool (None: of any name, with any arguments)."""

    @abstractmethod
    def calls(self, writer: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        """The grammar of one call, or of several if `many`.

        `writer.repeated`, `separated` and `several` know how many calls there may be.
        """

    def text(self, writer: RuleWriter) -> ir.Node | None:
        """The grammar of text; None if text is written as it stands."""
        return None

    # The text.

    @abstractmethod
    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        """The text of these calls: (name, arguments, id) each."""

    def render_text(self, content: str) -> str | None:
        """How text is written; None if it is written as it stands."""
        return None

    def heading(self) -> str:
        """What is written before text. It is read even where nothing is a call. "" if there is nothing."""
        return ""


def name_unsupported(name: str) -> UnsupportedError:
    """The error for a tool whose name the parser would not read back."""
    return UnsupportedError(f"the name {name!r} cannot be written in this format", code="tool_name_unsupported")
