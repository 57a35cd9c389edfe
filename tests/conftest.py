"""For the whole suite: random tests are judged by what they find, not by how long a busy machine takes for one example.

What collecting leaves in memory, a million objects, lives until the end. The garbage collector does not look at it.
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
        gc.collect()
        gc.freeze()
