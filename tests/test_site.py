"""The documentation's site: what `make site` builds it from. The build itself fails for a broken link."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import narrows
import narrows.engines.api
import narrows.formats
import narrows.server

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "docs" / "site_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(site: ModuleType) -> dict[str, str]:
    return dict(site.pages())


def things_on(pages: dict[str, str]) -> list[str]:
    return [
        line.removeprefix("::: ")
        for name, text in pages.items()
        if name.startswith("reference/")
        for line in text.splitlines()
        if line.startswith("::: ")
    ]


def thing_of(name: str) -> Any:
    module, _, last = name.rpartition(".")
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return getattr(import_module(module), last)


def test_every_public_name_is_in_the_reference(pages: dict[str, str]) -> None:
    listed = things_on(pages)
    shown = {id(thing_of(name)) for name in listed}
    for name in narrows.__all__:
        assert f"narrows.{name}" in listed, name
    for name in narrows.server.__all__:
        assert id(getattr(narrows.server, name)) in shown, name
    # Of these modules, the page shows every name.
    assert {"narrows.formats", "narrows.engines.api", "narrows.grammar.options"} <= set(listed)


def test_the_reference_has_nothing_twice_and_nothing_that_is_not_there(pages: dict[str, str]) -> None:
    listed = things_on(pages)
    assert len(set(listed)) == len(listed)
    for name in listed:
        assert thing_of(name) is not None
        if inspect.isclass(thing_of(name)):
            assert inspect.getdoc(thing_of(name)), name


def named(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from named(value) if isinstance(value, list) else [value]


def test_every_page_can_be_found_from_the_navigation(pages: dict[str, str]) -> None:
    """Those of the formats from their own list."""
    nav = list(named(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    assert len(set(nav)) == len(nav)
    assert set(nav) == {name for name in pages if not name.startswith("formats/")} | {"formats/README.md"}
    for name in pages:
        if name.startswith("formats/") and name not in ("formats/README.md", "formats/keys.md"):
            assert f"({name.removeprefix('formats/')})" in pages["formats/README.md"], name


def test_links_lead_where_the_pages_are(pages: dict[str, str]) -> None:
    assert "](project/security.md)" in pages["install.md"]
    assert "](../engine.md)" in pages["project/contributing.md"]
    assert "](formats/README.md)" in pages["index.md"]
    assert "](../formats.md)" in pages["formats/README.md"]


def test_a_link_to_what_is_no_page_becomes_a_name(site: ModuleType, tmp_path: Path) -> None:
    page = ROOT / "docs" / "cli.md"
    text = "[code](../src) and [page](server.md#errors), [here](#x), [there](https://example.com/a.md) and ![x](benchmarks.svg)"
    changed = site.with_links(text, page, Path("cli.md"), {ROOT / "docs" / "server.md": Path("server.md")})
    assert changed == (
        "code (`src`) and [page](server.md#errors), [here](#x), [there](https://example.com/a.md) and ![x](benchmarks.svg)"
    )


def test_what_a_page_loads_from_elsewhere_is_found(site: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    page.write_text(
        '<link rel="stylesheet" href="x.css"><script src="x.js"></script><a href="https://example.com">x</a>'
    )
    assert not site.loaded_from_elsewhere(tmp_path)
    page.write_text(
        '<script src="https://example.com/x.js"></script><link rel="stylesheet" href="//example.com/x.css">'
    )
    assert len(site.loaded_from_elsewhere(tmp_path)) == 2
