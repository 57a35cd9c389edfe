"""Writes docs/formats/: a page for each wire format, from its TOML file, its grammar and its parser.

`make docs` runs it. A test fails when the pages are out of date. Nothing in the pages is written by hand: the examples
are what the parser returns, and the grammars are those that are compiled.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

from narrows import formats
from narrows.events import Content, Event, Reasoning, ToolCallArguments, ToolCallEnd, ToolCallStart
from narrows.formats.definition import Detect
from narrows.formats.families import FAMILIES
from narrows.formats.notation import grammar_text
from narrows.formats.reasoning import Head, ReasoningStyle
from narrows.formats.tables import definitions

FOLDER = Path(__file__).parent / "formats"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }
]
CALLS = [
    {"id": f"a1B2c3D4{i}", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
    for i, arguments in enumerate(({"city": "Orléans", "days": 3}, {"city": "Paris"}))
]
NOTATION = """Double quotes enclose characters. Single quotes enclose a marker: the special token of that name if the
vocabulary has one, else these characters. `text`, `name`, `character` and `bytes` stand for any text, a name, one
character and any bytes. `blanks` is any whitespace, and `gap` is whitespace with at most one newline. `json-object`
and the like are not shown in detail. If tools are given, their names and schemas replace `name` and the values."""
COLUMNS = "On the left is the text as it arrives, on the right are its events. `…` marks a further event of a delta."
_LEFT = 44
_WIDTH = 120


def pages() -> dict[str, str]:
    """File name -> text."""
    found = [formats.get(name) for name in formats.names()]
    return {"README.md": index(found), "keys.md": keys(), **{f"{fmt.name}.md": page(fmt) for fmt in found}}


def index(found: list[formats.Format]) -> str:
    lines = [
        "# The wire formats\n",
        wrapped(
            f"There are {len(found)} formats. `make docs` writes this page from their definitions in "
            "`src/narrows/formats/definitions/`. [formats.md](../formats.md) says how the parser reads a text, and how "
            "to add a format. A format is marked *unverified* if it was not checked against the chat template of a "
            "model that writes it, or against text that such a template writes."
        )
        + "\n",
        "| name | what a call looks like | models | other names | |",
        "| --- | --- | --- | --- | --- |",
    ]
    for fmt in found:
        aliases = ", ".join(f"`{alias}`" for alias in fmt.aliases)
        mark = "" if fmt.verified else "unverified"
        cells = (f"[`{fmt.name}`]({fmt.name}.md)", _cell(fmt.title), _cell(", ".join(fmt.models)), aliases, mark)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def keys() -> str:
    """The keys of the families and of the reasoning styles, from the classes that read them."""
    parts = [
        "<!-- Written by `make docs` from src/narrows/formats/. -->",
        "# Keys of a format's TOML file",
        "Which keys a `[[call]]` table may have depends on its `family`. A key without a default is required.",
    ]
    for family, kind in FAMILIES.items():
        module = _paragraphs(inspect.getdoc(inspect.getmodule(kind)) or "")
        using = [name for name in formats.names() if any(isinstance(shape, kind) for shape in formats.get(name).calls)]
        users = wrapped("Used by " + ", ".join(f"[`{n}`]({n}.md)" for n in using) + ".") if using else ""
        parts += [f"## {family}", module, users, _fields(kind)]
    parts += ["## [detect]", _paragraphs(inspect.getdoc(Detect) or ""), _fields(Detect)]
    parts += [
        "# Reasoning styles",
        wrapped(
            "A reasoning style is a file in `src/narrows/formats/definitions/reasoning/`. It has the tables `[[pair]]` "
            "with `open` and `close`, `[[content]]` with the same keys, `[layout]`, `[rules]`, and optionally `[head]`."
        ),
    ]
    parts += [_fields(ReasoningStyle), "## [head]", _paragraphs(inspect.getdoc(Head) or ""), _fields(Head)]
    for name in sorted(definitions("reasoning")):
        parts += [f"## {name}", _block("toml", definitions("reasoning")[name].read_text(encoding="utf-8").strip())]
    return "\n\n".join(part for part in parts if part) + "\n"


def _fields(kind: type[Any]) -> str:
    """A table of the fields of a class and its bases, each with the string that follows it in the source."""
    said: dict[str, str] = {}
    for base in reversed([base for base in kind.__mro__ if is_dataclass(base)]):
        body = ast.parse(inspect.getsource(base).lstrip()).body[0]
        assert isinstance(body, ast.ClassDef)
        for first, second in zip(body.body, [*body.body[1:], None], strict=True):
            if isinstance(first, ast.AnnAssign) and isinstance(first.target, ast.Name):
                doc = second.value if isinstance(second, ast.Expr) else None
                said[first.target.id] = str(doc.value) if isinstance(doc, ast.Constant) else ""
    lines = ["| key | default | |", "| --- | --- | --- |"]
    for field in (field for field in fields(kind) if field.init):
        default = "" if field.default is MISSING else code(_literal(field.default))
        lines.append(f"| `{field.name}` | {default} | {_cell(' '.join(said.get(field.name, '').split()))} |")
    return "\n".join(lines)


def _literal(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def page(fmt: formats.Format) -> str:
    style = fmt.reasoning
    facts = {
        "Models": ", ".join(fmt.models),
        "Other names": ", ".join(f"`{alias}`" for alias in fmt.aliases),
        "Reasoning": f"`{style.name}`: "
        + ", ".join(f"{code(a)} … {code(b)}" for a, b in style.pairs).replace("\\|", "|")
        if style
        else "none",
        "Style of ids that the parser makes": f"`{fmt.ids}`",
        "Ways of writing calls": ", ".join(f"`{shape.form}`" for shape in fmt.calls),
        "Markers": " ".join(code(marker).replace("\\|", "|") for marker in fmt.markers(style)),
        "Verified": "against the chat template of a model that writes it"
        if fmt.verified
        else "**no**: no chat template was available; written from descriptions and from what other parsers do",
    }
    parts = [
        f"<!-- Written by `make docs` from src/narrows/formats/definitions/{fmt.name}.toml. -->",
        f"# {fmt.name}",
        wrapped(_cell(fmt.title) + "."),
        "\n".join(wrapped(f"- {key}: {value}", "  ") for key, value in facts.items() if value),
        "## An example answer and its events",
        COLUMNS,
        _block("text", stream(fmt)),
    ]
    for shape in fmt.calls[1:]:
        parts += [f"The same calls, as `{shape.form}`:", _block("text", _rendered(fmt, shape.form))]
    parts += [
        "## The grammar",
        wrapped(NOTATION),
        _block("text", grammar_text(fmt)),
        "## The definition",
        _block("toml", fmt.source.strip()),
    ]
    return "\n\n".join(parts) + "\n"


def message(fmt: formats.Format, calls: list[dict[str, Any]], form: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {"content": "I look it up.", "tool_calls": calls}
    if fmt.form(form).at_start:  # these calls cannot follow text
        del found["content"]
    return {**found, "reasoning": "Two cities."} if fmt.reasoning is not None else found


def _rendered(fmt: formats.Format, form: str | None) -> str:
    """Both calls where an answer can hold two."""
    for calls in (CALLS, CALLS[:1]):
        text = fmt.render(message(fmt, calls, form), form, ids=True)
        if len(fmt.parse(text, TOOLS).tool_calls) == len(calls):
            return text
    raise AssertionError(f"{fmt.name} does not read its own example: {text!r}")


def stream(fmt: formats.Format) -> str:
    """The example, delta by delta."""
    parser = fmt.parser(TOOLS, id_factory=fmt.id_factory("example"))
    rows: list[tuple[str, list[str]]] = []
    for delta in deltas(_rendered(fmt, None), fmt.markers(fmt.reasoning)):
        rows.append((_shown(delta), [line(event) for event in parser.feed(delta)]))
    rows.append(("(the end)", [line(event) for event in parser.finish()]))
    lines = []
    for left, right in rows:
        first, *more = right or [""]
        lines.append(f"{left:<{_LEFT}}{first}".rstrip())
        lines += [f"{'…':>{_LEFT - 2}}  {text}" for text in more]
    return "\n".join(lines)


def deltas(text: str, markers: tuple[str, ...]) -> list[str]:
    """The text in pieces like tokens: markers, words with the space before them, single characters; two at a time."""
    pieces: list[str] = []
    at = 0
    while at < len(text):
        end = next((at + len(m) for m in sorted(markers, key=len, reverse=True) if text.startswith(m, at)), at + 1)
        if end == at + 1 and (text[at].isalnum() or text[at] == " "):
            while end < len(text) and text[end].isalnum():
                end += 1
        pieces.append(text[at:end])
        at = end
    return ["".join(pieces[i : i + 2]) for i in range(0, len(pieces), 2)]


def line(event: Event) -> str:
    if isinstance(event, (Content, Reasoning)):
        return f"{type(event).__name__} {_shown(event.text)}"
    if isinstance(event, ToolCallStart):
        return f"ToolCallStart {event.index} {event.name}, id {event.id}"
    if isinstance(event, ToolCallArguments):
        return f"ToolCallArguments {event.index} {_shown(event.text)}"
    assert isinstance(event, ToolCallEnd)
    return f"ToolCallEnd {event.index} {'complete' if event.complete else event.reason}"


def _shown(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', '"')


def code(text: str) -> str:
    """As code in Markdown, also in a table, whatever it holds."""
    shown = _shown(text).replace("|", "\\|")
    fence = "``" if "`" in shown else "`"
    pad = " " if shown[:1] in "` " or shown[-1:] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def _cell(text: str) -> str:
    """As text in a Markdown table. Code spans stay as they are, except for `|`, which would end the cell."""
    parts = text.replace("|", "\\|").split("`")
    parts[::2] = [part.replace("&", "&amp;").replace("<", "&lt;").replace("*", "\\*") for part in parts[::2]]
    return "`".join(parts)


def _block(language: str, text: str) -> str:
    """A code block. Its fence is longer than any run of backticks that the text holds at the beginning of a line."""
    fence = "```"
    while any(row.lstrip().startswith(fence) for row in text.splitlines()):
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"


def wrapped(text: str, indent: str = "") -> str:
    """A paragraph in lines of at most 120 columns, if its code spans allow it; `indent` is for all but the first."""
    lines: list[str] = []
    for atom in _atoms(text):
        if lines and (len(lines[-1]) + 1 + len(atom) <= _WIDTH or atom[0] in "-+*#>|"):  # which begin other things
            lines[-1] += f" {atom}"
        else:
            lines.append((indent if lines else "") + atom)
    return "\n".join(lines)


def _atoms(text: str) -> Iterator[str]:
    """Words, where a code span is one word, whatever spaces it holds."""
    atom = fence = ""
    at = 0
    while at < len(text):
        end = at + 1
        if text[at] == "`":
            while text[end : end + 1] == "`":
                end += 1
            ticks = text[at:end]
            fence = ticks if not fence else "" if ticks == fence else fence
        if text[at] in " \n" and not fence:
            if atom:
                yield atom
            atom = ""
        else:
            atom += text[at:end]
        at = end
    if atom:
        yield atom


def _paragraphs(text: str) -> str:
    """Each paragraph wrapped; indented ones are examples, and stay as they are."""
    return "\n\n".join(part if part[:1] == " " else wrapped(part) for part in text.split("\n\n"))


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    wanted = pages()
    for file in FOLDER.glob("*.md"):
        if file.name not in wanted:
            file.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(wanted)} pages in {FOLDER}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
