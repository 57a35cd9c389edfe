"""`narrows check`: whether a schema, regex or grammar is enforced, whether texts are in it, and what it costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from narrows.cli import check_report
from narrows.cli.check_report import Cost, Text
from narrows.cli.exits import NO, errors_shown
from narrows.cli.inputs import (
    STDIN,
    UNIT,
    Additional,
    Dialect,
    KeyOrder,
    Unit,
    called,
    check_stdin,
    check_unit,
    is_in_place,
    json_source,
    read_bytes,
    read_text,
    text_or_file,
    text_source,
)
from narrows.cli.limit_options import LimitOption, limits_of
from narrows.cli.model_file import tokenizer_files
from narrows.cli.reading import Answer, json_fault, read, single_bytes
from narrows.cli.sources import Sources
from narrows.cli.terminal import print_json
from narrows.errors import GrammarError, InputError, LimitError, VocabularyError
from narrows.grammar.json_schema.report import CLOSED, LOOSE
from narrows.grammar.languages import LANGUAGES, FrontEnd
from narrows.grammar.languages.gbnf import GBNF
from narrows.grammar.languages.json_schema import JSON_SCHEMA
from narrows.grammar.languages.regex import REGEX

if TYPE_CHECKING:
    from narrows import Constraint, Grammar, Limits, Vocabulary

_REPEATS = 200
_SPACE = b" \t\r\n"


def check(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A JSON Schema, or a text in the language of --language. - reads standard input."
        ),
    ],
    instance: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="A JSON value: whether the grammar has it, and if not, which keyword refuses it and where. A file, "
            "- for standard input, or JSON itself. May be repeated.",
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="A text to read with the grammar: whether it is allowed, what its rules capture, and if not, where "
            "it stops. @FILE reads a file, - standard input. May be repeated.",
        ),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"What FILE holds: {', '.join(LANGUAGES)}; grammar is GBNF or Lark. A schema if not given.",
        ),
    ] = None,
    regex: Annotated[bool, typer.Option("--regex", help="FILE holds a regular expression: --language regex.")] = False,
    grammar: Annotated[
        bool, typer.Option("--grammar", help="FILE holds a GBNF or Lark grammar: --language grammar.")
    ] = False,
    dialect: Annotated[
        Dialect | None, typer.Option(help="Dialect of the regular expression; python if not given.")
    ] = None,
    unit: Annotated[Unit | None, UNIT] = None,
    additional: Annotated[
        Additional | None,
        typer.Option(
            help="How to read objects of a schema that list properties and do not say additionalProperties: open, as "
            "in the standard (if not given), or closed to the declared keys, as in `serve` and `generate`."
        ),
    ] = None,
    key_order: Annotated[
        KeyOrder | None,
        typer.Option(
            help="The order in which the keys of an object may come: as the schema declares them (if not given), or "
            "any."
        ),
    ] = None,
    vocab: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A tokenizer.json or GGUF file, or a model of the hub, to measure masks with. Otherwise the default "
            "model's, if it is here.",
        ),
    ] = None,
    limit: LimitOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="List the keywords that are exact, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say whether a schema or grammar is enforced.

    For a schema, each keyword that is not enforced exactly is named with the reason. Then comes what compiling and
    masking cost, and whether values and texts are in the grammar.

    Exit code 0: all of it is enforced, so what is generated is valid. 1: it is not, and the report shows where; or an
    --instance or a --text is not allowed. 4: it cannot be read, or nothing satisfies it. Where less is allowed than the
    schema allows, the report says `under`.

    \b
    Examples:
      narrows check schema.json
      narrows check schema.json --instance answer.json
      narrows check schema.json --vocab tokenizer.json --json
      narrows check schema.json --additional declared
      narrows check schema.json --key-order any
      echo '[a-z]+@[a-z]+' | narrows check - --regex
      narrows check names.lark --language lark --text 'Ada Lovelace'
      narrows check article.txt --language substring --unit words
    """
    with errors_shown(as_json, Sources(called(file)), has_limits=True):
        limits = limits_of(limit)
        front = _language(language, regex, grammar)
        check_unit(unit, front)
        is_schema = front is JSON_SCHEMA
        if instance and not is_schema:
            raise typer.BadParameter("it goes with a JSON Schema; --text reads any text", param_hint="--instance")
        if key_order is not None and not is_schema:
            raise typer.BadParameter("it goes with a JSON Schema", param_hint="--key-order")
        if additional is not None and not is_schema:
            raise typer.BadParameter("it goes with a JSON Schema", param_hint="--additional")
        if dialect is not None and "dialect" not in front.options:
            raise typer.BadParameter("it goes with --regex", param_hint="--dialect")
        check_stdin(file, *(instance or ()), *(text or ()))
        content = read_text(file, "FILE")
        if is_schema and not content.strip():
            raise GrammarError("the schema is empty", code="schema_invalid")
        asked = [(_numbered(json_source(one, "--instance"), k, instance), _instance(one)) for k, one in _each(instance)]
        given = [
            (_numbered(text_source(one, "--text"), k, text), text_or_file(one, "--text")) for k, one in _each(text)
        ]
        with errors_shown(as_json, Sources("--vocab")):
            vocabulary, name = _vocabulary(vocab)

        from narrows.grammar.grammar import Grammar

        chosen = {"dialect": dialect, "additional": additional, "unit": unit, "key_order": key_order}
        options = {"on_unsupported": "ignore"} | {name: one.value for name, one in chosen.items() if one is not None}
        source = front.from_text(content.removesuffix("\n") if front.one_line else content)
        started = time.perf_counter()
        checked = Grammar.from_language(front.name, source, limits=limits, **front.of_those(options))
        reading = time.perf_counter() - started
        closable = _closed(content, limits) if is_schema else []
        cost = _measure(checked, vocabulary, reading, limits)
        instances = [_read_instance(checked, where, data, limits) for where, data in asked]
        texts = [_read_text(checked, where, one, limits) for where, one in given]
    report = {
        pointer: {"status": str(status), "reason": getattr(status, "reason", "")}
        for pointer, status in checked.report.items()
    }
    additional = additional or Additional.STANDARD
    closed = closable if additional is Additional.DECLARED else []
    enforced = not any(entry["status"] in LOOSE for entry in report.values())
    narrower = any(entry["status"] == "under" for pointer, entry in report.items() if pointer not in closed)
    if as_json:
        print_json(
            {
                "enforced": enforced,
                "report": report,
                **({"additional": additional.value, "does_not_say": closable} if is_schema else {}),
                "instances": [one.to_dict() for one in instances],
                "texts": [one.to_dict() for one in texts],
                "vocabulary": {"source": name, "size": vocabulary.size},
                "cost": cost.to_dict(),
            }
        )
    else:
        check_report.show_report(report, verbose)
        check_report.show_verdict(enforced, narrower)
        check_report.show_closed(closable, bool(closed))
        check_report.show_cost(cost, f"{name}, {vocabulary.size} tokens")
        for one in (*instances, *texts):
            check_report.show_text(one, report, called(file))
    if not enforced or not all(one.allowed for one in (*instances, *texts)):
        raise typer.Exit(NO)


