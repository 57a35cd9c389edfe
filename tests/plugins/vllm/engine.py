"""A real engine in a process of its own: `python engine.py SCENARIO MODEL` prints what it generated, as JSON in its last line.

A process per engine keeps vLLM's global state, and its memory, away from the tests. Cost: about 15 s until it is there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from guard import GUARD

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_WAIT_POLICY": "passive",
    "GOMP_SPINCOUNT": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "HF_HUB_OFFLINE": "1",
}
NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
_SECONDS = 600
PROMPTS = ["Count: 1 2 3 4 1 2 3 4 1 2 3", "The weather in Paris is", "def f(x):\n    return", "A, B, C, A, B, C, A,"]


def run(scenario: str, model: Path, **environment: str) -> Any:
    """What the scenario of this name returns."""
    environ = {**os.environ, **ENVIRONMENT, "OMP_NUM_THREADS": str(os.cpu_count() or 1), **environment}
    command = [*GUARD, sys.executable, __file__, scenario, str(model)]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as log:
        with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=output, stderr=log) as process:
            status = process.wait(_SECONDS)
        log.seek(0)
        if status:
            raise RuntimeError(f"the engine failed in {scenario}:\n{log.read()[-4000:]}")
        output.seek(0)
        return json.loads(output.read().splitlines()[-1])


def _engine(model: str, **options: Any) -> Any:
    from vllm import LLM

    return LLM(model, enforce_eager=True, max_num_seqs=16, enable_prefix_caching=False, **options)


def preemption(model: str) -> Any:
    """Eight requests where four have room, and n = 3 for four prompts, by each way to keep a state; how often each was preempted."""
    import processors_under_test as under_test
    from vllm import SamplingParams

    blocks, length = 14, 56
    engine = _engine(
        model,
        max_model_len=192,
        block_size=32,
        num_gpu_blocks_override=blocks,
        logits_processors=[under_test.PerSequence, under_test.Shared, under_test.WithoutReplay],
    )
    tokenizer = engine.get_tokenizer()
    under_test.DIGITS[:] = [tokenizer.convert_tokens_to_ids(str(digit)) for digit in range(10)]
    preempted = _count_preemptions(engine)
    digits = "".join(f"{index % 10}" for index in range(length))
    ways = {name: {"count": name} for name in ("per sequence", "shared", "without replay")}
    ways["narrows"] = {"narrows_regex": digits}

    def generate(prompts: list[str], **options: Any) -> list[list[str]]:
        params = SamplingParams(max_tokens=length, ignore_eos=True, temperature=1, seed=7, **options)
        return [[choice.text for choice in made.outputs] for made in engine.generate(prompts, params, use_tqdm=False)]

    found: dict[str, Any] = {"expected": digits}
    for name, extra in ways.items():
        before = len(preempted)
        alone = generate([f"{PROMPTS[i % 4]} {i}" for i in range(8)], extra_args=extra)
        found[name] = {"texts": [texts[0] for texts in alone], "preemptions": len(preempted) - before}
        if name in ("per sequence", "narrows"):
            found[name]["n"] = generate(PROMPTS, extra_args=extra, n=3)
    return found


def _count_preemptions(engine: Any) -> list[str]:
    scheduler = engine.llm_engine.engine_core.engine_core.scheduler
    original, seen = scheduler._preempt_request, []

    def counted(request: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(request.request_id)
        return original(request, *args, **kwargs)

    scheduler._preempt_request = counted
    return seen


def structured(model: str, **options: Any) -> Any:
    """Each kind of structured output with n = 3 for four prompts, and what is refused."""
    engine = _engine(model, max_model_len=512, structured_outputs_config={"backend": "auto"}, **options)
    found: dict[str, Any] = {"texts": {}, "refused": {}}
    for name, request in json.loads(os.environ["REQUESTS"]).items():
        try:
            made = engine.generate(PROMPTS, _params(request, n=3), use_tqdm=False)
        except Exception as error:
            found["refused"][name] = f"{type(error).__name__}: {error}"
        else:
            found["texts"][name] = [(choice.text, choice.finish_reason) for out in made for choice in out.outputs]
    found["backend"] = type(engine.llm_engine.engine_core.engine_core.structured_output_manager.backend).__name__
    return found


def _params(request: dict[str, Any], n: int) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    return SamplingParams(
        n=n,
        temperature=1,
        seed=3,
        max_tokens=request.get("max_tokens", 60),
        structured_outputs=StructuredOutputsParams(**request["structured"]) if "structured" in request else None,
        extra_args=request.get("extra"),
    )


def speculative(model: str) -> Any:
    return structured(model, speculative_config=NGRAM)


def runner(model: str) -> Any:
    """All kinds in one batch, n = 2, where half of it has room, under the runner and the scheduler that `RUNNER` names (forced.py)."""
    import forced

    asked = os.environ["RUNNER"].split()
    if "v2" in asked:
        forced.interpret_triton()
    if "async" in asked:
        forced.schedule_ahead()
    import processors_under_test as under_test

    requests = json.loads(os.environ["REQUESTS"])
    engine = _engine(
        model,
        max_model_len=192,
        block_size=32,
        num_gpu_blocks_override=14,
        structured_outputs_config={"backend": "auto"},
        # Not where nobody asks for it: vLLM keeps for it what ours must get by itself.
        logits_processors=[under_test.PerSequence] if "counter" in requests else None,
        speculative_config=NGRAM if "ngram" in asked else None,
    )
    tokenizer = engine.get_tokenizer()
    under_test.DIGITS[:] = [tokenizer.convert_tokens_to_ids(str(digit)) for digit in range(10)]
    preempted = _count_preemptions(engine)
    made = engine.generate(
        [PROMPTS[1]] * len(requests), [_params(request, n=2) for request in requests.values()], use_tqdm=False
    )
    return {
        "texts": {
            name: [(choice.text, choice.finish_reason) for choice in out.outputs]
            for name, out in zip(requests, made, strict=True)
        },
        "preemptions": len(preempted),
        "runner": type(engine.llm_engine.model_executor.driver_worker.worker.model_runner).__module__,
        "async": engine.llm_engine.vllm_config.scheduler_config.async_scheduling,
    }


def contract(model: str) -> Any:
    """The outcome of each test of contract.py, with what it says: skipped, or failed and why."""
    import pytest

    found: dict[str, tuple[str, str]] = {}

    class Collect:
        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.when == "call" or report.outcome != "passed":
                found[report.nodeid.rpartition("::")[2]] = (report.outcome, str(report.longrepr or "")[-1500:])

    options = ["-q", "-p", "no:cacheprovider", "-W", "default", "--timeout", "1200"]
    pytest.main([*options, str(Path(__file__).with_name("contract.py"))], plugins=[Collect()])
    return found


SCENARIOS = {
    "preemption": preemption,
    "structured": structured,
    "speculative": speculative,
    "runner": runner,
    "contract": contract,
}

if __name__ == "__main__":
    print("\n" + json.dumps(SCENARIOS[sys.argv[1]](sys.argv[2])))
