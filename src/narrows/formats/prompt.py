"""Where a prompt leaves off: the part of it that the answer goes on from.

A rendered prompt ends with the beginning of the answer: nothing, an opened or a closed `<think>`, the first words of a
message that is to be continued, half a call. Everything before is other turns, whose markers must not count. The last
turn begins after the last token that ends a turn or heads one. Those are few, and are listed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from narrows.formats.answer_parser import answer_parser
from narrows.stream.message import collect
from narrows.tools.request import Choice, read_tools

if TYPE_CHECKING:
    from narrows.formats.definition import FormatDefinition
    from narrows.formats.reasoning import ReasoningStyle

_TURNS = (
    "<|im_start|>assistant\n",
    "<|im_start|>assistant",
    "<|im_end|>\n",
    "<|im_end|>",
    "<|start_of_role|>assistant<|end_of_role|>",
    "<|end_of_text|>",
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "<|eot_id|>",
    "<|start|>assistant\n",
    "<|assistant|>\n",
    "<|assistant|>",
    "<|end|>\n",
    "<|end|>",
    "<|endoftext|>",
    "<\uff5cAssistant\uff5c>",
    "<SPECIAL_11>Assistant\n",
    "<start_of_turn>model\n",
    "<sep>assistant:",
    "<sep>",
    "[/INST]",
    "[/TOOL_RESULTS]",
    "[/AVAILABLE_TOOLS]",
    "[/SYSTEM_PROMPT]",
    "</s>",
)


def open_part(prompt: str, fmt: FormatDefinition, style: ReasoningStyle | None) -> str:
    """The part of the prompt that belongs to the answer; "" where the answer begins with the model's first token.

    A prompt without any turn token is taken for a suffix that begins inside the last turn, and is read from its last
    opening marker on. Cost: a few searches from the end of the prompt.
    """
    if not prompt:
        return ""
    cut = max((at + len(token) for token in (*_TURNS, *fmt.turns) if (at := prompt.rfind(token)) >= 0), default=-1)
    if cut >= 0:
        return prompt[cut:]
    openers = [opener for opener, _ in (*style.pairs, *style.wraps)] if style is not None else []
    openers += [shape.open for shape in fmt.calls if shape.open]
    ends = [(at + len(opener), len(opener)) for opener in openers if (at := prompt.rfind(opener)) >= 0]
    if not ends:
        return ""
    end, length = max(ends)  # the last one, whole: a newline may be an opener, and the end of another
    return prompt[end - length :]


@dataclass(frozen=True, slots=True)
class Start:
    """Where a prompt leaves the answer."""

    text: str
    """The part of the prompt that belongs to the answer."""
    place: str
    """"opening" (nothing yet), "reasoning", "content" (reasoning is over, or was never there), "wrapped" (content that
    is set off), "call" (inside one), "closing" (after one whose closing marker, or whose list's end, is due), "after"
    (a call)."""
    begun: str = ""
    """What the end of the text may be the beginning of a marker of."""
    call_at: int = 0
    """Where the last call begins in the text."""
    calls_before: int = 0
    """Calls that ended before the markup in which the last one begins."""
    calls_begun: int = 0
    """All calls that the prompt has begun."""


def start_of(
    fmt: FormatDefinition, style: ReasoningStyle | None, prompt: str, *, calls: bool, named: str | None = None
) -> Start:
    """Where the prompt leaves the answer. `calls`: there may be some; `named`: of this tool alone.

    Nearly all prompts end with a turn, or with an opened reasoning: that is seen by comparing. Only where the answer
    has begun otherwise, a parser reads its beginning, for some 20 us.
    """
    text = open_part(prompt, fmt, style)
    if not text:
        return Start("", "reasoning" if style is not None and style.opened else "opening")
    if style is not None and _opens_reasoning(text, fmt, style):
        return Start(text, "reasoning")
    choice = Choice("auto") if named is None else Choice("named", named)
    parser = answer_parser(fmt, read_tools(None if calls else []), choice, style, open_text=text)
    parser.feed("")
    begun, place = parser.unread, parser.place
    if place == "opening" and text.lstrip() != begun.lstrip():
        place = "content"
    return Start(text, place, begun, max(len(text) + parser.call_begins_at, 0), *parser.prompt_calls)


def _opens_reasoning(text: str, fmt: FormatDefinition, style: ReasoningStyle) -> bool:
    """Whether the text is an opener of reasoning, with its layout or a part of it, and may be nothing else."""
    if style.opened or style.head is not None or not style.pairs[0][0].strip():
        return False
    opener = next((opener for opener, _ in style.pairs if text.startswith(opener)), None)
    if opener is None or not style.after_open.startswith(text[len(opener) :]):
        return False
    others = (*fmt.markers(style), *style.empty)
    return not any(marker != opener and (marker.startswith(text) or text.startswith(marker)) for marker in others)


def content_begun(fmt: FormatDefinition, style: ReasoningStyle | None, text: str) -> bool:
    """Whether the answer's beginning (`open_part`) holds content. A parser is asked only if there is any text."""
    if not text.strip():
        return False
    parser = answer_parser(fmt, read_tools([]), Choice("auto"), style)
    message = collect([*parser.feed(text), *parser.finish()])
    return bool((message.content or "").strip())
