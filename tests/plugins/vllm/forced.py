"""What vLLM keeps for GPUs, on the CPU: its V2 model runner, and scheduling the next step before the last one's tokens are known.

The V2 runner is written for CPUs too, but wants a Triton for CPUs, which no package index has. Its kernels run in the interpreter of the ordinary
Triton instead, a program after the other in NumPy: right, and slow, so the model must have a small vocabulary (random_model.py). Asynchronous
scheduling is switched off on the CPU because it gains nothing there; switched on, all of it runs, placeholders for tokens included.
"""

from __future__ import annotations

import os
from typing import Any


def interpret_triton() -> None:
    """Before vLLM is imported, with Triton on the path."""
    os.environ["TRITON_INTERPRET"] = "1"
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1"
    from triton import backends

    class Driver:
        """vLLM asks for no more than that it is there."""

        @staticmethod
        def is_active() -> bool:
            return True

    backends.backends.clear()
    backends.backends["cpu"] = backends.Backend(compiler=None, driver=Driver)


def schedule_ahead() -> None:
    """For all engines that are made from now on."""
    import vllm.v1.worker.cpu.shm  # noqa: F401 - CUDA's streams and events, as objects that do nothing
    from vllm.platforms.cpu import CpuPlatform

    original = CpuPlatform.check_and_update_config.__func__

    def asynchronous(cls: Any, config: Any) -> None:
        original(cls, config)
        config.scheduler_config.async_scheduling = True

    CpuPlatform.check_and_update_config = classmethod(asynchronous)
