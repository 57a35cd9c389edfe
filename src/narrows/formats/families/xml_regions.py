"""The regions that the families of xml_call.py share: from a call's tag to the text after the call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from narrows._core import Run
from narrows.events import Content
from narrows.formats.families.build import give_back
from narrows.formats.families.xml_call import CDATA, CDATA_END
from narrows.stream.markers import Ahead, Exit
from narrows.stream.regions.either import Either
from narrows.stream.regions.expect import Expect
from narrows.stream.regions.parameters import EndOfCall, Parameters
from narrows.stream.regions.text import Text
from narrows.stream.regions.xml_value import Value

if TYPE_CHECKING:
    from narrows.formats.families.build import Build
    from narrows.formats.families.openers import Entry
    from narrows.formats.families.xml_call import XmlShape
    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.raw_arguments import RawArguments
    from narrows.stream.regions.xml_value import Follows
    from narrows.value_types import ValueType


def _always(text: str, at: int, final: bool, longest: int) -> bool | None:
    """Whatever follows."""
    return True


class XmlRegions:
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
            tags = Run.of_markers(
                before_value.run.markers, whitespace_before=True
            )  # its own, since what waits here is a key
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
