"""instructor's modes, under its defaults: it sends the schema, reads the answer, and asks again where it does not fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import instructor
import pytest
from checking import VALID, Verdict, failed
from conftest import TOKENS, Narrows, Outcome, parameters
from instructor.core import IncompleteOutputException, InstructorRetryException
from models import MODELS

NAMES = """Person Described Painted Classified Bounded Meeting Scores Customer Order Owner Category Reasoned""".split()
MODES = (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA, instructor.Mode.RESPONSES_TOOLS)
SHORT = ("Person-tools", "Meeting-json_schema", "Bounded-responses_tools")


@dataclass(frozen=True)
class Case:
    model: type[Any]
    mode: instructor.Mode


CASES = {f"{name}-{mode.name.lower()}": Case(MODELS[name], mode) for mode in MODES for name in NAMES}


def ask(narrows: Narrows, case: Case) -> Any:
    client = instructor.from_openai(narrows.client, mode=case.mode)
    wish = f"Give me an example of {case.model.__name__}."
    return client.chat.completions.create(
        model=narrows.model,
        messages=[{"role": "user", "content": wish}],
        response_model=case.model,
        max_tokens=TOKENS,
        temperature=0,
    )


@pytest.mark.parametrize("case", parameters(CASES, *SHORT))
def test_an_instance_or_cut(case: Case, outcome: Outcome, note: Callable[..., None]) -> None:
    note(f"instructor, {case.mode.name}", judged(case, outcome.value), outcome.seconds)


def judged(case: Case, answer: Any) -> Verdict:
    if isinstance(answer, IncompleteOutputException):
        return Verdict("length")
    if isinstance(answer, InstructorRetryException):
        if getattr(answer.last_completion, "status", None) == "incomplete":
            return Verdict("length")  # of a response it only sees that the arguments are no JSON
        return failed(f"after {answer.n_attempts} attempts: {answer}")
    if isinstance(answer, Exception):
        return failed(f"{type(answer).__name__}: {answer}")
    return VALID if isinstance(answer, case.model) else failed(f"{answer!r} is no {case.model.__name__}")
