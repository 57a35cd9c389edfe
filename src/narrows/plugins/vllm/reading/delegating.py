"""Gives narrows' parsers what vLLM knows about a request but does not pass to parsers.

vLLM makes the reasoning parser and the tool parser of a choice inside one `DelegatingParser`. That object knows the
prompt's token ids, the complete answer's token ids, and that the two parsers belong together. Parsers get only a part
of this. So these methods are wrapped, in memory:

* `__init__`: pairs the two parsers, so that they share one stream;
* `parse_delta`, `parse`, `set_prompt_token_ids`: pass on the token ids of the prompt and of the answer;
* `_apply_structural_tag`: is left out. It would say that calls are not constrained beside structured outputs;
* `OpenAIServingChat._make_parser`: numbers the choices of a request, so that calls of different choices have different
  ids;
* `OpenAIServingChat.chat_completion_full_generator`: a complete answer that the token budget cut has the finish reason
  "length" even if it holds a call, as the streamed answer has. vLLM says "tool_calls" there.

Parsers that are not narrows' see no difference. In unknown versions of vLLM nothing is wrapped (compat.py).
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from functools import wraps
from typing import Any

from narrows.plugins.vllm.compat import is_known

_SERVING = "vllm.entrypoints.openai.chat_completion.serving"
_MARK = "_told_by_narrows"
_MADE = "_made_by_narrows"
"""Name of an attribute on the request: how many parsers were made for it."""


def install() -> None:
    """Wrap the methods that are loaded, each once. Called whenever a parser is made, because the server's module may be
    loaded late."""
    if not is_known():
        return
    from vllm.parser.abstract_parser import DelegatingParser

    if not hasattr(DelegatingParser, _MARK):
        setattr(DelegatingParser, _MARK, True)
        _wrap_parser(DelegatingParser)
    serving = getattr(sys.modules.get(_SERVING), "OpenAIServingChat", None)
    if serving is not None and not hasattr(serving, _MARK):
        setattr(serving, _MARK, True)
        _wrap_making(serving)
        _wrap_serving(serving)


def _wrap_parser(parser_class: Any) -> None:
    begin, parse, parse_delta = parser_class.__init__, parser_class.parse, parser_class.parse_delta
    set_prompt = parser_class.set_prompt_token_ids
    tag = getattr(parser_class, "_apply_structural_tag", None)

    @wraps(begin)
    def begin_paired(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        pair(self._reasoning_parser, self._tool_parser, kwargs.get("model_config"))

    @wraps(parse)
    def parse_with_ids(self: Any, model_output: str, request: Any, *args: Any, **kwargs: Any) -> Any:
        ids = kwargs.get("model_output_token_ids", args[1] if len(args) > 1 else ())
        for turn in _turns(self):
            turn.output_ids = ids or ()
        return parse(self, model_output, request, *args, **kwargs)

    @wraps(parse_delta)
    def parse_delta_with_ids(
        self: Any, delta_text: str, delta_token_ids: Any, request: Any, prompt_token_ids: Any = None, **kwargs: Any
    ) -> Any:
        if prompt_token_ids is not None and not self._stream_state.prompt_reasoning_checked:
            _tell_prompt(self, prompt_token_ids)
        if hasattr(self._reasoning_parser, "streams"):
            self._reasoning_parser.streams = True
        return parse_delta(self, delta_text, delta_token_ids, request, prompt_token_ids, **kwargs)

    @wraps(set_prompt)
    def set_prompt_with_ids(self: Any, prompt_token_ids: Any) -> None:
        _tell_prompt(self, prompt_token_ids)
        set_prompt(self, prompt_token_ids)

    def tag_unless_ours(self: Any, request: Any) -> Any:
        return request if tag is None or hasattr(self._tool_parser, "turn") else tag(self, request)

    parser_class.__init__ = begin_paired
    parser_class._apply_structural_tag = tag_unless_ours
    parser_class.parse = parse_with_ids
    parser_class.parse_delta = parse_delta_with_ids
    parser_class.set_prompt_token_ids = set_prompt_with_ids


def pair(reasoning: Any, tools: Any, model_config: Any = None) -> None:
    """Connect the two parsers of one choice. Either may be None or not a parser of narrows."""
    reads_reasoning, reads_tools = hasattr(reasoning, "turn"), hasattr(tools, "turn")
    for parser in (reasoning, tools):
        if hasattr(parser, "turn"):
            parser.turn.flushed = True
            parser.turn.model_config = model_config
    if reads_reasoning and reads_tools:
        tools.turn.reasoning = reasoning.style_name
        reasoning.turn, reasoning.tool_parser = tools.turn, tools
    elif reads_reasoning:
        reasoning.hands_over = tools is not None
    elif reads_tools and reasoning is not None:
        tools.turn.reasoning = None  # another parser has split it off


def _turns(parser: Any) -> list[Any]:
    parts = [getattr(parser, name, None) for name in ("_reasoning_parser", "_tool_parser")]
    turns = [getattr(part, "turn", None) for part in parts]
    return [turn for turn in turns if turn is not None]


def _tell_prompt(parser: Any, ids: Any) -> None:
    for turn in _turns(parser):
        turn.prompt_ids = ids


def _wrap_making(serving: Any) -> None:
    make = serving._make_parser

    @wraps(make)
    def make_numbered(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        parser = make(self, request, *args, **kwargs)
        number = vars(request).get(_MADE, 0)
        vars(request)[_MADE] = number + 1
        # The first parser adjusts the request. For a complete answer it also reads the first choice. A stream has one
        # more parser for each choice.
        for turn in _turns(parser):
            turn.choice = max(number - 1, 0) if request.stream else number
        return parser

    serving._make_parser = make_numbered


def _wrap_serving(serving: Any) -> None:
    complete = serving.chat_completion_full_generator

    @wraps(complete)
    async def complete_with_reasons(self: Any, request: Any, result_generator: Any, *args: Any, **kwargs: Any) -> Any:
        parser_class = getattr(self, "parser_cls", None)
        if not hasattr(getattr(parser_class, "tool_parser_cls", None), "format_name"):
            return await complete(self, request, result_generator, *args, **kwargs)
        reasons: dict[int, Any] = {}
        response = await complete(self, request, _watched(result_generator, reasons), *args, **kwargs)
        for choice in getattr(response, "choices", ()):
            reason = reasons.get(choice.index)
            if choice.finish_reason == "tool_calls" and reason not in (None, "stop"):
                choice.finish_reason = reason
        return response

    serving.chat_completion_full_generator = complete_with_reasons


async def _watched(results: AsyncIterator[Any], reasons: dict[int, Any]) -> AsyncIterator[Any]:
    """The same results. Records in `reasons` why each choice ended."""
    async for result in results:
        for output in result.outputs:
            reasons[output.index] = output.finish_reason
        yield result
