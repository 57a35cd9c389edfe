"""Gathers the pages of the documentation's site in a folder, from which `make site` builds it. Checks what was built.

These are the pages of this folder, those of the project that they link to, and the reference of the API, a page for
each line of `REFERENCE`: mkdocstrings fills it from the docstrings. A link to a file that is no page of the site
becomes the file's name.
"""

from __future__ import annotations

import posixpath
import shutil
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = ("SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md")
"""Pages of the project, for the folder `project`."""
REFERENCE: dict[str, tuple[str, str]] = {
    "grammars": ("Grammars", "narrows.Grammar narrows.Capture"),
    "masks": (
        "Vocabularies and masks",
        "narrows.Vocabulary narrows.Constraint narrows.Matcher narrows.Explanation narrows.fill_masks",
    ),
    "formats": (
        "Wire formats",
        (
            "narrows.formats narrows.formats.format.Format narrows.stream.parser.StreamParser "
            "narrows.stream.message.Message narrows.stream.message.ToolCall"
        ),
    ),
    "events": (
        "Events",
        (
            "narrows.Event narrows.Reasoning narrows.Content narrows.ToolCallStart narrows.ToolCallArguments "
            "narrows.ToolCallEnd"
        ),
    ),
    "values": ("Values and types", "narrows.Typed narrows.JsonValues narrows.WholeValue"),
    "limits": ("Limits", "narrows.Limits"),
    "errors": (
        "Errors",
        (
            "narrows.NarrowsError narrows.InputError narrows.GrammarError narrows.UnsupportedError "
            "narrows.VocabularyError narrows.FormatError narrows.TokenError narrows.LimitError "
            "narrows.ConcurrentUseError narrows.EngineError"
        ),
    ),
    "engines": (
        "Engines and decoding",
        (
            "narrows.engines.api narrows.engines.llama_cpp.LlamaCppEngine narrows.engines.select.select "
            "narrows.engines.beams.beam_search narrows.engines.beams.best_of"
        ),
    ),
    "server": (
        "The server in Python",
        " ".join(f"narrows.server.{name}" for name in ("create_app", "run.run", "Settings", "ServedModel")),
    ),
    "options": ("Words for options", "narrows.grammar.options"),
}
"""Page -> its title and what is on it."""


def pages() -> Iterator[tuple[str, str]]:
    """The place of each page in the site, and its text."""
    places = {path: path.relative_to(ROOT / "docs") for path in sorted((ROOT / "docs").rglob("*.md"))}
    places |= {ROOT / name: Path("project", name.lower()) for name in PROJECT}
    for path, place in places.items():
        yield place.as_posix(), with_links(path.read_text(encoding="utf-8"), path, place, places)
    listed = "".join(
        f"- [{title}]({name}.md): {', '.join(f'`{thing}`' for thing in things.split())}\n"
        for name, (title, things) in REFERENCE.items()
    )
    yield "reference/index.md", f"# Reference\n\nFrom the docstrings, which `help()` shows, too.\n\n{listed}"
    for name, (title, things) in REFERENCE.items():
        yield f"reference/{name}.md", f"# {title}\n\n" + "".join(f"::: {thing}\n" for thing in things.split())


def with_links(text: str, path: Path, place: Path, places: dict[Path, Path]) -> str:
    """The text of a page of the project, for its place in the site. A relative link leads to where its page stands."""
    text, *links = text.split("](")
    for link in links:
        target, _, rest = link.partition(")")
        file, mark, anchor = target.partition("#")
        found = (path.parent / file).resolve()
        if not file or "://" in target or found.suffix not in (".md", "") or not found.exists():
            text += f"]({link}"
        elif found in places:
            there = posixpath.relpath(places[found].as_posix(), place.parent.as_posix())
            text += f"]({there}{mark}{anchor}){rest}"
        else:
            before, _, label = text.rpartition("[")
            text = f"{before}{label} (`{found.relative_to(ROOT).as_posix()}`){rest}"
    return text


def main(folder: Path) -> None:
    """Write the pages, and what they show, to the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.md", "*.py", "__pycache__"))
    for place, text in pages():
        file = folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


class _Loads(HTMLParser):
    """What a browser fetches to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.found.append(given.get("src") or "")
        elif tag == "link" and given.get("rel") != "canonical":
            self.found.append(given.get("href") or "")


def loaded_from_elsewhere(site: Path) -> list[str]:
    """What the pages of a built site load from other places, with the page. It should be nothing."""
    found = []
    for page in sorted(site.rglob("*.html")):
        loads = _Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        found += [f"{page.relative_to(site)}: {place}" for place in loads.found if "//" in place]
    return found


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        elsewhere = loaded_from_elsewhere(Path(sys.argv[2]))
        sys.exit("\n".join(["pages load from elsewhere:", *elsewhere]) if elsewhere else 0)
    main(Path(sys.argv[1]))
