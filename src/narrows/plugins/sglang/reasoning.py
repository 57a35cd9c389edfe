"""A narrows reasoning style as an SGLang reasoning detector.

It splits reasoning from the rest. The rest goes to the tool call detector unchanged, with all markup. If the style
allows it, a call inside the reasoning ends the reasoning. To see calls, the detector needs a format. So use
`narrows_<format>` beside the tool call parser of that format, and `narrows_<style>` without a tool call parser.

Limit of SGLang's interface: reasoning after a call, or after text between content markers, stays in the content.
The other detector reads from there on.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from narrows import formats
from narrows.events import Content, Event, Reasoning, ToolCallStart
from narrows.plugins.sglang import compat

if TYPE_CHECKING:
    from narrows.formats import Format, ReasoningStyle

_ANY_FORMAT = "hermes_json"
"""The format for a style without a format. No calls are read, so the choice does not matter."""


class Detector(compat.BaseReasoningFormatDetector):
    """Reads one answer. SGLang makes one object for each stream or complete answer."""

    format_name: str | None = None
    style_name: str | None = None

    def __init__(
        self,
        stream_reasoning: bool = True,
        force_reasoning: bool = False,
        continue_final_message: bool = False,
        previous_content: str = "",
        force_nonempty_content: bool = False,
    ) -> None:
        self.format: Format = formats.get(self.format_name or _ANY_FORMAT)
        style = formats.reasoning_style(self.style_name) if self.style_name is not None else self.format.reasoning
        opener, closer = style.pairs[0] if style is not None else ("", "")
        super().__init__(
            opener,
            closer,
            force_reasoning=force_reasoning,
            stream_reasoning=stream_reasoning,
            continue_final_message=continue_final_message,
            previous_content=previous_content,
            force_nonempty_content=force_nonempty_content,
        )
        self.style: ReasoningStyle | None = style
        # Calls are read only to see where one begins. With a style alone they are not read: their text is content.
        wraps = style.wraps if style is not None else ()
        self._sees_calls = style is not None and self.format_name is not None
        self._passing = style is None
        # Content between reasoning is given as text, unless markers enclose it, which the other detector has to see.
        self._texts = not wraps and (not self._sees_calls or (style is not None and style.anywhere))
        self._parser = self.format.parser(
            None if self._sees_calls else [],
            parallel=False,  # the first call is enough
            reasoning=style.name if style is not None else None,
            prompt=previous_content or (opener if force_reasoning else ""),
        )
        self._openers = [opener.marker for opener in self.format.openers()] if self._sees_calls else []
        self._openers += [opener for opener, _ in wraps if opener]
        self._raw = ""
        self._raw_from = 0
        self._thoughts: list[str] = []

    def parse_streaming_increment(self, new_text: str) -> Any:
        if self._passing:
            return compat.ReasoningResult(normal_text=new_text)
        self._raw += new_text
        return self._result(self._parser.feed(new_text), final=False)

    def finish(self) -> Any:
        result = self._result([] if self._passing else self._parser.finish(), final=True)
        self._passing, self._raw = True, ""
        if self._thoughts:
            result.reasoning_text = "".join([*self._thoughts, result.reasoning_text])
            self._thoughts = []
        return result

    def detect_and_parse(self, text: str) -> Any:
        parts = [self.parse_streaming_increment(text), self.finish()]
        result = compat.ReasoningResult(
            normal_text="".join(part.normal_text for part in parts),
            reasoning_text="".join(part.reasoning_text for part in parts),
        )
        return self._maybe_apply_force_nonempty_content(result)

    def _result(self, events: list[Event], final: bool) -> Any:
        reasoning: list[str] = []
        normal: list[str] = []
        read_to = self._raw_from
        for event in events:
            if isinstance(event, Reasoning):
                reasoning.append(event.text)
            elif isinstance(event, Content) and self._texts:
                normal.append(event.text)
            elif isinstance(event, (Content, ToolCallStart)):
                # The reasoning has ended. From here on all text passes unchanged.
                normal.append(self._raw[self._begins(read_to, event) - self._raw_from :])
                self._passing = True
                break
            read_to = event.span[1]
        self._forget(events)
        self._in_reasoning = not self._passing and self._parser.place == "reasoning"
        thoughts = "".join(reasoning)
        if not self.stream_reasoning and not final:
            self._thoughts.append(thoughts)
            thoughts = ""
            if (normal or self._passing) and self._thoughts:
                thoughts, self._thoughts = "".join(self._thoughts), []
        return compat.ReasoningResult(normal_text="".join(normal), reasoning_text=thoughts)

    def _begins(self, read_to: int, event: Content | ToolCallStart) -> int:
        """Position of the markup before this event: after `read_to` and after the closing marker of the reasoning."""
        assert self.style is not None
        gap = self._raw[read_to - self._raw_from : event.span[0] - self._raw_from]
        after = max((at + len(closer) for _, closer in self.style.pairs if (at := gap.rfind(closer)) >= 0), default=0)
        openings = [at for opener in self._openers if (at := gap.find(opener, after)) >= 0]
        return read_to + min(openings, default=len(gap) if isinstance(event, Content) else after)

    def _forget(self, events: list[Event]) -> None:
        """Drop the raw text of the events that were given out."""
        if self._passing:
            self._raw = ""
        elif events:
            end = events[-1].span[1]
            self._raw, self._raw_from = self._raw[end - self._raw_from :], end


@lru_cache(maxsize=512)
def detector_for(format_name: str | None, style_name: str | None) -> type[Any]:
    """The detector class of a format with its own style, or of a style."""
    name = (format_name or style_name or "").title().replace("_", "")
    return type(f"Narrows{name}ReasoningDetector", (Detector,), {"format_name": format_name, "style_name": style_name})
