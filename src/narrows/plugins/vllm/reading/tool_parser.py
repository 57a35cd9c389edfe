"""vLLM tool parsers, one class per wire format of narrows: `--tool-call-parser narrows_<format>`.

A class is made when it is first requested as an attribute of this module (`tool_parser.narrows_hermes_json`), so that
registering the names loads no format. vLLM feeds a parser deltas and calls `finish_streaming` at the end. An engine
that only knows the call with seven arguments never reports the end of an answer. With each call it gets everything that
is certain, and an end token among the ids ends the answer. Reasoning is then split off too, into the delta's
`reasoning`.

With `tool_choice` required or a named function, the request is constrained to the format's grammar with these tools,
strict or not. A call that the token budget cuts stays cut. With "auto", it is constrained where a tool is strict, and
where the content is to be JSON or a choice (`response_format`, `structured_outputs`): the answer is then either calls,
or that. A pattern, a grammar or a structural tag is left alone: it may spell calls itself.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakSet

from narrows import formats
from narrows.formats.registry import aliases, known
from narrows.plugins.vllm.compat import ExtractedToolCallInformation, FunctionCall, ToolCall, ToolParser
from narrows.plugins.vllm.reading import delegating
from narrows.plugins.vllm.reading.turn import Turn, function_tools, must_call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narrows.stream import Message

PREFIX = "narrows_"

delegating.install()  # before the first parser is made, inside a method that it wraps


class NarrowsToolParser(ToolParser):
    """Reads calls of one wire format, and reasoning if no other parser does. One object per choice of a request."""

    format_name: ClassVar[str] = ""
    engine_based_streaming = True
    supports_required_and_named = False  # they come in the model's own format
    structural_tag_model = None

    def __init__(self, tokenizer: Any, tools: Any = None, *args: Any, **kwargs: Any) -> None:
        delegating.install()
        super().__init__(tokenizer, None)
        self.tools = list(tools or [])
        self.turn = Turn(formats.get(self.format_name), "auto", tokenizer, tools)
        self.first: tuple[str, Sequence[int]] | None = None
        """The first delta, if vLLM gave it to the reasoning parser."""
        self.handed: Message | None = None
        """A complete answer that the reasoning parser has read. `extract_tool_calls` returns its calls."""
        self.read: str | None = None
        """The answer so far in deltas, if the engine never reports its end."""

    @property
    def skip_reasoning_parsing(self) -> bool:
        """vLLM sets it if no reasoning parser is configured. Reasoning is content then."""
        return self.turn.reasoning is None

    @skip_reasoning_parsing.setter
    def skip_reasoning_parsing(self, value: bool) -> None:
        self.turn.reasoning = None if value else "auto"

    def extract_tool_calls_streaming(
        self,
        previous_text: str = "",
        current_text: str = "",
        delta_text: str = "",
        previous_token_ids: Sequence[int] = (),
        current_token_ids: Sequence[int] = (),
        delta_token_ids: Sequence[int] = (),
        request: Any = None,
    ) -> Any:
        """What this delta adds: a DeltaMessage, or None. Only the delta is read, so the cost does not depend on the
        length of the answer."""
        if self.first is not None:
            (delta_text, delta_token_ids), self.first = self.first, None
        if not self.turn.flushed:
            self.read = current_text
            _reading.add(self)
        message = self.turn.delta(delta_text, delta_token_ids, request)
        for call in message.tool_calls if message is not None else ():
            if call.id is not None:  # older servers look here to see whether there were calls
                self.prev_tool_call_arr.append({"name": call.function.name})
        return message

    def finish_streaming(self) -> Any:
        """End the answer. Returns what was held back, or None."""
        return self.turn.end()

    def get_remaining_unstreamed_args(self) -> str:
        """Always empty: arguments are sent as they come, and none are added."""
        return ""

    def extract_tool_calls(self, model_output: str, request: Any) -> Any:
        """The complete answer's calls and content, through the same parser.

        LocalAI passes no request. If no tools are called, it shows the answer as the model wrote it. So markup that was
        removed from the text also counts as `tools_called`, with no calls. Reasoning that no reasoning parser has split
        off then stays in the content.
        """
        message, self.handed = self.handed, None
        if message is None or (message.content or "") != model_output:
            message = self.turn.complete(model_output, request)
        cleaned = False
        if request is None and message.reasoning is not None:
            message = self.turn.complete_unsplit(model_output)
        elif request is None:
            cleaned = (message.content or "") != model_output
        calls = [
            ToolCall(
                id=call.id, type="function", function=FunctionCall(id=call.id, name=call.name, arguments=call.arguments)
            )
            for call in message.tool_calls
        ]
        return ExtractedToolCallInformation(
            tools_called=bool(calls) or cleaned, tool_calls=calls, content=message.content
        )

    def get_structural_tag(self, *args: Any, **kwargs: Any) -> None:
        """Always None: the format's own grammar constrains calls, see `adjust_request`."""

    def adjust_request(self, request: Any) -> Any:
        """Keep special tokens in the text for the parser. Constrain a call that must come, or that may come where the
        request says what it or the content is like."""
        request.skip_special_tokens = False
        if not getattr(request, "tools", None) or request.tool_choice in (None, "none"):
            return request
        content = None
        if not must_call(request):
            wanted = request.extract_structured_outputs()
            content = None if wanted is None else _shape_of_content(wanted)
            if content is None and (wanted is not None or not any(map(_is_strict, request.tools))):
                return request
        from vllm.sampling_params import StructuredOutputsParams

        from narrows.plugins.vllm import grammar_request
        from narrows.plugins.vllm.masking.constraints import ADDITIONAL_ARG

        style = self.turn.fmt.style(self.turn.reasoning)
        # vLLM begins to mask after reasoning that the prompt has opened. Otherwise it masks from the start, and the
        # grammar has to allow reasoning.
        reasoning = None if style is None or style.opened else style.name
        parallel = getattr(request, "parallel_tool_calls", True) is not False
        additional = (getattr(request, "vllm_xargs", None) or {}).get(ADDITIONAL_ARG)
        text = grammar_request.for_tools(
            self.format_name,
            function_tools(request.tools),
            request.tool_choice,
            parallel,
            reasoning,
            additional=None if additional is None else str(additional),
            content=content,
        )
        request.structured_outputs = StructuredOutputsParams(grammar=text)
        if hasattr(request, "response_format"):
            request.response_format = None
        if hasattr(request, "text"):
            request.text = None
        return request


