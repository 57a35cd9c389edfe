"""Which format and which reasoning style a model writes, told from its chat template. Says so when it cannot tell;
never guesses in silence.

A format's `[detect]` table names literals that give it away. Where a template holds all of one format's and of no
other's, that is sure. Where it holds none, the words in `likely` still tell, with less confidence, for templates that
leave the writing of calls to the caller. Where several formats fit, none is chosen. Cost: a few hundred substring
searches.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows.arguments import file_path
from narrows.errors import InputError
from narrows.formats.registry import get, names
from narrows.formats.styles import reasoning_style, styles

if TYPE_CHECKING:
    from os import PathLike

    from narrows.formats.format import Format
    from narrows.formats.reasoning import ReasoningStyle

SURE, LIKELY = 1.0, 0.6


@dataclass(frozen=True, slots=True)
class Detection:
    """What a template gives away. False where no format was detected; `reason` says why, either way."""

    format: Format | None
    """The format that the template writes. None where none, or several, fit."""
    confidence: float
    """1: the template shows each of the format's tell-tale literals, and of no other's. 0.6: it names what goes with
    the format, but does not write calls itself. 0: nothing was found, or several formats fit."""
    reason: str
    candidates: tuple[str, ...] = ()
    """Formats that fit, where there are several."""
    reasoning: str | None = None
    """The reasoning style whose markers the template holds, to be given as `reasoning=`; None where it shows none, or
    several."""
    reasoning_reason: str = ""
    """Why `reasoning` is what it is, for people."""
    source: str = ""
    """The file that the template was found in."""

    @property
    def name(self) -> str | None:
        """The format's canonical name. None where none was detected."""
        return self.format.name if self.format is not None else None

    def __bool__(self) -> bool:
        return self.format is not None


def detect(template: str) -> Detection:
    """The format and the reasoning style of a chat template (its Jinja source, which is not run). Cost: a few hundred
    substring searches."""
    return _detect(template, "")


def detect_model(path: str | PathLike[str]) -> Detection:
    """The same for a model: a folder as transformers keeps it, a GGUF file, or a template's file.

    A folder is searched for `chat_template.jinja`, `additional_chat_templates/tool_use.jinja`, `chat_template.json` and
    `tokenizer_config.json`; of several templates the one for tools counts. Raises InputError `path_invalid`,
    `template_unreadable` and `template_invalid`.
    """
    place = file_path(path)
    template, source = _from_folder(place) if place.is_dir() else (_from_file(place), place)
    if template is None:
        return Detection(None, 0.0, f"{place} holds no chat template")
    return _detect(template, str(source))


def _detect(template: str, source: str) -> Detection:
    if not isinstance(template, str):
        raise InputError(f"a template is a str, not {type(template).__name__}", code="template_invalid")
    known = [get(name) for name in names()]
    confidence = SURE
    fits = [fmt for fmt in known if fmt.detect is not None and fmt.detect.all and _shows(template, fmt, fmt.detect.all)]
    if not fits:
        confidence = LIKELY
        fits = [
            fmt
            for fmt in known
            if fmt.detect is not None and any(_shows(template, fmt, (w,)) for w in fmt.detect.likely)
        ]
    style, style_reason = _reasoning(template, fits[0] if len(fits) == 1 else None)
    rest: dict[str, Any] = {"reasoning": style, "reasoning_reason": style_reason, "source": source}
    if not fits:
        return Detection(None, 0.0, "the template shows the markers of no known format", **rest)
    if len(fits) > 1:
        candidates = tuple(fmt.name for fmt in fits)
        return Detection(None, 0.0, f"the template fits {' and '.join(candidates)}: name one", candidates, **rest)
    fmt = fits[0]
    assert fmt.detect is not None
    words = fmt.detect.all if confidence == SURE else [w for w in fmt.detect.likely if w in template]
    shown = ", ".join(repr(word) for word in words)
    why = (
        f"the template writes {shown}"
        if confidence == SURE
        else f"the template does not write calls, but holds {shown}"
    )
    return Detection(fmt, confidence, why, (fmt.name,), **rest)


def _shows(template: str, fmt: Format, words: tuple[str, ...]) -> bool:
    clues = fmt.detect
    assert clues is not None
    if not all(word in template for word in words) or any(word in template for word in clues.none):
        return False
    return not clues.any or any(word in template for word in clues.any)


def _reasoning(template: str, fmt: Format | None) -> tuple[str | None, str]:
    """(a style's name, why). The format's own style comes first; templates often hold nothing but its closer."""
    own = fmt.reasoning if fmt is not None else None
    for style in [own] if own is not None else []:
        closer = next((closer for _, closer in style.pairs if _holds(template, closer)), None)
        if closer is not None:
            return style.name, f"the template holds {closer!r}"
    # Styles that differ in layout alone share their markers: the plainest, which comes first, stands for them.
    known = sorted(
        (reasoning_style(name) for name in styles()), key=lambda style: (style.opened, bool(style.wraps), style.name)
    )
    # But where the template sets off content, too, it is one that does.
    first: dict[tuple[str, str], ReasoningStyle] = {}
    for style in known:
        plainest = first.setdefault(style.pairs[0], style)
        if style.wraps and not plainest.wraps and all(marker in template for marker in style.wraps[0]):
            first[style.pairs[0]] = style
    for parts in (2, 1):
        fits = [
            style for pair, style in first.items() if all(marker and marker in template for marker in pair[2 - parts :])
        ]
        if len(fits) == 1:
            return fits[0].name, f"the template holds {fits[0].pairs[0][1]!r}"
        if fits:
            return None, f"the template holds the markers of {' and '.join(style.name for style in fits)}: name one"
    return None, "the template holds no markers of reasoning"


def _holds(template: str, closer: str) -> bool:
    """Whether the marker stands there: whole, or as a literal that leaves its last character to the model, as RWKV's
    do."""
    return closer in template or any(closer[:-1] + quote in template for quote in "'\"")


# Where models keep their templates.


def _from_folder(folder: Path) -> tuple[str | None, Path]:
    for name in ("additional_chat_templates/tool_use.jinja", "chat_template.jinja"):
        if (folder / name).is_file():
            return _text(folder / name), folder / name
    for name in ("chat_template.json", "tokenizer_config.json"):
        file = folder / name
        if file.is_file():
            template = _named(_json(file), file)
            if template is not None:
                return template, file
    models = sorted(folder.glob("*.gguf"))
    return (_from_file(models[0]), models[0]) if models else (None, folder)


def _from_file(file: Path) -> str | None:
    if file.suffix == ".gguf":
        from narrows.vocabulary.loaders import gguf_metadata

        key = "tokenizer.chat_template"
        value = gguf_metadata.read(file, lambda name: name == key).get(key)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if file.suffix == ".json":
        return _named(_json(file), file)
    return _text(file)


def _named(config: Any, file: Path) -> str | None:
    """The `chat_template` of a JSON file: text, or a list of named ones."""
    template = config.get("chat_template") if isinstance(config, dict) else None
    if isinstance(template, list):
        by_name = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = by_name.get("tool_use") or by_name.get("default")
    if template is not None and not isinstance(template, str):
        raise InputError(f"{file}: chat_template is not text", code="template_invalid", pointer="/chat_template")
    return template


def _json(file: Path) -> Any:
    try:
        return json.loads(_text(file))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is not JSON: {error}", code="template_invalid") from None


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}", code="template_unreadable") from None
