"""What the formats have in common that write parameters as tags around bare text, in reading, grammar and text.

    open [wrap_open] call [wrap_close] close         one call between `open` and `close`
    open ([wrap_open] call [wrap_close])+ close      many of them (`many`)
    call = call-tag parameter* call_close
    parameter = key-tag V parameter_close

The families differ in how a call's tag holds the name, and a parameter's tag the key: `<function=N>` (`xml_parameters`) or
`<invoke name="N">` (`xml_attributes`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows._core import Run
from narrows.events import Content
from narrows.formats.families.base import Build, Entry, Shape
from narrows.formats.families.json_arguments import give_back
from narrows.formats.spelling import arguments_of, value_text
from narrows.stream.markers import Ahead, Exit
from narrows.stream.regions.either import Either
from narrows.stream.regions.expect import Expect
from narrows.stream.regions.parameters import EndOfCall, Parameters
from narrows.stream.regions.text import Text
from narrows.stream.regions.xml_value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from narrows.formats.parameters import Wire
    from narrows.formats.rule_writer import RuleWriter
    from narrows.grammar import ir
    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.raw_arguments import RawArguments
    from narrows.stream.regions.xml_value import Follows
    from narrows.value_types import ValueType


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlShape(Shape):
    """The keys that both families know."""

    open: str
    """The first tag: around one call, or with `many` around all of them."""
    open_also: tuple[str, ...] = ()
    """Other spellings of it that are read, but not written."""
    close: str = ""
    close_also: tuple[str, ...] = ()
    many: bool = False
    open_may_be_missing: bool = False
    """A call may begin at its own tag."""
    wrap_open: str = ""
    """Further markup before each call's tag."""
    wrap_close: str = ""
    call_open: str = ""
    """What a call's own tag begins with; without it, `open` is that, or the name stands right behind it."""
    call_close: str
    call_close_also: tuple[str, ...] = ()
    call_close_may_be_missing: bool = False
    """The next call ends one, too."""
    parameter_open: str
    parameter_close: str
    parameter_close_may_be_missing: bool = False
    """The next parameter's tag ends a value too, and so does the end of the call where another tag, or the text's end, follows."""
    trim_value: bool = True
    """One newline at either end of a value is layout."""
    inside: str = ""
    """Layout between the tags."""
    inside_may_be_missing: bool = False
    """The grammar leaves the layout to the model; for templates that differ in it."""
    cdata: bool = False
    """Strings with `<`, `&` or newlines, objects and arrays stand between `<![CDATA[` and `]]>`; elsewhere XML's entities are read."""
    wrappers: tuple[str, ...] = ()
    """Names of parameters that hold all others as one JSON object, where the tool does not declare them: models write that."""
    empty: str = ""
    """What may stand where the parameters would, in a call that has none."""

    def tags(self) -> tuple[str, ...]:
        """What may stand behind a parameter's closing tag: where none of these does, it is data."""
        return (*self.tags_of_parameters(), self.parameter_close, *self.call_ends(), *self.tags_behind_call())

    def tags_behind_call(self) -> tuple[str, ...]:
        """What may stand behind a call's closing tag, as far as it is markup."""
        found = (self.wrap_close, self.close, *self.close_also, *self.tags_of_calls())
        return tuple(tag for tag in found if tag and tag == tag.strip())

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
        """What may close a call; the first is `call_close`."""
        return (self.call_close, *self.call_close_also)

    def next_calls(self) -> tuple[str, ...]:
        """What begins the next call, where that ends one."""
        return (self.open, *self.open_also) if self.call_close_may_be_missing else ()

    def skeleton(self, build: Build, call_open: str) -> Skeleton:
        """The regions that both families share; `call_open` is the literal that a call's own tag begins with."""
        return Skeleton(self, build, call_open)

    # The grammar.

    def layout(self, lowering: RuleWriter, text: str | None = None) -> ir.Node:
        node = lowering.text(self.inside if text is None else text)
        return lowering.optional(node) if self.inside_may_be_missing else node

    def call_node(self, lowering: RuleWriter, tag: ir.Node, parameters: ir.Node) -> ir.Node:
        """One call, and with `many` the layout behind it; without, what is around it, too."""
        call = lowering.seq(
            lowering.marker(self.wrap_open),
            tag,
            parameters,
            lowering.marker(self.call_close),
            lowering.marker(self.wrap_close),
            self.layout(lowering) if self.close else lowering.text(""),
        )
        return call if self.many else self._around(lowering, call)

    def _around(self, lowering: RuleWriter, calls: ir.Node) -> ir.Node:
        before = self.layout(lowering) if self.has_inner_tag() else lowering.text("")
        return lowering.seq(lowering.marker(self.open), before, calls, lowering.marker(self.close))

    def calls(self, lowering: RuleWriter, call: ir.Node, many: bool, between: str) -> ir.Node:
        if self.many:
            return self._around(lowering, lowering.repeated(call, many, ""))
        return lowering.repeated(call, many, between)

    def after_value(self, lowering: RuleWriter) -> ir.Node:
        line = "\n" if self.trim_value else ""
        return lowering.seq(lowering.text(line), lowering.marker(self.parameter_close), self.layout(lowering))

    def has_inner_tag(self) -> bool:
        """Whether a call has a tag of its own within `open`."""
        return True

    # The text.

    def render(self, calls: list[tuple[str, Mapping[str, Any] | str, str]], between: str, ids: bool) -> str:
        before = self.inside if self.has_inner_tag() else ""
        behind = self.inside if self.close else ""
        made = [
            self.render_call(name, arguments_of(arguments), i) + behind for i, (name, arguments, _) in enumerate(calls)
        ]
        if self.many:
            return self.open + before + "".join(made) + self.close
        return between.join(self.open + before + call + self.close for call in made)

    def render_call(self, name: str, arguments: Mapping[str, Any], index: int) -> str:
        line = "\n" if self.trim_value else ""
        parts = [self.wrap_open, self.call_tag(name, index)]
        for key, value in arguments.items():
            parts += [self.key_tag(key, value), line, self.spelled(value), line, self.parameter_close, self.inside]
        if not arguments:
            parts.append(self.empty)
        return "".join([*parts, self.call_close, self.wrap_close])

    def call_tag(self, name: str, index: int) -> str:
        """From a call's own tag to before its first parameter."""
        raise NotImplementedError

    def key_tag(self, key: str, value: Any) -> str:
        """From a parameter's tag to before its value."""
        raise NotImplementedError

    def spelled(self, value: Any) -> str:
        text = value_text(value)
        marked = self.cdata and (any(c in text for c in _MARKED) or isinstance(value, (dict, list)))
        return CDATA + text + CDATA_END if marked else text

    def wire(self, lowering: RuleWriter, **more: Any) -> Wire:
        """How parameters are written; `more` is what the families add."""
        from narrows.formats.parameters import Wire, containing, followed, without  # what a parser alone does not need
        from narrows.grammar import ir

        line = "\n" if self.trim_value else ""
        end = line + self.parameter_close
        closers = [self.parameter_close]
        if self.cdata:
            end = CDATA_END + self.parameter_close
            closers = [end, f"{CDATA_END}\n{self.parameter_close}"]
            more["text"] = lambda text: lowering.either(
                ir.Lexeme(without(text, containing(_MARKED))), _marked(lowering, ir.Lexeme(text))
            )
            more["json"] = lambda node: _marked(lowering, node)
        ends_call = followed(self.call_ends(), self.tags_behind_call(), end, lines=True)
        banned = [followed(closers, self.tags(), end), ir.seq(containing(closers), ends_call)]
        if self.parameter_close_may_be_missing:
            banned.append(containing(line + tag for tag in (*self.tags_of_parameters(), *self.next_calls())))
            ends = [line + close for close in self.call_ends()]
            banned.append(followed(ends, self.tags_behind_call(), end, lines=True))
        return Wire(after_value=self.after_value(lowering), lead=line, banned=ir.alt(*banned), empty=self.empty, **more)


