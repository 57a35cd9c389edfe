"""`narrows check`: whether a schema, regex or grammar is enforced, and what it costs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from narrows.cli.exits import NO, errors_shown, out, print_json
from narrows.cli.inputs import UNIT, Additional, Unit, check_unit, read_text, text_or_file
from narrows.grammar.json_schema.report import LOOSE
from narrows.grammar.languages import LANGUAGES, FrontEnd
from narrows.grammar.languages.gbnf import GBNF
from narrows.grammar.languages.json_schema import JSON_SCHEMA
from narrows.grammar.languages.regex import REGEX

if TYPE_CHECKING:
    from narrows import Constraint, Grammar, Vocabulary

_REPEATS = 200
_COLOURS = {"exact": "green", "over": "yellow", "under": "yellow", "ignored": "red"}


def check(
    file: Annotated[
        str, typer.Argument(help="A JSON Schema, or a text in the language of --language. - reads standard input.")
    ],
    language: Annotated[
        str | None,
        typer.Option(help=f"What FILE holds: {', '.join(LANGUAGES)}; grammar is GBNF or Lark. A schema if not given."),
    ] = None,
    regex: Annotated[bool, typer.Option("--regex", help="FILE holds a regular expression: --language regex.")] = False,
    grammar: Annotated[
        bool, typer.Option("--grammar", help="FILE holds a GBNF or Lark grammar: --language grammar.")
    ] = False,
    dialect: Annotated[str, typer.Option(help="Dialect of the regular expression: python, ecma or rust.")] = "python",
    unit: Annotated[Unit | None, UNIT] = None,
    text: Annotated[
        str | None,
        typer.Option(
            help="A text to read with the grammar: whether it is allowed, and what its rules capture. @FILE reads a "
            "file, - standard input."
        ),
    ] = None,
    additional: Annotated[
        Additional,
        typer.Option(
            help="How to read objects of a schema that list properties and do not say additionalProperties: open, as "
            "in the standard, or closed to the declared keys, as in `serve` and `generate`."
        ),
    ] = Additional.STANDARD,
    vocab: Annotated[
        str | None,
        typer.Option(
            help="A tokenizer.json or GGUF file to measure masks with. Otherwise the default model's, if it is here."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Report for each keyword of a schema whether it is enforced, and what compiling and masking cost.

    Exit code 0: all of it is enforced, so what is generated is valid. 1: it is not, and the report shows where; or the
    text of --text is not allowed. 4: it cannot be read, or nothing satisfies it. Where less is allowed than the schema
    allows, the report says `under`.

    [bold]Examples[/]

      narrows check schema.json

      narrows check schema.json --vocab tokenizer.json --json

      narrows check schema.json --additional declared

      echo '[a-z]+@[a-z]+' | narrows check - --regex

      narrows check names.lark --language lark --text 'Ada Lovelace'

      narrows check article.txt --language substring --unit words
    """
    front = _language(language, regex, grammar)
    check_unit(unit, front)
    content = read_text(file, "FILE")
    read = None if text is None else text_or_file(text, "--text")
    with errors_shown(as_json):
        from narrows.grammar.grammar import Grammar

        options = {"dialect": dialect, "on_unsupported": "ignore", "additional": additional.value}
        options |= {"unit": unit.value} if unit is not None else {}
        source = front.from_text(content.removesuffix("\n") if front.one_line else content)
        started = time.perf_counter()
        checked = Grammar.from_language(front.name, source, **front.of_those(options))
        reading = time.perf_counter() - started
        is_schema = front is JSON_SCHEMA
        closable = _closed(content) if is_schema else []
        vocabulary, name = _vocabulary(vocab)
        cost = _measure(checked, vocabulary, reading)
        captures = None if read is None else _captures(checked, read)
    report = {
        pointer: {"status": str(status), "reason": getattr(status, "reason", "")}
        for pointer, status in checked.report.items()
    }
    chosen = closable if additional is Additional.DECLARED else []
    enforced = not any(entry["status"] in LOOSE for entry in report.values())
    narrower = any(entry["status"] == "under" for pointer, entry in report.items() if pointer not in chosen)
    if as_json:
        print_json(
            {
                "enforced": enforced,
                "report": report,
                **({"additional": additional.value, "does_not_say": closable} if is_schema else {}),
                **({} if read is None else {"text": {"allowed": captures is not None, "captures": captures or []}}),
                "vocabulary": {"source": name, "size": vocabulary.size},
                "cost": cost.to_dict(),
            }
        )
    else:
        note = "closed to the declared keys, as asked" if chosen else _open_note(closable)
        verdict = "[red]not enforced[/]: see the report" if not enforced else "[green]enforced exactly[/]"
        if enforced and narrower:
            verdict = "[green]enforced[/], and less is allowed than the schema allows: see the report"
        _show(report, verdict, cost, f"{name}, {vocabulary.size} tokens", note)
        if read is not None:
            _show_captures(captures)
    if not enforced or (read is not None and captures is None):
        raise typer.Exit(NO)


