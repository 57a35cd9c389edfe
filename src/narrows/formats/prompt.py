"""Where a prompt leaves off: the part of it that the answer goes on from.

A rendered prompt ends with the beginning of the answer: nothing, an opened or a closed `<think>`, the first words of a
message that is to be continued, half a call. Everything before is other turns, whose markers must not count. The last turn begins behind
the last token that ends a turn or heads one; those are few and listed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

    A prompt without any turn token is taken for a suffix that begins inside the last turn, and is read from its last opening
    marker on. Cost: a few searches from the end of the prompt.
    """
    cut = max((at + len(token) for token in (*_TURNS, *fmt.turns) if (at := prompt.rfind(token)) >= 0), default=-1)
    if cut >= 0:
        return prompt[cut:]
    openers = [opener for opener, _ in (*style.pairs, *style.wraps)] if style is not None else []
    openers += [shape.open for shape in fmt.calls if shape.open]
    found = [(at + len(opener), len(opener)) for opener in openers if (at := prompt.rfind(opener)) >= 0]
    if not found:
        return ""
    end, length = max(found)  # the last one, whole: a newline may be an opener, and the end of another
    return prompt[end - length :]
