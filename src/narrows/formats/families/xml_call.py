"""What the families have in common that write parameters as tags around bare text.

    open [wrap_open] call [wrap_close] close         one call between `open` and `close`
    open ([wrap_open] call [wrap_close])+ close      many calls between them (`many`)
    call = call-tag parameter* call_close
    parameter = key-tag V parameter_close

The families differ in how a call's tag holds the name, and a parameter's tag the key: `<function=N>` in
`xml_parameters`, `<invoke name="N">` in `xml_attributes`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from narrows.formats.families.base import Shape
from narrows.formats.families.openers import Opener
from narrows.formats.spelling import arguments_of, value_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from narrows.formats.families.openers import CallContext
    from narrows.formats.parameters import Wire
    from narrows.formats.rule_writer import RuleWriter
    from narrows.grammar import ir


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlShape(Shape):
    """The keys that these families share."""

    open: str
    """The first tag: around one call, or with `many` around all of them."""
    open_also: tuple[str, ...] = ()
    """Other spellings of `open` that are read, but not written."""
    close: str = ""
    """The last tag, if there is one."""
    close_also: tuple[str, ...] = ()
    """Other spellings of `close` that are read, but not written."""
    many: bool = False
    """All calls of an answer stand between one `open` and one `close`."""
    open_may_be_missing: bool = False
    """A call may begin at its own tag."""
    wrap_open: str = ""
    """Further markup before each call's tag."""
    wrap_close: str = ""
    """Further markup after each call."""
    call_open: str = ""
    """What a call's own tag begins with. Without it, `open` is the call's tag, or the name follows `open` at once."""
    call_close: str
    """The tag at the end of a call."""
    call_close_also: tuple[str, ...] = ()
    """Other spellings of `call_close` that are read, but not written."""
    call_close_may_be_missing: bool = False
    """The beginning of the next call also ends a call."""
    parameter_open: str
    """What a parameter's tag begins with."""
    parameter_close: str
    """The tag after a value."""
    parameter_close_may_be_missing: bool = False
    """The tag of the next parameter also ends a value. So does the end of the call, if another tag or the end of the
    text follows it."""
    trim_value: bool = True
    """One newline at either end of a value is layout."""
    inside: str = ""
    """Layout between the tags."""
    inside_may_be_missing: bool = False
    """The grammar allows the layout and its absence. For models whose templates differ."""
    cdata: bool = False
    """Strings with `<`, `&` or newlines, objects and arrays stand between `<![CDATA[` and `]]>`. Elsewhere the entities
    of XML are read."""
    wrappers: tuple[str, ...] = ()
    """Names of parameters that hold all others as one JSON object, unless the tool declares a parameter of that name.
    Some models write this."""
    empty: str = ""
    """What may stand in place of the parameters, in a call that has none."""

    def tags(self) -> tuple[str, ...]:
        """What may follow a parameter's closing tag. If none of these follows, the tag is data."""
        return (*self.tags_of_parameters(), self.parameter_close, *self.call_ends(), *self.tags_after_call())

    def tags_after_call(self) -> tuple[str, ...]:
        """What may follow a call's closing tag, as far as it is markup."""
        tags = (self.wrap_close, self.close, *self.close_also, *self.tags_of_calls())
        return tuple(tag for tag in tags if tag and tag == tag.strip())

    def tags_of_parameters(self) -> tuple[str, ...]:
        """What a parameter's tag begins with."""
        return (self.parameter_open,)

    def tags_of_calls(self) -> tuple[str, ...]:
        """What begins a call."""
        return self.open, *self.open_also, self.wrap_open, self.call_open

    def problems(self) -> Iterator[tuple[str, str]]:
        if bool(self.wrap_open) != bool(self.wrap_close):
            yield "wrap_close", "goes with wrap_open"
        if self.many and not self.close:
            yield "close", "is needed with many"
        if self.call_close_may_be_missing and self.close:
            yield "call_close_may_be_missing", "excludes close"

    # Reading.

    def call_ends(self) -> tuple[str, ...]:
        """What may close a call. The first is `call_close`."""
        return (self.call_close, *self.call_close_also)

    def next_calls(self) -> tuple[str, ...]:
        """What begins the next call, if that also ends a call."""
        return (self.open, *self.open_also) if self.call_close_may_be_missing else ()

    def openers(self, context: CallContext) -> list[Opener]:
        openers = [Opener(marker) for marker in (self.open, *self.open_also)]
        inner = (*((self.wrap_open,) if self.wrap_open else ()), self.call_open) if self.open_may_be_missing else ()
        return openers + [Opener(marker) for marker in inner]

    # The grammar.

    def layout(self, writer: RuleWriter, text: str | None = None) -> ir.Node:
        node = writer.text(self.inside if text is None else text)
        return writer.optional(node) if self.inside_may_be_missing else node

    def call_node(self, writer: RuleWriter, tag: ir.Node, parameters: ir.Node) -> ir.Node:
        """One call with the layout after it; without `many`, also with what stands around it."""
        call = writer.seq(
            writer.marker(self.wrap_open),
            tag,
            parameters,
            writer.marker(self.call_close),
            writer.marker(self.wrap_close),
            self.layout(writer) if self.close else writer.text(""),
        )
        return call if self.many else self._around(writer, call)

    def _around(self, writer: RuleWriter, calls: ir.Node) -> ir.Node:
        before = self.layout(writer) if self.has_inner_tag() else writer.text("")
        return writer.seq(writer.marker(self.open), before, calls, writer.marker(self.close))

    def calls(self, writer: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        if self.many:
            return self._around(writer, writer.repeated(call, many, ""))
        return writer.repeated(call, many, between)

    def after_value(self, writer: RuleWriter) -> ir.Node:
        line = "\n" if self.trim_value else ""
        return writer.seq(writer.text(line), writer.marker(self.parameter_close), self.layout(writer))

    def has_inner_tag(self) -> bool:
        """Whether a call has a tag of its own within `open`."""
        return True

    # The text.

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        before = self.inside if self.has_inner_tag() else ""
        after = self.inside if self.close else ""
        texts = [
            self.render_call(name, arguments_of(arguments), i) + after for i, (name, arguments, _) in enumerate(calls)
        ]
        if self.many:
            return self.open + before + "".join(texts) + self.close
        return between.join(self.open + before + text + self.close for text in texts)

    def render_call(self, name: str, arguments: Mapping[str, Any], index: int) -> str:
        line = "\n" if self.trim_value else ""
        parts = [self.wrap_open, self.call_tag(name, index)]
        for key, value in arguments.items():
            parts += [self.key_tag(key, value), line, self.spelled(value), line, self.parameter_close, self.inside]
        if not arguments:
            parts.append(self.empty)
        return "".join([*parts, self.call_close, self.wrap_close])

    @abstractmethod
    def call_tag(self, name: str, index: int) -> str:
        """A call's text up to its first parameter."""

    @abstractmethod
    def key_tag(self, key: str, value: Any) -> str:
        """A parameter's text up to its value."""

    def spelled(self, value: Any) -> str:
        text = value_text(value)
        marked = self.cdata and (any(c in text for c in _MARKED) or isinstance(value, (dict, list)))
        return CDATA + text + CDATA_END if marked else text

    def wire(self, writer: RuleWriter, **more: Any) -> Wire:
        """How parameters are written. `more` is what a family adds."""
        from narrows.formats.parameters import Wire, followed  # what a parser alone does not need
        from narrows.grammar import ir
        from narrows.grammar.free_text import containing, without

        line = "\n" if self.trim_value else ""
        end = line + self.parameter_close
        closers = [self.parameter_close]
        if self.cdata:
            end = CDATA_END + self.parameter_close
            closers = [end, f"{CDATA_END}\n{self.parameter_close}"]
            more["text"] = lambda text: writer.either(
                ir.Lexeme(without(text, containing(_MARKED))), _marked(writer, ir.Lexeme(text))
            )
            more["json"] = lambda node: _marked(writer, node)
        ends_call = followed(self.call_ends(), self.tags_after_call(), end, lines=True)
        banned = [followed(closers, self.tags(), end), ir.seq(containing(closers), ends_call)]
        if self.parameter_close_may_be_missing:
            banned.append(containing(line + tag for tag in (*self.tags_of_parameters(), *self.next_calls())))
            ends = [line + close for close in self.call_ends()]
            banned.append(followed(ends, self.tags_after_call(), end, lines=True))
        return Wire(after_value=self.after_value(writer), lead=line, banned=ir.alt(*banned), empty=self.empty, **more)


CDATA, CDATA_END = "<![CDATA[", "]]>"
_MARKED = ("<", "&", "\n")


def _marked(writer: RuleWriter, node: ir.Node) -> ir.Node:
    return writer.seq(writer.text(CDATA), node, writer.text(CDATA_END))


def addressed(openers: list[Opener], at_start: str, head_end: ir.Node) -> list[Opener]:
    """The openers of messages whose head names the recipient, up to `head_end`.

    The one that is spelled `at_start` opens only where an answer begins, and the space before it may be missing there.
    The words of the others may well be prose, so the whole head is needed to tell.
    """
    from narrows.grammar import ir  # what most families do not need

    recipient = ir.Repeat(ir.byte_set((0x21, 0x3B), (0x3D, 0x7E)), 1)
    return [
        replace(opener, marker=opener.marker.lstrip(), at_start=True)
        if opener.marker == at_start
        else replace(opener, node=ir.Seq((ir.Bytes(opener.marker.encode()), recipient, head_end)))
        for opener in openers
    ]


JSON_TYPES = ("string", "number", "integer", "boolean", "null", "object", "array")


def json_type(value: Any) -> str:
    """What JSON calls a value; "integer" for whole numbers."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "integer" if isinstance(value, int) else "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, (list, tuple)) else "object"
