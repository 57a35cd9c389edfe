"""Options of the engine llama.cpp, in `narrows serve` and `narrows generate`."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from commands import run


class TestEngineOptions:
    """llama.cpp's options reach the engine; those that it refuses are named as they were given."""

    @pytest.mark.parametrize("command", [["serve", "--port", "0"], ["generate", "x"]])
    def test_they_become_the_engines(self, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        given: dict[str, Any] = {}

        def load(*arguments: Any, **options: Any) -> None:
            given.update(options)
            raise KeyboardInterrupt

        monkeypatch.setattr(f"narrows.cli.{command[0]}.load_engine", load)
        flags = "-t 3 -tb 2 -c 512 -b 40 -ub 20 -ctk q8_0 -ctv q4_0 -fa on -ngl all --no-mmap --mlock"
        flags += " --lora a.gguf --lora-scaled C:b.gguf:0.5"
        run(*command, *flags.split())
        expected = {"n_threads": 3, "n_threads_batch": 2, "n_ctx": 512, "n_batch": 40, "n_ubatch": 20}
        expected |= {"cache_type_k": "q8_0", "cache_type_v": "q4_0", "flash_attn": "on", "n_gpu_layers": -1}
        expected |= {"use_mmap": False, "use_mlock": True, "lora": ["a.gguf", ("C:b.gguf", 0.5)]}
        assert {name: given[name] for name in expected} == expected
        run(*command)
        assert {given[name] for name in expected} == {None}, "not given: the engine's default"

    def test_those_of_serve_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        given: dict[str, Any] = {}
        monkeypatch.setattr("narrows.cli.serve.load_engine", lambda *_, **options: given.update(options) or 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run("serve", "--port", "0", "-np", "4", "-cram", "-1")
        assert (given["max_num_seqs"], given["cache_ram"]) == (4, -1)

    @pytest.mark.parametrize(
        ("flags", "named"),
        [
            (["-ctk", "q8"], "--cache-type-k"),
            (["-fa", "maybe"], "--flash-attn"),
            (["-ngl", "auto"], "--n-gpu-layers"),
            (["--lora-scaled", "a.gguf"], "--lora-scaled"),
            (["--threads", "0"], "--threads"),
        ],
    )
    def test_what_no_engine_takes(self, flags: list[str], named: str) -> None:
        result = run("generate", "x", *flags)
        assert result.exit_code == 2
        assert named in result.output

    @pytest.mark.model
    @pytest.mark.parametrize(
        ("flags", "named"),
        [
            (["-ctv", "q8_0", "-fa", "off"], "--cache-type-v"),
            (["--lora", "no-such-file.gguf"], "--lora"),
            (["-ub", "64"], "--ubatch-size"),
        ],
    )
    def test_what_the_engine_refuses(self, flags: list[str], named: str) -> None:
        result = run("generate", "x", *flags)
        assert result.exit_code == 2
        assert named in result.output

    @pytest.mark.model
    def test_serve_says_what_is_in_use(self) -> None:
        command = [sys.executable, "-m", "narrows.cli", "serve", "--port", "0", "--json", "-c", "512", "-ctk", "q8_0"]
        with subprocess.Popen([*command, "-cram", "3"], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                said = json.loads(process.stdout.readline())["engine"]
            finally:
                process.terminate()
        assert (said["n_ctx"], said["cache_type_k"], said["cache_type_v"], said["cache_ram"]) == (512, "q8_0", "f16", 3)
