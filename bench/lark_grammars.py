"""Lark grammars: reading, compiling, and the masks along a text. For narrows and the peers that read them.

    python bench/lark_grammars.py                       # peers that are not installed are left out
    python bench/lark_grammars.py --tokenizer qwen3 --only sql

`sql` and `c` lie in bench/grammars. `python` is the grammar of the Lark package, with tokens for what its lexer adds.
Each text is replayed in the tokenizer's tokens: fill the mask, check that the token is in it, accept it. Then once
more, when an engine has seen the grammar. Times are CPU microseconds of the Python call.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import peers

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
PYTHON_TEXT = '''def total(items: list, *, rate=0.2, **more) -> float:
<in>"""Adds up."""
result = [x.price * (1 + rate) for x in items if x is not None and x.price > 0]
if not result:
<in>raise ValueError(f"nothing in {items}")
<out>for k, v in enumerate(result):
<in>more[k], other = v ** 2 // 3, {"a": 1, 'b': [1, 2, 3][::-1]}
<out>return sum(result) + len(more) * 1.5e3
<out>'''


def grammars() -> Iterator[tuple[str, str, str]]:
    """Name, grammar and text."""
    samples = tomllib.loads((HERE / "grammars" / "samples.toml").read_text(encoding="utf-8"))
    for name in ("sql", "c"):
        text = samples[name]["text"] + samples[name]["before"] + 9 * samples[name]["unit"] + samples[name]["after"]
        text = text.removeprefix("// sum\n")  # llguidance ignores nothing at the beginning
        yield name, (HERE / "grammars" / f"{name}.lark").read_text(encoding="utf-8"), text
    try:
        import lark
    except ImportError:
        return
    source = (Path(lark.__file__).parent / "grammars" / "python.lark").read_text(encoding="utf-8")
    source = source.replace("%declare _INDENT _DEDENT", '_INDENT: "<in>"\n_DEDENT: "<out>"\nstart: file_input')
    yield "python", source, PYTHON_TEXT


def cpu_us(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time_ns()
    result = call()
    return (time.process_time_ns() - start) / 1e3, result


def masks(session: peers.Session, tokens: list[int]) -> list[float]:
    """The time of each mask. Raises ValueError at a token that is not in its mask."""
    spent = []
    for at, token in enumerate(tokens):
        spent.append(cpu_us(session.fill)[0])
        if not (int(session.row[token >> 5]) >> (token & 31)) & 1 or not session.accept(token):
            raise ValueError(f"token {at} of {len(tokens)} is refused")
    return spent


def shown(spent: list[float]) -> str:
    ordered = sorted(spent)
    return f"median {statistics.median(ordered):7.1f}  p99 {ordered[len(ordered) * 99 // 100]:8.1f}  worst {ordered[-1]:8.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--tokenizer", default="llama3_1", help="a folder, or a name of tests/support/real_tokenizers.py"
    )
    parser.add_argument("--only", help="one of the grammars")
    arguments = parser.parse_args()
    folder = peers.folder_of(arguments.tokenizer)
    import tokenizers

    encoder = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    for kind in ("narrows", "llguidance"):
        try:
            engine = peers.ENGINES[kind](folder)
        except ImportError as error:
            print(f"{kind}: not installed ({error.name})")
            continue
        for name, source, text in grammars():
            if arguments.only in (None, name):
                tokens = encoder.encode(text, add_special_tokens=False).ids
                print(f"{kind:10s} {name:6s} {row(engine, source, tokens)}", flush=True)


def row(engine: peers.Engine, source: str, tokens: list[int]) -> str:
    # The name of a rule that nobody uses: no engine has seen this text.
    compiled, start = [], None
    for k in range(5):
        try:
            spent, start = cpu_us(lambda k=k: engine.compile(f"{source}\nunused_{k}: start\n", "lark"))
        except Exception as error:  # a peer's refusal has any class
            return f"refused: {str(error).splitlines()[0][:100]}"
        compiled.append(spent)
    assert start is not None
    first = cpu_us(lambda: start().fill())[0]
    try:
        spent, again = masks(start(), tokens), masks(start(), tokens)
    except ValueError as error:
        return str(error)
    line = f"{len(tokens)} tokens, compile {statistics.median(compiled):8.0f}, first mask {first:7.0f}"
    return f"{line}\n    first time  {shown(spent)}\n    again       {shown(again)}"


if __name__ == "__main__":
    main()
