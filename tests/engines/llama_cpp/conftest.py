"""One engine on the small model for every test here that needs real weights."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from narrows.engines import default_model
from narrows.engines.llama_cpp import LlamaCppEngine
from narrows.errors import EngineError


@pytest.fixture(scope="session")
def model_path() -> str:
    try:
        return str(default_model.default_gguf())
    except EngineError as error:
        pytest.skip(f"the small model is not here and could not be fetched: {error}")


@pytest.fixture(scope="session")
def engine(model_path: str) -> Iterator[LlamaCppEngine]:
    with LlamaCppEngine(model_path, n_ctx=4096) as engine:
        yield engine
