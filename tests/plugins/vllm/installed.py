"""Whether vLLM is here. This folder has its name and may be on the path, so that `import vllm` alone says nothing: a folder has no origin."""

from __future__ import annotations

import importlib.util

_found = importlib.util.find_spec("vllm")
INSTALLED = _found is not None and _found.origin is not None
