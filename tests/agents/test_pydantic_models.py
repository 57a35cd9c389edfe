"""Pydantic models through the official client: as an answer that it parses, as a tool, and as a plain schema without `strict`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import openai
import pytest
from checking import VALID, Verdict, failed, judge_calls, judge_json
from conftest import FEW, TOKENS, Narrows, Outcome
from models import SAYS_LESS, Person, some
from pydantic import BaseModel, TypeAdapter, ValidationError

WANTED = int(os.environ.get("NARROWS_AGENTS_MODELS", "0"))
WAYS = ("parse", "tool", "schema")


@dataclass(frozen=True)
class Case:
    model: type[Any]
    way: str


def cases() -> list[Any]:
    return [
        pytest.param(Case(model, way), id=f"{model.__name__}-{way}", marks=[pytest.mark.short] * (model is Person))
        for model in some(WANTED)
        for way in WAYS
        # The client makes tools of models alone, and a function's arguments are an object.
        if way != "tool" or (issubclass(model, BaseModel) and model.model_json_schema().get("type") != "array")
    ]


def ask(narrows: Narrows, case: Case) -> Any:
    client = narrows.client
    wish = f"Give me an example of {case.model.__name__}."
    common: Any = {"model": narrows.model, "messages": [{"role": "user", "content": wish}]}
    common |= {"max_tokens": TOKENS, "temperature": 0}
    if case.way == "parse":
        return client.chat.completions.parse(**common, response_format=case.model)
    if case.way == "tool":
        tool = openai.pydantic_function_tool(case.model)
        return client.chat.completions.parse(**common, tools=[tool], tool_choice="required")
    schema = {"name": "example", "schema": TypeAdapter(case.model).json_schema()}
    return client.chat.completions.create(**common, response_format={"type": "json_schema", "json_schema": schema})


@pytest.mark.parametrize("case", cases())
def test_an_instance_or_cut(case: Case, outcome: Outcome, note: Callable[..., None]) -> None:
    note(f"Pydantic models, {case.way}", judged(case, outcome.value), outcome.seconds)


def judged(case: Case, answer: Any) -> Verdict:
    schema = TypeAdapter(case.model).json_schema()
    if isinstance(answer, openai.LengthFinishReasonError):
        choice = answer.completion.choices[0]
    elif isinstance(answer, ValidationError):
        return VALID if case.model.__name__ in SAYS_LESS else failed(f"the client cannot parse it: {answer}")
    elif isinstance(answer, openai.OpenAIError):
        return failed(f"{type(answer).__name__}: {answer}")
    elif isinstance(answer, Exception):
        raise answer
    else:
        choice = answer.choices[0]
    cut = choice.finish_reason == "length"
    if case.way == "tool":
        name = case.model.__name__
        verdict = judge_calls(choice, {name: schema}, ("tool_calls",))
        text = choice.message.tool_calls[0].function.arguments if choice.message.tool_calls else ""
    else:
        text = choice.message.content or ""
        if not cut and choice.finish_reason != "stop":
            return failed(f"finish_reason {choice.finish_reason}")
        verdict = judge_json(text, schema, cut=cut)
    if verdict.kind == "valid" and case.model.__name__ not in SAYS_LESS:
        try:
            TypeAdapter(case.model).validate_json(text)
        except ValidationError as error:
            return failed(f"the model does not take it: {error}")
    return verdict


def test_most_are_whole(counted: Callable[[str], Counter[str]]) -> None:
    count = counted("Pydantic models")
    if sum(count.values()) < FEW:
        pytest.skip("too few answers for a share")
    assert count["valid"] >= 0.6 * sum(count.values()), count
