"""For the whole suite: random tests are judged by what they find, not by how long a busy machine takes for one example.

Clients of a server on this machine share the certificates that they do not need: reading them took 20 ms for each
client, a tenth of the time of the server's tests.

Collecting leaves a million objects in memory. The garbage collector does not go through them meanwhile, and later more
seldom than its defaults are: it took an eighth of the time.
"""

from __future__ import annotations

import gc
import ssl
from collections.abc import Generator, Iterator
from functools import cache

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


@pytest.fixture(scope="session", autouse=True)
def _certificates() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield
