"""llama.cpp's own HTTP server in a process, from the wheel that the embedded engine uses, with the small default model.

    with llama_server() as (process, url): ...

It writes its address when it answers. Cost: a second, 300 MB.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from narrows.engines.default_model import default_gguf


@contextmanager
def llama_server(
    slots: int = 4, cells: int = 4096, port: int = 0, pooling: str = ""
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its URL. It is killed at the end, if it still runs. `port` 0: a free one. `pooling`: it computes
    embeddings."""
    command = [sys.executable, __file__, str(default_gguf()), str(slots), str(cells), str(port), pooling]
    # Threads that spin take each other's time on a busy machine.
    environment = {**os.environ, "GOMP_SPINCOUNT": "0", "OMP_WAIT_POLICY": "passive"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
    ) as started:
        try:
            assert started.stdout is not None
            url = started.stdout.readline().strip()
            assert url, "llama.cpp's server did not start"
            yield started, url
        finally:
            started.kill()


def main(model: str, slots: int, cells: int, port: int, pooling: str) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_parallel = slots
    params.n_ctx = cells
    params.port = port
    params.warmup = params.fit_params = False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    if pooling:
        params.embedding = True
        params.pooling_type = getattr(xllamacpp.llama_pooling_type, f"LLAMA_POOLING_TYPE_{pooling.upper()}")
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()  # until the test ends, however it ends


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5])