def _shape_of_content(wanted: Any) -> Any:
    """The shape of content that is no text: JSON, or a choice. None for other structured outputs."""
    from narrows.plugins.vllm.grammar_request import JSON_OBJECT, Shape
    from narrows.plugins.vllm.masking.constraints import of_structured_outputs

    definition = of_structured_outputs(wanted)
    if definition is None or definition.kind not in ("json", "choice", JSON_OBJECT):
        return None
    return Shape(definition.kind, definition.text)


def _is_strict(tool: Any) -> bool:
    function = getattr(tool, "function", tool)
    return getattr(function, "strict", None) is True


_reading: WeakSet[NarrowsToolParser] = WeakSet()


def has_read(text: str) -> bool:
    """Whether a tool parser has read this very object in deltas, including its reasoning. At the end of a stream,
    LocalAI gives the text of the answer to a reasoning parser once more, and sends what that returns."""
    return any(parser.read is text for parser in tuple(_reading))


@cache
def class_of(format_name: str) -> type[NarrowsToolParser]:
    """The tool parser of this wire format."""
    canonical = format_name if format_name in known() else formats.get(format_name).name
    name = f"{PREFIX}{canonical}"
    return type(
        name,
        (NarrowsToolParser,),
        {"format_name": canonical, "__module__": __name__, "__doc__": f"Calls of {canonical}."},
    )


def __getattr__(name: str) -> Any:
    if name.startswith(PREFIX) and name[len(PREFIX) :] in (*known(), *aliases()):
        return class_of(name[len(PREFIX) :])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
