"""What tests of the commands share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from serving import eventually

from narrows.cli import generate
from narrows.engines.llama_cpp import LlamaCppEngine


class _Kept:
    """An engine that the command may use and not close."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def close(self) -> None:
        assert eventually(lambda: self._engine.stats().running == 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


@pytest.fixture(scope="package")
def _small() -> Iterator[LlamaCppEngine]:
    engine = generate.load_engine(None, quiet=True, prefix_cache_tokens=0)
    yield engine
    engine.close()


@pytest.fixture
def loaded(_small: LlamaCppEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """`narrows generate` finds the small model loaded. Nothing of an answer is kept for the next."""

    load_engine = generate.load_engine

    def load(model: str | None, **options: Any) -> Any:
        if model is not None:
            return load_engine(model, **options)
        assert not {name for name, value in options.items() if value} - {"quiet", "hub"}
        return _Kept(_small)

    monkeypatch.setattr(generate, "load_engine", load)
