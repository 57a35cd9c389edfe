"""What needs llama-cpp-python (`make test-llama-cpp-python`) is not collected elsewhere."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from narrows.engines.default_model import default_gguf

sys.path.insert(0, str(Path(__file__).parent))

FOUND = importlib.util.find_spec("llama_cpp")
HERE = FOUND is not None and FOUND.origin is not None  # a folder of this name is no package
collect_ignore = [] if HERE else ["test_llama.py", "test_chat.py", "test_server.py", "test_page.py"]


@pytest.fixture(scope="session")
def model_path() -> str:
    return str(default_gguf())


@pytest.fixture(scope="session")
def shared(model_path: str) -> Any:
    from llama_cpp import Llama

    # One thread: with more, llama.cpp spins at its barriers, which takes minutes on a busy machine.
    return Llama(model_path, n_ctx=2048, n_threads=1, n_threads_batch=1, verbose=False)


@pytest.fixture
def llm(shared: Any) -> Any:
    """With nothing in its cache, so that the same prompt has the same logits to the last bit."""
    shared.reset()
    return shared
