"""vLLM's serving layer around a pair of parsers, without a model: the parser objects are made, told and asked as its chat completions do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from answers import Delta, Result


def parser_class(tool_parser: str | None, reasoning_parser: str | None = None) -> Any:
    from vllm.parser.parser_manager import ParserManager

    return ParserManager.get_parser(tool_parser, reasoning_parser, enable_auto_tools=True)


def chat_request(tools: list[dict[str, Any]] | None, **more: Any) -> Any:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    return ChatCompletionRequest(model="m", messages=[{"role": "user", "content": "?"}], tools=tools, **more)


def stream(cls: Any, tokenizer: Any, request: Any, deltas: Iterable[Delta], prompt: Sequence[int] = (0,)) -> Result:
    """The answer in deltas; the last says that it is over."""
    parser = cls(tokenizer, request.tools, chat_template_kwargs={}, model_config=None)
    result, all_deltas = Result(), list(deltas)
    for number, (text, ids) in enumerate(all_deltas, 1):
        last = number == len(all_deltas)
        result.add(parser.parse_delta(text, list(ids), request, prompt_token_ids=list(prompt), finished=last))
    return result


def complete(
    cls: Any, tokenizer: Any, request: Any, text: str, ids: Sequence[int], prompt: Sequence[int] = (0,)
) -> Result:
    """The complete answer."""
    parser = cls(tokenizer, request.tools, chat_template_kwargs={}, model_config=None)
    parser.set_prompt_token_ids(list(prompt))
    reasoning, content, calls = parser.parse(text, request, enable_auto_tools=True, model_output_token_ids=list(ids))
    return Result(content or "", reasoning or "", [[call.name, call.arguments, call.id] for call in calls or ()])
