"""The official JSON Schema test suite, fetched once from PyPI and kept outside the repository.

    python tests/support/official_suite.py

It comes with the source distribution of the package `jsonschema`. It lies in `$XDG_CACHE_HOME/narrows/`
(`~/.cache/...`). Nothing of it is committed.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERSION = "4.26.0"
"""Of `jsonschema`."""
DRAFTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}


class UnreachableError(Exception):
    """The suite is not cached and cannot be fetched; the message says why."""


@dataclass(frozen=True)
class Group:
    """Some instances of one schema."""

    name: str
    """File and description."""
    schema: Any
    tests: list[dict[str, Any]]
    """With `description`, `data` and `valid`."""


@functools.cache
def folder() -> Path:
    """The folder with `tests` and `remotes`; fetches it if need be. Raises UnreachableError."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    target = Path(base) / "narrows" / f"json-schema-suite-{VERSION}"
    if not target.is_dir():
        _fetch(target)
    return target


def _fetch(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        wanted = ["--no-deps", "--no-binary", ":all:", f"jsonschema=={VERSION}"]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", work, *wanted]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False
        )
        packed = sorted(Path(work).glob("*.tar.gz"))
        if done.returncode or not packed:
            raise UnreachableError(f"pip could not fetch jsonschema {VERSION}: {done.stderr[-300:]}")
        inside = f"jsonschema-{VERSION}/json/"
        unpacked = Path(work) / "unpacked"
        with tarfile.open(packed[0]) as archive:
            for member in archive.getmembers():
                kept = member.name.startswith((inside + "tests/", inside + "remotes/")) and member.name.endswith(
                    ".json"
                )
                content = archive.extractfile(member) if kept and member.isfile() else None
                if content is not None:
                    file = unpacked / member.name[len(inside) :]
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(content.read())
        if not target.exists():
            os.rename(unpacked, target)


def groups(draft: str, under: str = "") -> Iterator[Group]:
    """The groups of a draft, in the order of the files; `under`: a folder below it, such as "optional/format"."""
    for file in sorted((folder() / "tests" / draft / under).glob("*.json")):
        for group in json.loads(file.read_text(encoding="utf-8")):
            schema = group["schema"]
            if isinstance(schema, dict) and "$schema" not in schema:
                schema = {"$schema": DRAFTS[draft], **schema}
            yield Group(f"{file.stem}: {group['description']}", schema, group["tests"])


def remotes(draft: str) -> dict[str, Any]:
    """The documents that the schemas of a draft refer to, by their addresses."""
    base, found = folder() / "remotes", {}
    for file in sorted(base.rglob("*.json")):
        place = file.relative_to(base).as_posix()
        if not place.startswith("draft") or place.startswith(f"{draft}/"):
            found[f"http://localhost:1234/{place}"] = json.loads(file.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    sys.stdout.write(f"{folder()}\n")
