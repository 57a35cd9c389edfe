"""Tools that the agents' tests offer, and what is asked of an agent's run."""

from __future__ import annotations

from typing import Any, Literal

from checking import VALID, Verdict, failed, repeated
from pydantic import BaseModel, Field

MOST_STEPS = 6
"""Answers of the model in one run."""
TOKENS = 150
"""max_tokens of one answer, where a case has one: several answers make a run."""

QUESTION = "What is the weather in Paris, in celsius?"


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"Clear, 21 degrees in {city[:40]}."


def add(a: int, b: int) -> int:
    """The sum of two whole numbers."""
    return a + b


def thermostat(room: Literal["kitchen", "bedroom"], degrees: Literal[18, 20, 22]) -> str:
    """Set the temperature of a room."""
    return f"The {room} will have {degrees} degrees."


class Forecast(BaseModel):
    """The weather of a city."""

    city: str = Field(max_length=40)
    celsius: int = Field(ge=-60, le=60)
    sky: Literal["clear", "cloudy", "rain"]


def judge_run(steps: list[list[tuple[str, Any]]]) -> Verdict:
    """The calls of each of the model's answers in a run that came to its end."""
    if len(steps) > MOST_STEPS:
        return failed(f"{len(steps)} answers")
    for calls in steps:
        # The clients give values. A call that means the same and is written otherwise comes through, and the answer ends behind it.
        again = repeated([(name, str(arguments)) for name, arguments in calls[:-1]])
        if again:
            return failed(f"{again}, in one answer")
    return VALID
