"""These tests need SGLang's files (`make test-sglang`); elsewhere they are not collected."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import stubs

HERE = stubs.install()
collect_ignore = [] if HERE else ["test_sglang.py"]