def _language(name: str | None, regex: bool, grammar: bool) -> FrontEnd:
    """The language that the options name."""
    names = [name] if name is not None else []
    names += [other for other, given in ((REGEX.name, regex), (GBNF.name, grammar)) if given]
    if len(names) > 1:
        raise typer.BadParameter("at most one of --language, --regex and --grammar")
    chosen = names[0] if names else JSON_SCHEMA.name
    if chosen not in LANGUAGES:
        raise typer.BadParameter(f"{chosen} is not a language: use one of {', '.join(LANGUAGES)}")
    return LANGUAGES[chosen]


def _captures(grammar: Grammar, text: str) -> list[dict[str, Any]] | None:
    """What is captured in a text. None if the grammar does not have it."""
    from narrows.errors import InputError

    try:
        captures = grammar.captures(text)
    except InputError as error:
        if error.code != "text_not_matched":
            raise
        return None
    return [{"name": one.name, "start": one.span[0], "end": one.span[1], "text": one.text} for one in captures]


@dataclass(frozen=True, slots=True)
class _Cost:
    """Milliseconds, microseconds, counts and bytes, as their names say."""

    lower_ms: float
    compile_ms: float
    first_mask_us: float
    repeated_mask_us: float
    stats: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        times = {name: getattr(self, name) for name in ("lower_ms", "compile_ms", "first_mask_us", "repeated_mask_us")}
        return {**{name: round(value, 3) for name, value in times.items()}, **self.stats}


def _closed(schema: str) -> list[str]:
    """Pointers to the `properties` of objects that the reading "declared" closes, since their schema does not say."""
    from narrows import Grammar
    from narrows.errors import LimitError
    from narrows.grammar.json_schema.report import CLOSED

    try:
        report = Grammar.from_json_schema(schema, on_unsupported="ignore", additional="declared").report
    except LimitError:
        return []
    return [pointer for pointer, status in report.items() if getattr(status, "reason", "") == CLOSED.reason]


def _open_note(closable: list[str]) -> str:
    if not closable:
        return ""
    places = ", ".join(pointer or "/" for pointer in closable[:3]) + (" ..." if len(closable) > 3 else "")
    return (
        f"any other key is allowed, as the schema does not say additionalProperties: {places}\n"
        "serve and generate close these objects (--additional declared)"
    )


def _vocabulary(name: str | None) -> tuple[Vocabulary, str]:
    from narrows import Vocabulary
    from narrows.engines import default_model
    from narrows.errors import EngineError

    if name is not None:
        return (Vocabulary.from_gguf(name) if name.endswith(".gguf") else Vocabulary.from_tokenizer_json(name)), name
    try:
        path = default_model.default_gguf(download=False)
    except EngineError:
        return Vocabulary([bytes([b]) for b in range(256)] + [b""], special={"<end>": 256}, eos=[256]), "single bytes"
    return Vocabulary.from_gguf(path), path.name


def _measure(grammar: Grammar, vocabulary: Vocabulary, reading: float) -> _Cost:
    import numpy as np

    row = np.zeros((vocabulary.size + 31) // 32, dtype=np.int32)
    started = time.perf_counter()
    constraint: Constraint = vocabulary.compile(grammar)
    compiled = time.perf_counter()
    constraint.matcher().fill_mask(row)
    first = time.perf_counter()
    matcher = constraint.matcher()
    matcher.fill_mask(row)
    again = time.perf_counter()
    for _ in range(_REPEATS):
        matcher.fill_mask(row)
    done = time.perf_counter()
    return _Cost(
        reading * 1e3,
        (compiled - started) * 1e3,
        (first - compiled) * 1e6,
        (done - again) / _REPEATS * 1e6,
        constraint.stats(),
    )


def _show(report: dict[str, dict[str, str]], verdict: str, cost: _Cost, vocabulary: str, note: str) -> None:
    if report:
        table = Table("keyword", "status", "why", box=None, pad_edge=False)
        for pointer, entry in report.items():
            colour = _COLOURS.get(entry["status"], "white")
            table.add_row(escape(pointer or "/"), f"[{colour}]{entry['status']}[/]", escape(entry["reason"]))
        out.print(table)
    out.print(verdict)
    if note:
        out.print(escape(note))
    out.print(
        f"cost with {escape(vocabulary)}: front end {cost.lower_ms:.2f} ms, compile {cost.compile_ms:.2f} ms, "
        f"first mask {cost.first_mask_us:.0f} us, repeated {cost.repeated_mask_us:.1f} us"
    )
    out.print("  ".join(f"{name} {value}" for name, value in cost.stats.items()), style="dim")


def _show_captures(captures: list[dict[str, Any]] | None) -> None:
    if captures is None:
        out.print("[red]the text is not allowed[/]")
        return
    out.print("[green]the text is allowed[/]")
    if captures:
        table = Table("captured", "bytes", "text", box=None, pad_edge=False)
        for one in captures:
            table.add_row(escape(one["name"]), f"{one['start']}-{one['end']}", escape(repr(one["text"])[1:-1]))
        out.print(table)
