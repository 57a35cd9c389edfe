"""For the whole suite: random tests are judged by what they find, not by how long a busy machine takes for one example.

Collecting leaves a million objects in memory. The garbage collector does not go through them meanwhile, and later more
seldom than its defaults are: it took an eighth of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest
from hypothesis import settings

settings.register_profile("narrows", deadline=None)
settings.load_profile("narrows")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.set_threshold(50_000, 20, 20)
