"""A real vLLM server on this machine's CPU, in a process of its own: `python -m vllm.entrypoints.openai.api_server`.

    with vllm_server("--tool-call-parser", "narrows_hermes_json", "--enable-auto-tool-choice") as url: ...

Cost: about a minute until it answers, 2.1 GB of memory, and another for its cache. What it prints goes to a file, whose end is shown when it dies.
It ends with the process that started it, however that ends (guard.py).
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from guard import GUARD

MODEL = "small"
"""The name that requests give."""

NGRAM = ("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}')
"""Drafts of up to three tokens, taken from earlier text: several tokens per delta, some of them rejected."""

STREAMS = 64
"""Requests that share a step of the engine. A step of 64 takes less than three of 16."""

_READY_SECONDS = 400
_SMALL = (
    *("--enforce-eager", "--max-model-len", "2048", "--disable-uvicorn-access-log"),
    *("--max-num-seqs", str(STREAMS)),
    # Room for all prompts at once: vLLM 0.32 dies on the CPU ("CPU Generator does not use offset") when it cuts the prompt of a request with a seed.
    *("--max-num-batched-tokens", "16384"),
)
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "GOMP_SPINCOUNT": "0",  # on a busy machine threads that spin take each other's time
    "OMP_WAIT_POLICY": "passive",
}


@contextmanager
def vllm_server(*arguments: str, model: Path, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """Its base URL, without a path. Raises RuntimeError with the end of its log when it does not come up."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        *GUARD, sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(port),
        "--model", str(model.resolve()), "--served-model-name", MODEL, *_SMALL, *arguments,
    ]  # fmt: skip
    environ = {**os.environ, **_ENVIRONMENT, "OMP_NUM_THREADS": str(os.cpu_count() or 1), **(environment or {})}
    with (
        tempfile.TemporaryFile("w+") as log,
        # The working folder is on Python's path, and may hold something named vllm.
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environ, cwd="/") as process,
    ):
        url = f"http://127.0.0.1:{port}"
        _wait(url, process, log)
        yield url


def _wait(url: str, process: subprocess.Popen[bytes], log: object) -> None:
    give_up = time.monotonic() + _READY_SECONDS
    while time.monotonic() < give_up and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    log.seek(0)  # type: ignore[attr-defined]
    state = f"ended with {process.returncode}" if process.poll() is not None else f"not ready in {_READY_SECONDS} s"
    raise RuntimeError(f"vLLM {state}:\n{log.read()[-6000:]}")  # type: ignore[attr-defined]
