"""A bare arguments object after a name that stands outside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows._core import Run
from narrows.stream.held import Held
from narrows.stream.json_scan import JsonScanner
from narrows.stream.machine import CUT
from narrows.stream.whitespace import skip_whitespace

if TYPE_CHECKING:
    from narrows.stream.machine import Machine, Region
    from narrows.stream.regions.raw_arguments import RawArguments

NOT_AN_OBJECT = "the arguments are not a JSON object"


class ArgumentsValue:
    """One arguments value, streamed while the call's name is known and held while it is not."""

    __slots__ = ("_empty", "_held", "_run", "_scanner", "begin", "end")

    def __init__(self, machine: Machine) -> None:
        self._scanner = JsonScanner(machine.limits.stream_depth)
        self._run = Run.of_json(self._scanner)
        self._held = Held()
        self._empty = False
        self.begin = self.end = machine.offset

    @property
    def fault(self) -> str | None:
        return self._scanner.fault

    @property
    def flaw(self) -> str | None:
        """Why these arguments are not a JSON object although the value has ended."""
        if self._scanner.kind != "{" and not self._empty:
            return NOT_AN_OBJECT
        return self._scanner.flaw

    def read(self, machine: Machine, stream: bool) -> bool:
        """Take what there is; True when the value has ended (or broken off: `fault`)."""
        scanner = self._scanner
        at = scanner.scan(machine.text, machine.pos)
        ended = scanner.done or scanner.fault is not None
        if at > machine.pos:
            start = machine.offset
            piece = machine.clean(machine.take(at))
            self.end = machine.offset
            if scanner.kind == "n" or not stream:
                self._held.add(piece)
            else:
                machine.write(piece, start)
                if machine.offset >= 0 and not ended:
                    machine.run = self._run
        if scanner.done and scanner.kind == "n":  # null: a call without arguments
            self._empty = True
            self._held = Held("{}")
        if stream and self._held.size and ended:
            self.flush(machine)
        return ended

    def flush(self, machine: Machine) -> None:
        """Emit what was held."""
        machine.write_held(self._held.text, (self.begin, self.end))
        self._held = Held()


class JsonArguments:
    """A bare arguments object of a call that has started; then `after`. Where nothing stands before what ends the call, it is `{}`.

    With `objects_only`, anything else is raw, up to the closing marker: elsewhere a value ends the arguments, whatever it is."""

    __slots__ = ("_after", "_objects_only", "_raw", "_value")
    place = "call"

    def __init__(self, after: Region, raw: RawArguments, objects_only: bool = False) -> None:
        self._after = after
        self._raw = raw
        self._objects_only = objects_only
        self._value: ArgumentsValue | None = None

    def enter(self, machine: Machine) -> JsonArguments:
        self._value = None
        return self

    def read(self, machine: Machine) -> Region | None:
        if self._value is None:
            if not skip_whitespace(machine):
                return None
            ended, maybe = self._raw.ends_here(machine)
            if ended:
                machine.write("{}", machine.offset)
                machine.end_call()
                return self._after.enter(machine)
            if maybe:
                return None
            if self._objects_only and machine.text[machine.pos] not in "{n":
                return self._raw.because(NOT_AN_OBJECT).enter(machine)
            self._value = ArgumentsValue(machine)
        if not self._value.read(machine, stream=True):
            return None
        if self._value.fault is not None:
            return self._raw.because(self._value.fault).enter(machine)
        machine.end_call(self._value.flaw)
        return self._after.enter(machine)

    def stop(self, machine: Machine) -> None:
        if self._value is not None:
            self._value.flush(machine)
        machine.take(len(machine.text))  # half a marker
        machine.end_call(CUT)