def _language(name: str | None, regex: bool, grammar: bool) -> FrontEnd:
    """The language that the options name."""
    names = [name] if name is not None else []
    names += [other for other, given in ((REGEX.name, regex), (GBNF.name, grammar)) if given]
    if len(names) > 1:
        raise typer.BadParameter("at most one of --language, --regex and --grammar")
    chosen = names[0] if names else JSON_SCHEMA.name
    if chosen not in LANGUAGES:
        raise typer.BadParameter(
            f"{chosen!r} is not a language: use one of {', '.join(LANGUAGES)}", param_hint="--language"
        )
    return LANGUAGES[chosen]


def _each(values: list[str] | None) -> Iterator[tuple[int, str]]:
    return enumerate(values or (), 1)


def _numbered(name: str, number: int, values: list[str] | None) -> str:
    """The name of an option that is given more than once says which one is meant."""
    return f"{name} #{number}" if name.startswith("--") and values is not None and len(values) > 1 else name


def _instance(value: str) -> bytes:
    """The bytes of an instance as they were given."""
    return value.encode("utf-8", "surrogateescape") if is_in_place(value) else read_bytes(value, "--instance")


def _read_instance(grammar: Grammar, source: str, data: bytes, limits: Limits) -> Text:
    """White space around a value is no part of it. Places count from the beginning of the file."""
    fault = json_fault(data)
    if fault is not None:
        return Text(source, "instance", Answer(None), error=fault)
    before = len(data) - len(data.lstrip(_SPACE))
    return Text(source, "instance", read(grammar, data.rstrip(_SPACE), before, limits=limits))


