"""A narrows format as an SGLang tool call detector.

SGLang gives text in increments, and takes text and pieces of calls, names first. One narrows parser reads the stream
and the complete answer, so the two agree. Limit of SGLang's interface: in one increment text comes before calls,
whatever their order in the answer.

Intended differences to SGLang's own detectors: a call of a tool that was not offered is passed on, because the client
can refuse it, but cannot see it if it is dropped; malformed markup is text; arguments are the model's own characters.
Calls carry their ids as `call_id`. The server reads it through one of SGLang's hooks (plugin.py).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from narrows import formats
from narrows.events import Content, Event, Reasoning, ToolCallArguments, ToolCallStart
from narrows.plugins.sglang import compat
from narrows.stream import StreamParser

if TYPE_CHECKING:
    from narrows.formats import Format


class CallItem(compat.ToolCallItem):
    """A piece of a call, with the id of the wire format or one that the model's template accepts."""

    call_id: str | None = None


class Detector(compat.BaseFormatDetector):
    """Reads one answer. SGLang makes one object for each stream or complete answer."""

    format_name = ""

    def __init__(self) -> None:
        super().__init__()
        self.format: Format = formats.get(self.format_name)
        # The other detector reads the reasoning, but leaves the content unchanged. So a style with content markers is
        # read here too.
        style = self.format.reasoning
        self._style = style.name if style is not None and style.wraps else None
        self._parser: StreamParser | None = None

    # Reading.

    def parse_streaming_increment(self, new_text: str, tools: list[Any]) -> Any:
        return self._result(self._of(tools).feed(new_text))

    def finish(self, tools: list[Any]) -> Any:
        return self._result(self._of(tools).finish())

    def detect_and_parse(self, text: str, tools: list[Any]) -> Any:
        """The complete answer, with complete calls."""
        parser = self._new(tools)
        pieces = self._result([*parser.feed(text), *parser.finish()], keep=False)
        calls: list[CallItem] = []
        for item in pieces.calls:
            if item.name is not None:
                calls.append(item)
            else:
                calls[-1].parameters += item.parameters
        return compat.StreamingParseResult(normal_text=pieces.normal_text, calls=calls)

    def has_tool_call(self, text: str) -> bool:
        """Whether the text has something for this detector: a call, or content between markers. The tools are not known
        here, so the opening marker of a call is enough."""
        if any(opener.marker in text for opener in self.format.openers()):
            return True
        return (self.format.parse(text, reasoning=self._style).content or "") != text

    def _of(self, tools: list[Any]) -> StreamParser:
        if self._parser is None:
            self._parser = self._new(tools)
        return self._parser

    def _new(self, tools: list[Any]) -> StreamParser:
        return self.format.parser(tools, reasoning=self._style)

    def _result(self, events: list[Event], keep: bool = True) -> Any:
        text: list[str] = []
        calls: list[CallItem] = []
        for event in events:
            if isinstance(event, (Content, Reasoning)):
                text.append(event.text)
            elif isinstance(event, ToolCallStart):
                calls.append(CallItem(tool_index=event.index, name=event.name, parameters="", call_id=event.id))
            elif isinstance(event, ToolCallArguments):
                calls.append(CallItem(tool_index=event.index, parameters=event.text))
        for item in calls if keep else ():
            self._remember(item)
        return compat.StreamingParseResult(normal_text="".join(text), calls=calls)

    def _remember(self, item: CallItem) -> None:
        """What the server compares at the end of a stream, to send what a detector has kept back: the same on both
        sides, for nothing is."""
        if item.name is not None:
            self.current_tool_id = item.tool_index
            self.streamed_args_for_tool.append("")
            self.prev_tool_call_arr.append({"name": item.name, "arguments": ""})
        else:
            self.streamed_args_for_tool[-1] += item.parameters
            self.prev_tool_call_arr[-1]["arguments"] = self.streamed_args_for_tool[-1]

    # Constraining. SGLang's structural tags hold JSON between two literals: they serve formats with such calls.

    def supports_structural_tag(self) -> bool:
        return _structure(self.format_name) is not None

    def structure_info(self) -> Any:
        structure = _structure(self.format_name)
        if structure is None:
            raise NotImplementedError(f"{self.format_name} does not write JSON between two literals")
        begin, end, trigger = structure

        def info(name: str) -> Any:
            return compat.StructureInfo(begin=begin.replace(_NAME, name), end=end, trigger=trigger)

        return info


_NAME, _ARGUMENTS = "narrows_name", "narrows_arguments"


@lru_cache(maxsize=256)
def _structure(name: str) -> tuple[str, str, str] | None:
    """(begin, end, trigger) of a call whose arguments are JSON. None if calls are not JSON between two literals, or if
    two calls cannot follow each other."""
    fmt = formats.get(name)
    call = {"function": {"name": _NAME, "arguments": f'{{"{_ARGUMENTS}": 1}}'}}
    text = fmt.render({"tool_calls": [call]})
    begin, separator, end = text.partition(f'{{"{_ARGUMENTS}": 1}}')
    trigger = next(
        (opener for opener in (shape.open for shape in fmt.calls[:1]) if opener and begin.startswith(opener)), ""
    )
    if not separator or not trigger or begin.count(_NAME) != 1:
        return None
    twice = fmt.parse(f"{begin}{{}}{end}{begin}{{}}{end}").tool_calls
    return (begin, end, trigger) if [call.complete for call in twice] == [True, True] else None


@lru_cache(maxsize=256)
def detector_for(name: str) -> type[Any]:
    """The detector class of a format."""
    return type(f"Narrows{name.title().replace('_', '')}Detector", (Detector,), {"format_name": name})
