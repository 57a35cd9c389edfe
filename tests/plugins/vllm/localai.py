"""LocalAI's loop around vLLM's parsers, as a test double: what its backend does with them, in its order, and nothing that it does not do.

* It makes the tool parser with the tools as raw dicts, or without where that is refused; and a `ChatCompletionRequest` with those tools, for streams.
* vLLM gives it the text so far; each delta is what the text gained. It calls `extract_tool_calls_streaming` by keyword with seven arguments and copies
  content, reasoning and calls from the answer. It never calls `adjust_request`, never says that the answer is over, and tells no prompt.
* When that raises, it waits until the end and calls `extract_tool_calls(text, request=None)`, as it does for an answer that is not streamed.
* The reasoning parser is asked once, at the end, with the whole text and `request=None`.
* vLLM's default leaves special tokens out of the text, and a user has no say in that. Complete answers here have them: without, no parser could read them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from answers import Delta, Result


class LocalAI:
    """One request."""

    def __init__(
        self,
        tool_parser: type[Any],
        tokenizer: Any,
        tools: list[dict[str, Any]],
        reasoning_parser: type[Any] | None = None,
    ) -> None:
        try:
            self.parser = tool_parser(tokenizer, tools=tools)
        except TypeError:
            self.parser = tool_parser(tokenizer)
        self.reasoning_parser = reasoning_parser
        self.tokenizer = tokenizer
        self.tools = tools
        self.failed = False

    def request(self) -> Any:
        from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

        return ChatCompletionRequest(
            model="local", messages=[{"role": "user", "content": ""}], tools=self.tools or None
        )

    def stream(self, deltas: Iterable[Delta]) -> Result:
        """What a client gets from the deltas of an answer."""
        request, result = self.request(), Result()
        text: str = ""
        ids: list[int] = []
        for delta_text, delta_ids in deltas:
            grown, all_ids = text + delta_text, ids + delta_ids
            if not self.failed:
                try:
                    message = self.parser.extract_tool_calls_streaming(
                        previous_text=text,
                        current_text=grown,
                        delta_text=delta_text,
                        previous_token_ids=ids,
                        current_token_ids=all_ids,
                        delta_token_ids=delta_ids,
                        request=request,
                    )
                except Exception:  # whatever a parser raises
                    self.failed = True
                else:
                    result.add(message)
            text, ids = grown, all_ids
        if self.failed:
            late = self.complete(text)
            result.content += late.content if not late.calls else ""
            result.calls += late.calls
        elif self.reasoning_parser is not None:
            result.reasoning += self.split(text)[0]
        return result

    def split(self, text: str) -> tuple[str, str]:
        """Reasoning and the rest."""
        assert self.reasoning_parser is not None
        found, rest = self.reasoning_parser(self.tokenizer).extract_reasoning(text, request=None)
        return found or "", rest or ""

    def complete(self, text: str) -> Result:
        """What a client gets at once."""
        content, reasoning = text, ""
        if self.reasoning_parser is not None:
            reasoning, content = self.split(text)
        try:
            information = self.parser.extract_tool_calls(content, request=None)
        except Exception:  # whatever a parser raises
            return Result(content, reasoning)
        if not information.tools_called:
            return Result(content, reasoning)
        calls = [[call.function.name, call.function.arguments, call.id] for call in information.tool_calls]
        return Result(information.content or "", reasoning, calls)