CDATA, CDATA_END = "<![CDATA[", "]]>"
_MARKED = ("<", "&", "\n")


def _marked(lowering: RuleWriter, node: ir.Node) -> ir.Node:
    return lowering.seq(lowering.text(CDATA), node, lowering.text(CDATA_END))


def _always(text: str, at: int, final: bool, longest: int) -> bool | None:
    """Whatever follows."""
    return True


class Skeleton:
    """Regions of one shape in one parser. The family links `name` (from behind a call's tag to its name's end) and `key`."""

    def __init__(self, shape: XmlShape, build: Build, call_open: str) -> None:
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
        self._call_open = encode(call_open)
        self._wrap_open = encode(shape.wrap_open)
        self.raw: RawArguments = build.raw(*self.behind_call(), *self.closers())
        self.between = Expect(self._broken("text between the parameters"))
        self.in_key = self._broken("a parameter's name breaks off")
        after_closer = Ahead(map(encode, shape.tags()))
        self._text = Value(self.parameters, after_closer, shape.trim_value, entities=shape.cdata)
        self.value: Value | Either = self._text
        if shape.cdata:
            self._marked = Value(self.parameters, after_closer, trim=False)
            self.value = Either(Exit(encode(CDATA), self._marked), self._text)

    def _tail(self, build: Build) -> Text:
        """The text behind a call: until `close`, where there is one."""
        return Text(Content, "closing", fresh=True) if self._shape.close else build.after

    def behind_call(self) -> list[Exit]:
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
        """`name`: behind `call_open`; `key`: behind `key_open`, where `is_key` says that a whole tag stands. Returns the ways in."""
        shape, build = self._shape, self._build
        open_key = Exit(build.encode(key_open), key)
        close_value = Exit(build.encode(shape.parameter_close), self.between)
        self.between.link([close_value, *self.ends(key, key_open)])
        behind_call = Ahead(map(build.encode, shape.tags_behind_call()), lines=True).follows
        over: list[tuple[Exit, Follows]] = [(close, behind_call) for close in self.call_closes]
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
        entries = [Entry(marker, begin) for marker in (shape.open, *shape.open_also)]
        if shape.open_may_be_missing:
            entries += [Entry(e.marker, e.region) for e in self._begins(name)]
        return entries

    def follow(
        self,
        key: Region,
        run: Run,
        key_open: str,
        key_end: str,
        behind: Expect | None = None,
        value_open: str = "",
        declared: ValueType | None = None,
    ) -> None:
        """Let the core read from one string to the next by itself, as long as the markers are the usual ones. `run` is that of the
        key, which `key_end` ends: that may have `declared` what the value is. `behind` it may come other tags than `value_open`."""
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
        if behind is not None:
            tags = Run.of_markers(behind.run.markers, blanks=True)  # its own, since what waits here is a key
            tags.link(encode(value_open), value, written)
            tags.resume = parameters.resuming(behind, declared)
            value, written = tags, None
        run.link(encode(key_end), value, written, parameters.next_string if declared else parameters.next_typed)
        between.resume = parameters.resuming(self.between)
        run.resume = parameters.resuming(key)

    def ends(self, key: Region, key_open: str) -> list[Exit]:
        """What may follow where no value is open: the next parameter, or the end of the call."""
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
