"""vLLM tool parsers, one class per wire format of narrows: `--tool-call-parser narrows_<format>`.

The classes are made when they are first asked for, as attributes of this module (`tool_parser.narrows_hermes_json`), so
that registering them reads no format. In vLLM a parser is fed deltas and told of the end (`finish_streaming`). An
engine that knows only the call with seven arguments, and never says that an answer is over, gets everything that is
certain with each call; an end token among the ids is taken for the end. There reasoning is split off too, into the
delta's `reasoning`.

`tool_choice` required or a named function: the request is constrained to the format's grammar with these tools, strict
or not. A call that the budget cuts stays cut.
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

delegating.install()  # before the first parser is made, which is in the midst of what it wraps


class NarrowsToolParser(ToolParser):
    """Reads calls (and reasoning, where no other parser does) of one wire format. One object per choice of a
    request."""

    format_name: ClassVar[str] = ""
    engine_based_streaming = True
    supports_required_and_named = False  # they come in the model's own format, and are read from it
    structural_tag_model = None

    def __init__(self, tokenizer: Any, tools: Any = None, *args: Any, **kwargs: Any) -> None:
        delegating.install()
        super().__init__(tokenizer, None)
        self.tools = list(tools or [])
        self.turn = Turn(formats.get(self.format_name), "auto", tokenizer, tools)
        self.first: tuple[str, Sequence[int]] | None = None
        """The first delta, where the reasoning parser was given it."""
        self.handed: Message | None = None
        """A complete answer that the reasoning parser has read: its calls wait to be asked for."""
        self.read: str | None = None
        """The answer so far, where an engine that never says that it is over gave it in deltas."""

    @property
    def skip_reasoning_parsing(self) -> bool:
        """vLLM sets it where no reasoning parser is configured: reasoning is content there."""
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
        """What this delta adds: a DeltaMessage, or None. Only the delta is read; its cost does not depend on what came
        before."""
        if self.first is not None:
            (delta_text, delta_token_ids), self.first = self.first, None
        if not self.turn.flushed:
            self.read = current_text
            _reading.add(self)
        message = self.turn.delta(delta_text, delta_token_ids, request)
        for call in message.tool_calls if message is not None else ():
            if call.id is not None:  # where older servers look for whether there were calls
                self.prev_tool_call_arr.append({"name": call.function.name})
        return message

    def finish_streaming(self) -> Any:
        """The answer is over: what was held back, or None."""
        return self.turn.end()

    def get_remaining_unstreamed_args(self) -> str:
        """Nothing: arguments leave as they come, and none are made up."""
        return ""

    def extract_tool_calls(self, model_output: str, request: Any) -> Any:
        """The complete answer's calls and content, through the same parser.

        LocalAI gives no request, and shows the answer as it came where no tools are called: there markup that was taken
        off the text says so too, with no calls. Reasoning that no reasoning parser has split off stays in the content
        there.
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
        """None: calls are constrained by the format's own grammar, see `adjust_request`."""

    def adjust_request(self, request: Any) -> Any:
        """Let markers through to the parser, and constrain a call that must come."""
        request.skip_special_tokens = False
        if not must_call(request):
            return request
        from vllm.sampling_params import StructuredOutputsParams

        from narrows.plugins.vllm import grammar_request
        from narrows.plugins.vllm.masking.constraints import ADDITIONAL_ARG

        style = self.turn.fmt.style(self.turn.reasoning)
        # vLLM masks only after reasoning that the prompt has opened. Where it has not, the model may still begin with
        # some.
        reasoning = None if style is None or style.opened else style.name
        parallel = getattr(request, "parallel_tool_calls", True) is not False
        asked = (getattr(request, "vllm_xargs", None) or {}).get(ADDITIONAL_ARG)
        text = grammar_request.for_tools(
            self.format_name,
            function_tools(request.tools),
            request.tool_choice,
            parallel,
            reasoning,
            additional=None if asked is None else str(asked),
        )
        request.structured_outputs = StructuredOutputsParams(grammar=text)
        if hasattr(request, "response_format"):
            request.response_format = None
        if hasattr(request, "text"):
            request.text = None
        return request


_reading: WeakSet[NarrowsToolParser] = WeakSet()


def has_read(text: str) -> bool:
    """Whether this very object is an answer whose deltas a tool parser has read, reasoning included. LocalAI's loop
    gives the text of a streamed answer to a reasoning parser once more at its end, and sends what that returns."""
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
