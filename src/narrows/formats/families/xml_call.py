"""What the families have in common that write parameters as tags around bare text: reading, grammar and text.

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

from narrows._core import Run
from narrows.events import Content
from narrows.formats.families.base import Shape
from narrows.formats.families.build import give_back
from narrows.formats.families.openers import Opener
from narrows.formats.spelling import arguments_of, value_text
from narrows.stream.markers import Ahead, Exit
from narrows.stream.regions.either import Either
from narrows.stream.regions.expect import Expect
from narrows.stream.regions.parameters import EndOfCall, Parameters
from narrows.stream.regions.text import Text
from narrows.stream.regions.xml_value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from narrows.formats.families.build import Build
    from narrows.formats.families.openers import CallContext, Entry
    from narrows.formats.parameters import Wire
    from narrows.formats.rule_writer import RuleWriter
    from narrows.grammar import ir
    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.raw_arguments import RawArguments
    from narrows.stream.regions.xml_value import Follows
    from narrows.value_types import ValueType


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
        from narrows.formats.parameters import Wire, containing, followed, without  # what a parser alone does not need
        from narrows.grammar import ir

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


def _always(text: str, at: int, final: bool, longest: int) -> bool | None:
    """Whatever follows."""
    return True


class Skeleton:
    """The regions of one shape in one parser. The family links the region of a call's name and that of a key."""

    def __init__(self, shape: XmlShape, build: Build) -> None:
        encode = build.encode
        self._shape = shape
        self._build = build
        self.parameters = Parameters(shape.wrappers)
        self.after_call = self._tail(build)
        over = EndOfCall(self.parameters, self.after_call)
        self.call_closes = [Exit(encode(marker), over) for marker in shape.call_ends()]
        self.call_close = self.call_closes[0]
        self.next_calls = [Exit(encode(marker), over, keep=True) for marker in shape.next_calls()]
        self._closes = [encode(marker) for marker in (shape.close, *shape.close_also) if marker]
        self._call_open = encode(shape.call_open)
        self._wrap_open = encode(shape.wrap_open)
        self.raw: RawArguments = build.raw(*self.after_arguments(), *self.closers())
        self.between = Expect(self._broken("text between the parameters"))
        self.in_key = self._broken("a parameter's name breaks off")
        after_closer = Ahead(map(encode, shape.tags()))
        self._text = Value(self.parameters, after_closer, shape.trim_value, entities=shape.cdata)
        self.value: Value | Either = self._text
        if shape.cdata:
            self._marked = Value(self.parameters, after_closer, trim=False)
            self.value = Either(Exit(encode(CDATA), self._marked), self._text)

    def _tail(self, build: Build) -> Text:
        """The text after a call, up to `close` if there is one."""
        return Text(Content, "closing", fresh=True) if self._shape.close else build.after

    def after_arguments(self) -> list[Exit]:
        """The ends of a call whose arguments have ended before."""
        return [Exit(close.marker, self.after_call) for close in self.call_closes]

    def closers(self) -> list[Exit]:
        """The ends of what `open` began."""
        return [Exit(marker, self._build.after) for marker in self._closes]

    def _broken(self, reason: str) -> Any:
        def go(machine: Machine) -> Region:
            return self.raw.because(reason).enter(machine)

        return go

    def link(self, name: Region, key: Region, key_open: str, is_key: Follows) -> list[Entry]:
        """Link the regions, and return the shape's entries.

        `name` reads on after `call_open`. `key` reads on after `key_open`, where `is_key` says that a whole tag stands.
        """
        shape, build = self._shape, self._build
        open_key = Exit(build.encode(key_open), key)
        close_value = Exit(build.encode(shape.parameter_close), self.between)
        self.between.link([close_value, *self.ends(key, key_open)])
        tag_follows = Ahead(map(build.encode, shape.tags_after_call()), lines=True).follows
        over: list[tuple[Exit, Follows]] = [(close, tag_follows) for close in self.call_closes]
        over += [(opener, _always) for opener in self.next_calls]
        next_key = (open_key, is_key) if shape.parameter_close_may_be_missing else None
        self._text.link([close_value], over, next_key, shape.inside)
        if shape.cdata:
            closers = (CDATA_END + layout + shape.parameter_close for layout in ("", "\n"))
            self._marked.link([Exit(build.encode(closer), self.between) for closer in closers], over)

        begin = name
        if self._call_open:
            begin = Expect(give_back)
            begin.link(self._begins(name))
        if self.after_call is not build.after:
            exits = self.closers()
            if shape.wrap_close:
                exits.append(Exit(build.encode(shape.wrap_close), self.after_call))
            if shape.many and build.parallel:
                exits += [Exit(e.marker, e.region, begins=True, inside=True) for e in self._begins(name)]
            build.tails.append((self.after_call, tuple(exits)))
        openers = shape.openers(build)
        regions = [begin for _ in (shape.open, *shape.open_also)]
        if shape.open_may_be_missing:
            regions += [exit.region for exit in self._begins(name)]
        return [opener.to(region) for opener, region in zip(openers, regions, strict=True)]

    def follow(
        self,
        key: Region,
        run: Run,
        key_open: str,
        key_end: str,
        before_value: Expect | None = None,
        value_open: str = "",
        declared: ValueType | None = None,
    ) -> None:
        """Let the core read from one string to the next by itself, as long as the markers are the usual ones.

        `run` is that of the key. `key_end` ends the key, and may have `declared` what the value is. `before_value`
        reads what stands between the two, if that may be another tag than `value_open`.
        """
        encode, parameters = self._build.encode, self.parameters
        between = self.between.run
        between.link(encode(key_open), run)
        self._text.follow(self.between, between)
        value: Run = self.value.run
        written: str | None = '"'
        if isinstance(self.value, Either):
            self._marked.follow(self.between, between)
            value.link(encode(CDATA), self._marked.run, '"')
            value.link(None, self._text.run, '"')
            value.resume = parameters.resuming(self.value, declared)
            written = None
        if before_value is not None:
            tags = Run.of_markers(before_value.run.markers, blanks=True)  # its own, since what waits here is a key
            tags.link(encode(value_open), value, written)
            tags.resume = parameters.resuming(before_value, declared)
            value, written = tags, None
        run.link(encode(key_end), value, written, parameters.next_string if declared else parameters.next_typed)
        between.resume = parameters.resuming(self.between)
        run.resume = parameters.resuming(key)

    def ends(self, key: Region, key_open: str) -> list[Exit]:
        """What may follow if no value is open: the next parameter, or the end of the call."""
        over = EndOfCall(self.parameters, self._build.after)
        return [
            Exit(self._build.encode(key_open), key),
            *self.call_closes,
            *self.next_calls,
            *(Exit(m, over) for m in self._closes),
        ]

    def _begins(self, name: Region) -> list[Exit]:
        """The literals that a call within `open` begins with."""
        exits = [Exit(self._call_open, name)]
        if self._wrap_open:
            wrapped = Expect(give_back)
            wrapped.link(exits)
            exits = [Exit(self._wrap_open, wrapped), *exits]
        return exits


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


def start_call(machine: Machine, name: str, span: tuple[int, int]) -> None:
    machine.start_call(machine.clean(name), span)
