"""These tests need SGLang's files (`make test-sglang`); elsewhere they are not collected. Those of the grammar backend need a torch, too."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import stubs

MASKS = ["test_sglang_device.py", "test_grammar_backend.py", "test_grammar_peers.py", "test_grammar_scheduler.py"]
TORCH = importlib.util.find_spec("torch") is not None and importlib.util.find_spec("transformers") is not None
HERE = stubs.install()
collect_ignore = [] if HERE and TORCH else MASKS if HERE else ["test_sglang.py", *MASKS]
