"""The tools of real MCP servers: a required or named call of each ends valid, or says that the budget cut it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import pytest
from checking import Verdict, failed, judge_calls
from conftest import FEW, TOKENS, Narrows, Outcome
from mcp_servers import Listed, tools
from openai import OpenAIError

WANTED = int(os.environ.get("NARROWS_AGENTS_TOOLS", "140"))
TOGETHER = 6000
"""Characters of the listings that a request with all tools of a server may have: the model's context is 8192 tokens, and a prompt takes its time."""


@dataclass(frozen=True)
class Case:
    offered: tuple[Listed, ...]
    temperature: float
    named: bool

    @property
    def part(self) -> str:
        if len(self.offered) > 1:
            return "MCP tools, a server's together"
        return f"MCP tools, {'named' if self.named else 'required'}, temperature {self.temperature:g}"


def drawn() -> list[Listed]:
    """As many tools as wanted, the first of each server first."""
    by_server: dict[str, list[Listed]] = {}
    for tool in tools():
        by_server.setdefault(tool.server, []).append(tool)
    mixed = [tool for row in zip_longest(*by_server.values()) for tool in row if tool is not None]
    return mixed[: WANTED or None]


def cases() -> list[Any]:
    chosen = drawn()
    # The required and the named request of a tool stand together, as their prompts are one.
    made = [Case((tool,), heat, named) for tool in chosen for heat, named in ((0.0, False), (1.0, True))]
    for server in dict.fromkeys(tool.server for tool in chosen):
        offered = tuple(tool for tool in chosen if tool.server == server)
        size = sum(len(str(tool.for_openai())) for tool in offered)
        if len(offered) > 1 and size <= TOGETHER:
            made.append(Case(offered, 0.0, False))
    names = [case.offered[0].id if len(case.offered) == 1 else f"{case.offered[0].server}:all" for case in made]
    return [
        pytest.param(case, id=f"{name}-{'named' if case.named else 'required'}-{case.temperature:g}")
        for case, name in zip(made, names, strict=True)
    ]


def ask(narrows: Narrows, case: Case) -> Any:
    tool = case.offered[0]
    choice: Any = {"type": "function", "function": {"name": tool.name}} if case.named else "required"
    wish = f"Use the tool {tool.name}." if len(case.offered) == 1 else "Use one of the tools."
    return narrows.client.chat.completions.create(
        model=narrows.model,
        messages=[{"role": "user", "content": wish}],
        tools=[offered.for_openai() for offered in case.offered],
        tool_choice=choice,
        max_tokens=TOKENS,
        temperature=case.temperature,
        seed=1,
    )


@pytest.mark.parametrize("case", cases())
def test_a_call_is_valid_or_cut(case: Case, outcome: Outcome, note: Callable[..., None]) -> None:
    note(case.part, judged(case, outcome.value), outcome.seconds)


def judged(case: Case, answer: Any) -> Verdict:
    if isinstance(answer, OpenAIError):
        return failed(f"{type(answer).__name__}: {answer}")
    if isinstance(answer, Exception):
        raise answer
    schemas = {tool.name: tool.schema for tool in case.offered}
    # A call that `tool_choice` names ends with `stop`, as OpenAI has it.
    return judge_calls(answer.choices[0], schemas, ("stop",) if case.named else ("tool_calls",))


def test_most_calls_are_whole(counted: Callable[[str], Counter[str]]) -> None:
    """A model this small may fill its budget within a text; it must not do so as a rule."""
    count = counted("MCP tools")
    if sum(count.values()) < FEW:
        pytest.skip("too few answers for a share")
    assert count["valid"] >= 0.6 * sum(count.values()), count