def _read_text(grammar: Grammar, source: str, text: str, limits: Limits) -> Text:
    data = text.encode("utf-8", "surrogateescape")
    if grammar.schema is not None:
        return Text(source, "text", read(grammar, data, limits=limits), captures=[])
    captures = _captures(grammar, text, limits)
    answer = Answer(None) if captures is not None else read(grammar, data, limits=limits)
    return Text(source, "text", answer, captures=captures)


def _captures(grammar: Grammar, text: str, limits: Limits) -> list[dict[str, Any]] | None:
    """What is captured in a text. None if the grammar does not have it."""
    try:
        captures = grammar.captures(text, limits=limits)
    except InputError as error:
        if error.code != "text_not_matched":
            raise
        return None
    return [{"name": one.name, "start": one.span[0], "end": one.span[1], "text": one.text} for one in captures]


def _closed(schema: str, limits: Limits) -> list[str]:
    """Pointers to the `properties` of objects that the reading "declared" closes, since their schema does not say."""
    from narrows import Grammar

    try:
        options = {"on_unsupported": "ignore", "additional": "declared"}
        report = Grammar.from_language("json", schema, limits=limits, **options).report
    except LimitError:
        return []
    return [pointer for pointer, status in report.items() if getattr(status, "reason", "") == CLOSED.reason]


def _vocabulary(name: str | None) -> tuple[Vocabulary, str]:
    from narrows import Vocabulary
    from narrows.engines import default_model
    from narrows.errors import EngineError

    if name is not None:
        if name == STDIN:
            raise typer.BadParameter("it is read from a file", param_hint="--vocab")
        file = tokenizer_files(name)
        try:
            if file == name:
                with open(name, "rb"):
                    pass
            return (
                Vocabulary.from_gguf(file) if file.endswith(".gguf") else Vocabulary.from_tokenizer_json(file)
            ), name
        except (OSError, ValueError) as error:
            if isinstance(error, VocabularyError):
                raise
            reason = error.strerror if isinstance(error, OSError) else error
            raise typer.BadParameter(f"cannot read {name}: {reason}", param_hint="--vocab") from None
    try:
        path = default_model.default_gguf(download=False)
    except EngineError:
        return single_bytes(), "single bytes"
    return Vocabulary.from_gguf(path), path.name


def _measure(grammar: Grammar, vocabulary: Vocabulary, reading: float, limits: Limits) -> Cost:
    import numpy as np

    row = np.zeros((vocabulary.size + 31) // 32, dtype=np.int32)
    started = time.perf_counter()
    constraint: Constraint = vocabulary.compile(grammar, limits=limits)
    compiled = time.perf_counter()
    constraint.matcher().fill_mask(row)
    first = time.perf_counter()
    matcher = constraint.matcher()
    matcher.fill_mask(row)
    again = time.perf_counter()
    for _ in range(_REPEATS):
        matcher.fill_mask(row)
    done = time.perf_counter()
    return Cost(
        reading * 1e3,
        (compiled - started) * 1e3,
        (first - compiled) * 1e6,
        (done - again) / _REPEATS * 1e6,
        constraint.stats(),
    )
