"""What does a mask cost that an engine sees for the first time? narrows, llguidance, xgrammar and glrmask in one run.

    pip install -e '.[bench]'
    git clone https://github.com/guidance-ai/jsonschemabench ../jsonschemabench
    make bench-masks DATA=../jsonschemabench/maskbench/data
    python bench/first_sight --data DATA --schemas 60 --parts schemas          # a short form

The numbers go into one JSON file (`--json`), part by part. The tables come from that file alone, and with `--page` the
page docs/benchmarks.md does. A part that is measured again replaces what the file has of it, and leaves the others.
`--parts ""` measures nothing.

Each engine has a process and loads its vocabulary once. Times are CPU time of all its threads. Only one engine works at
a time. A schema that takes an engine longer than `--seconds` counts as lost.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers import ENGINES, folder_of

from first_sight import features, languages, maskbench, report, serving, tables
from first_sight.workers import Worker, start_all


@dataclass
class Run:
    """What the parts need to know."""

    options: argparse.Namespace
    folder: Path

    def tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(self.folder / "tokenizer.json"))

    @contextmanager
    def workers(self, folder: Path | None = None) -> Iterator[dict[str, Worker]]:
        options = self.options
        workers = start_all(options.engines, folder or self.folder, options.seconds, options.gigabytes)
        try:
            yield workers
        finally:
            for worker in workers.values():
                worker.close()


def schemas(run: Run) -> dict[str, Any]:
    options = run.options
    work = maskbench.cases(Path(options.data), options.schemas, options.seed, run.tokenizer())
    with run.workers() as workers:
        rows = maskbench.run(workers, work)
        loading = {name: worker.loading for name, worker in workers.items()}
    if options.raw:
        Path(options.raw).write_text(json.dumps(rows) + "\n", encoding="utf-8")
    settings = {"seed": options.seed, "seconds": options.seconds, "tokenizer": options.tokenizer}
    return {**settings, "loading": loading, **maskbench.summaries(rows, list(workers))}


def one_feature_each(run: Run) -> dict[str, Any]:
    with run.workers() as workers:
        return features.run(workers, run.tokenizer())


def one_language_each(run: Run) -> dict[str, Any]:
    with run.workers() as workers:
        return languages.run(workers, run.tokenizer())


def vocabularies(run: Run) -> dict[str, Any]:
    return serving.vocabularies(run.workers, folder_of)


def operations(run: Run) -> dict[str, Any]:
    with run.workers() as workers:
        return serving.operations(workers, run.tokenizer())


PARTS: dict[str, Callable[[Run], dict[str, Any]]] = {
    "schemas": schemas,
    "features": one_feature_each,
    "languages": one_language_each,
    "vocabularies": vocabularies,
    "operations": operations,
}


def about(names: list[str]) -> dict[str, Any]:
    """The day, the machine in words, and the versions."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    versions = {}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "date": time.strftime("%Y-%m-%d"),
        "processor": model,
        "python": platform.python_version(),
        "versions": versions,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bench/first_sight", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", default="", help="the folder maskbench/data of github.com/guidance-ai/jsonschemabench"
    )
    parser.add_argument("--schemas", type=int, default=1000, help="how many of them (default 1,000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60, help="for one schema and one engine (default 60)")
    parser.add_argument("--gigabytes", type=float, default=8, help="of memory for one engine (default 8)")
    parser.add_argument(
        "--tokenizer", default="llama3_1", help="a name of tests/support/real_tokenizers.py, or a folder"
    )
    parser.add_argument("--engines", default=",".join(ENGINES), type=lambda text: text.split(","))
    parser.add_argument("--parts", default=",".join(PARTS), help="some of " + ", ".join(PARTS))
    parser.add_argument("--json", type=Path, default=Path("build/first_sight.json"), help="where the numbers go")
    parser.add_argument("--page", type=Path, help="also write the page there, and its picture beside it")
    parser.add_argument("--raw", help="also write every time of the part schemas there, as JSON")
    options = parser.parse_args()
    parts = [part for part in options.parts.split(",") if part]
    for part in parts:
        if part not in PARTS:
            parser.error(f"there is no part {part!r}; there are {', '.join(PARTS)}")
    if "schemas" in parts:
        maskbench.files_of(Path(options.data or "nowhere"))  # what is missing is said before anything is measured
    numbers = json.loads(options.json.read_text(encoding="utf-8")) if options.json.is_file() else {}
    run = Run(options, folder_of(options.tokenizer)) if parts else None
    for part in parts:
        assert run
        print(f"== {part}", file=sys.stderr, flush=True)
        numbers |= {"about": about(options.engines), part: PARTS[part](run)}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    print(tables.page(numbers))
    if options.page:
        if not numbers:
            parser.error(f"{options.json} has no numbers yet")
        report.write(numbers, options.page)


if __name__ == "__main__":
    main()
