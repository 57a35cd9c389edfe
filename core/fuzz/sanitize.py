"""The fuzz targets under sanitizers, each for as many seconds as asked: `make sanitize` and `make fuzz` run this.

    python core/fuzz/sanitize.py --seconds 60 [--first SEED] [--target races]

Built with the compiler that builds the core (gcc and clang bring both sanitizers), into build/sanitize-*. If a
sanitizer stops a program, or a promise breaks, the program prints its seed and the exit code is 1.
`build/sanitize-KIND/core/fuzz/TARGET 1 SEED` runs that seed alone.

Cost: the first time two builds, each almost a minute on two cores; then the seconds of each program, two programs at a
time.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import platform
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from narrows import Grammar, Limits, Vocabulary, formats
from narrows.grammar.flatten import TokenFacts, flatten

ROOT = Path(__file__).parents[2]
KINDS = {"address": "address,undefined", "thread": "thread"}
REAL = ROOT / "build" / "real_world.bin"
SPARE_SECONDS = 300
"""Beyond its time a program may finish the run that it is in."""


@dataclass(frozen=True)
class Program:
    kind: str
    target: str
    file: Path | None = None

    @property
    def title(self) -> str:
        return f"{self.target} ({self.kind}{', real vocabulary' if self.file else ''})"


PROGRAMS = (
    Program("address", "ir_walk"),
    Program("address", "text_walk"),
    Program("thread", "races"),
    Program("address", "races"),
    Program("thread", "races", REAL),
    Program("address", "races", REAL),
    Program("address", "stream_runs"),
    Program("address", "regular_terms"),
)


def folder(kind: str) -> Path:
    return ROOT / "build" / f"sanitize-{kind}"


def build(kind: str) -> None:
    """Raises CalledProcessError; what the compiler says goes to stderr."""
    cmake = shutil.which("cmake") or str(Path(sys.executable).with_name("cmake"))
    place = folder(kind)
    place.mkdir(parents=True, exist_ok=True)
    options = ["-DNARROWS_PYTHON=OFF", "-DNARROWS_FUZZ=ON", f"-DNARROWS_SANITIZE={KINDS[kind]}"]
    with (place / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run may want the same
        configure = [cmake, "-S", ROOT, "-B", place, *options, "-DCMAKE_CXX_FLAGS_RELEASE=-O1"]
        subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([cmake, "--build", place, "--parallel", "2"], check=True, stdout=subprocess.DEVNULL)


def run(program: Program, length: str, first: int = 0) -> subprocess.CompletedProcess[str]:
    """`length`: a number of runs, or of seconds as in "60s". On a failure the exit code is not 0; stderr says why."""
    command = [str(folder(program.kind) / "core" / "fuzz" / program.target), length, str(first)]
    command += [str(program.file)] if program.file else []
    # Leaks count too; a thread's stack is printed for both sides of a race.
    options = {"ASAN_OPTIONS": "detect_leaks=1", "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"}
    limit = int(length[:-1]) + SPARE_SECONDS if length.endswith("s") else None

    def once(prefix: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*prefix, *command],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
            env=os.environ | options,
        )

    done = once([])
    setarch = shutil.which("setarch")
    if done.returncode and "unexpected memory mapping" in done.stderr and setarch:
        done = once([setarch, platform.machine(), "-R"])  # older ThreadSanitizers want addresses that are not random
    return done


def real_vocabulary() -> Vocabulary:
    """Llama 3.1's where it can be had, else that of the small model."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from real_tokenizers import UnreachableError
    from real_tokenizers import folder as tokenizer_folder

    try:
        return Vocabulary.from_tokenizer_json(tokenizer_folder("llama3_1") / "tokenizer.json")
    except UnreachableError:
        from narrows.engines.default_model import default_gguf

        return Vocabulary.from_gguf(default_gguf())


def real_grammars() -> list[Grammar]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 40},
            "mail": {"type": "string", "format": "email"},
            "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 5},
            "size": {"type": "number", "minimum": 0.5, "maximum": 1000},
            "next": {"$ref": "#"},
        },
        "required": ["name"],
    }
    counted = {**schema, "additionalProperties": False, "minProperties": 2, "maxProperties": 4}
    tools = [{"type": "function", "function": {"name": "find", "parameters": schema}}]
    return [
        Grammar.from_json_schema(schema),
        Grammar.from_json_schema({}),
        Grammar.from_json_schema(schema, key_order="any"),
        Grammar.from_json_schema({**counted, "dependentRequired": {"mail": ["tags"]}}, key_order="any"),
        Grammar.from_gbnf(
            'root ::= sum\nsum ::= product ([-+] product)*\nproduct ::= [0-9]+ | "(" sum ")" | sum "*" sum'
        ),
        Grammar.substring((ROOT / "docs" / "engine.md").read_text()[:8_000], "words"),
        Grammar.from_regex(r"(\w{2,20}[ ,.])*[A-Z]{0,30}(foo|bar|\d{1,400})"),
        formats.get("hermes").grammar(tools, "auto"),
        formats.get("qwen3_coder").grammar(tools, "required"),
    ]


def write_real_world(path: Path) -> None:
    """The vocabulary and the grammars as races.cpp reads them."""
    vocabulary = real_vocabulary()
    pieces = [vocabulary.token_bytes(token) for token in range(vocabulary.size)]
    facts = TokenFacts(vocabulary.special, vocabulary.eos_ids, dict.fromkeys(range(vocabulary.size)))
    modules = [flatten(grammar.module, facts, Limits()) for grammar in real_grammars()]
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(f".{os.getpid()}")
    with new.open("wb") as out:
        write(out, np.frombuffer(b"".join(pieces), np.uint8))
        write(out, np.concatenate([[0], np.cumsum([len(p) for p in pieces])]).astype(np.uint64))
        write(out, np.array(vocabulary.eos_ids, np.uint32))
        write(out, np.array([vocabulary.size, len(modules)], np.uint32))
        for arrays in modules:
            for name in (
                "kinds",
                "a",
                "b",
                "child_offsets",
                "children",
                "string_offsets",
                "string_bytes",
                "tokens",
                "rules",
            ):
                write(out, arrays[name])
            write(out, np.array([arrays["start"]], np.uint32))
    new.replace(path)


def write(out: BinaryIO, array: np.ndarray[Any, Any]) -> None:
    out.write(np.uint64(len(array)).tobytes())
    out.write(np.ascontiguousarray(array).tobytes())


def said(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode == 0:
        return done.stdout.strip()
    report = done.stderr if len(done.stderr) < 8_000 else f"{done.stderr[:6_000]}\n...\n{done.stderr[-1_000:]}"
    return f"FAILED with code {done.returncode}\n{report}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each program (default 60)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--target", choices=sorted({p.target for p in PROGRAMS}), help="this one alone")
    asked = parser.parse_args()
    programs = [p for p in PROGRAMS if asked.target in (None, p.target)]
    for kind in dict.fromkeys(p.kind for p in programs):
        print(f"building with -fsanitize={KINDS[kind]}", flush=True)
        build(kind)
    if any(p.file for p in programs):
        write_real_world(REAL)
    failed = False
    with ThreadPoolExecutor(2) as pool:
        for program, done in zip(
            programs, pool.map(lambda p: run(p, f"{asked.seconds}s", asked.first), programs), strict=True
        ):
            print(f"{program.title}: {said(done)}", flush=True)
            failed |= done.returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
