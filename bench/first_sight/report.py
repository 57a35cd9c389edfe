"""docs/benchmarks.md and its picture, from the numbers of a run. What is slower is said as plainly as what is faster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from first_sight import tables
from first_sight.picture import picture

ABOUT = """\
# Benchmarks
This page is written by `make bench-masks`. It compares narrows with other engines:
{peers}.

- Times are CPU time of all threads of one engine's process, in microseconds. Only one engine works at a time.
- Each engine loads its vocabulary once. Loading is a number of its own. So is what narrows makes ahead of the first
  definition. Nothing else of it is counted.
- Within a part, the engines take turns schema by schema, so that a busy machine slows all of them.
- Python's collector of garbage is off while something is measured.
- Real schemas and vocabularies: a mask counts together with the acceptance of the token that follows. In the other
  parts the masks count alone. The clock's own half microsecond is in each.
- All engines have one thread, except that glrmask compiles with all cores. The sum over its threads counts.
- A definition that takes an engine longer than the time limit counts as not done. The limit is of CPU time.

Read a number as a ratio to its neighbours. Measured on {date}, with Python {python}.
The machine: {processor}.
"""

SHORT = """\
**This was a short run.** Its tails rest on few tokens and few schemas.
"""
ENOUGH = 1000

SCHEMAS = """\
## Real schemas, seen for the first time
{schemas:,} schemas of MaskBench, picked by chance (seed {seed}), with their valid instances, in the tokens of
`{tokenizer}`. {common:,} of them are taken by all engines with every valid instance. The limit was {seconds:g} s.

The first mask of a schema counts twice: in "compilation and first mask", and among the masks. "Again" is the same
definition a second time, when an engine uses what it keeps: narrows' cache, which its server uses, and xgrammar keep
whole compiled grammars.
"Beside llguidance" is the sum of compilation and all masks and steps, over the schemas that both engines take with
every valid instance.
"""

FEATURES = """\
## One feature at a time
Each row is a small schema with one feature, and instances. The vocabulary is made anew before each row, so that nothing
is left of the row before, but for what is made ahead as it is loaded. A schema in a real request shares more.
"""

LANGUAGES = """\
## Other languages
Arithmetic, SQL and C are `bench/grammars` in GBNF for narrows and xgrammar, and the same languages in Lark for
llguidance and glrmask. Where an engine reads two of them, the one with faster masks counts. An empty cell: the engine
has no front end for it.
"""

VOCABULARIES = """\
## Vocabularies of different sizes
Ten everyday schemas on real tokenizers. narrows' loading includes reading the tokenizer's file. The others are given a
tokenizer that somebody else has read.
"""

OPERATIONS = """\
## What a server asks besides
An engine's own call where it has one. xgrammar and glrmask have none that checks a token and changes nothing, so one
steps forth and back, and the other works on a copy. glrmask has none for many sequences, so it is called for each.
"While new ones are made" is the wall time of a known mask while another thread compiles new definitions and makes
their masks. It depends on how busy the machine is.
"""


LOSSES = """\
## Where narrows is slower, and why
- **The first mask of a new schema, beside llguidance.** The front ends are Python, and a new schema costs its
  reading, its rules and the tables of its network. Caches of the parts that schemas share were tried, and are in use;
  the common formats are read while the vocabulary is loaded. What is left grows with the schema: 1.1 of llguidance's
  time at the median. The 99th percentile stands for eight schemas: it was 1.3 and 1.6 of llguidance's time in some
  runs, and 0.6 in another. The time is spread over hundreds of functions. Compiled with mypyc, the front ends took
  0.73 of the time, and all up to the first mask 0.78. That is not kept: it needs a package for each version of
  Python, and reads the same code by other rules. A schema that was seen before costs a look-up: 27 us together with
  its first mask.
- **p99 of masks, beside glrmask.** glrmask makes a table of the whole grammar first, which takes it tens of
  milliseconds of CPU time for each new schema. narrows makes a mask when it is asked for. It is ahead at the median
  (0.7 of glrmask's time) and at p99.9 (0.4). The means are nearly the same: in the last runs narrows' was 0.99 to
  1.10 of glrmask's. At p99 it takes three to four times as long (in other runs, twice: that is glrmask's number,
  which varies between 20 and 60 us). What is behind is what is new: the tokens that end one part of a grammar and go
  on in the next are looked for at each place anew. Their trees are laid over each other, so that each of their ends
  is walked once; walks stop at bytes that cannot follow, and stay where bytes change nothing; what depends on little
  of the stack is shared by all places with that top; keys that came before are looked up by name. That took the mean
  to a quarter of what it was. Most of these walks find what some other place has found before. But what follows has
  other names there, such as the next key, so it is not known beforehand that they will. Lists of children in place of
  jumps over subtrees, and no rows for terms that are seldom asked, were measured and gave nothing.
- **Some features, beside glrmask.** Of 200 optional keys, each one that is left is a reading of its own, and all are
  read on at each comma: two to five times glrmask's mean. Keys that are not declared come once with narrows. So what
  may follow changes with each key of an open object or of a map by pattern: twice. In patterns and e-mail addresses
  each state of the automaton has a record, which is made when a text first comes there: two to three times.
- **Compilation and all masks of a text.** Together they take half of llguidance's time. More than half of that is the
  compilation, so faster masks alone would not change much.
- **Masks over a millisecond.** Fewer than two in ten thousand, mostly in strings with a pattern. Where a pattern
  leaves out characters that many tokens have, such as `^([^:\\s]+:[^:\\s]+)?$` or `^(\\S+\\s+){0,99}\\S+$`, many
  tokens have to be read: 1 to 3 ms. So they have where a word may not come, as in `^((?!mode).)*$`: 2 ms. A pattern
  beside a length of a few characters, `format: regex`, or a key that may be one of several patterns', takes up to 6
  ms; a host name whose labels look around, `^((?!-)[a-z-]{1,63}(?<!-)\\.)+com$`, 39. An internationalised e-mail
  address takes 11 to 13, as nearly every token may be a part of it, and in several ways. And a table of states that
  is full is copied into a larger one: of the first 60 tokens of 4,000 schemas, one took 25 ms for that.
- **The first delta of a stream, where any line may be a call.** Answers of a format share what reads text: 10 us make a
  parser, and the first delta takes 7 more (mean of all formats: 9). What reads a call has state of its own, and is made
  for each answer when a call may begin. In Granite's calls, which are lines of Python, that is at the first letter: 170
  us. The first answer of a format in a process takes 65 us more, and 930 at most.
- **Languages.** The first names of a text take narrows the longest: 40,000 tokens begin one, alone or after white
  space, and each kind of name makes its records when it is first met. So in SQL and in arithmetic the longest mask
  takes two to two and a half times as long as llguidance's; in an e-mail address 1.0 and 1.4 times in two runs. On
  average narrows is ahead in every language. In SQL a name may be many keywords, and all readings count; llguidance's
  lexer takes the longest match, and so has one reading. glrmask has made its tables before.
"""


# Measured by other scripts, which the page names.
ENGINE = """\
## The embedded engine
SmolLM2-135M (Q4_1) over HTTP, one thread, on a machine of two cores, which other programs used as well where nothing
else is said. So only ratios of the same run are given, medians of few runs.

- **The second request with the same three tools** (`bench/prefix_cache.py`, nothing else on the machine) has its first
  piece after 0.19 of the first request's time, at worst 0.23. When twelve requests with other prompts have run in
  between, after 0.20; beside four streams, after 0.53. Beside other work, when reading a prompt took longer, these were
  0.09, 0.11 and 0.20.
- **A long prompt beside four streams** (`bench/long_prompt.py`, as a client sees it). Alone, a stream had a piece every
  50 ms. Beside a prompt of 3,018 tokens it was every 161 ms at the median, 3.8 times that at the 99th percentile, and
  once 944 ms; the streams, too, attend to more. The prompt took 140 s in four-token steps. Of a prompt of 1,515 tokens
  the median was 118 ms and the longest gap 490 ms. On another machine, and with a first step of 8 tokens in place of
  32: 74 ms alone, 266 beside the 3,018 tokens, 4.0 times that at the 99th percentile, and once 1.7 s; the prompt took
  244 s. In the engine's own log of such a minute, no step had more than 8 tokens, and none took more than 0.3 s but one
  (0.5 s), while the machine did other work. So what makes the longest gap is not known.
- **A valid tool call beside llama.cpp's own server**, xllamacpp 2026.10.11549 (`bench/llama_cpp_server.py`, 20 calls
  each way, nothing else on the machine). With `tool_choice: "required"`, narrows wrote 40 valid calls of 40, in 0.77 s
  each. llama.cpp's server wrote none in 100 tokens, since its grammar lets text come before the call. For the same call
  as JSON, by `response_format`, both wrote 40 of 40: narrows took 0.53 of llama.cpp's time for complete answers and
  0.52 for streams. For each token it took 0.7 of the time; llama.cpp's grammar spends more tokens on whitespace.
"""


def slower(rows: dict[str, Any], what: str, title: str) -> str:
    """Where peers are faster than narrows by more than a tenth, as sentences."""
    out = []
    peers = [name for name in tables.in_order(next(iter(rows.values()))) if name != "narrows"]
    for peer in peers:
        both = {name: row for name, row in rows.items() if what in row["narrows"] and what in row[peer]}
        lost = {name: row["narrows"][what] / row[peer][what] for name, row in both.items()}
        worse = sorted((name for name in lost if lost[name] > 1.1), key=lambda name: -lost[name])
        listed = ", ".join(f"{name} ({lost[name]:,.1f} times)" for name in worse[:5])
        out.append(
            f"- {title}: {peer} is faster in {len(worse)} of {len(both)} rows" + (f". {listed}" if worse else ".")
        )
    return "\n".join(out)


def page(numbers: dict[str, Any], picture_name: str) -> str:
    about = numbers["about"]
    peers = ", ".join(f"{name} {version}" for name, version in about["versions"].items() if name != "narrows")
    out = [ABOUT.format(peers=peers, **about)]
    if "schemas" in numbers:
        part = numbers["schemas"]
        out += [
            SCHEMAS.format(**part),
            *([SHORT] if part["schemas"] < ENOUGH else []),
            f"![Microseconds of masks and of compilation]({picture_name})\n",
        ]
        out += [tables.schemas(part) + "\n"]
    for name, prose in (("features", FEATURES), ("languages", LANGUAGES)):
        if name in numbers:
            rows = numbers[name]
            places = (("mean", "mean mask"), ("max", "longest mask"), ("first", "compilation and first mask"))
            losses = "\n".join(slower(rows, what, title) for what, title in places)
            out += [prose, wrapped(losses), tables.PARTS[name](rows) + "\n"]
    for name, prose in (("vocabularies", VOCABULARIES), ("operations", OPERATIONS)):
        if name in numbers:
            out += [prose, tables.PARTS[name](numbers[name]) + "\n"]
    if "schemas" in numbers:
        out += [LOSSES, ENGINE]
    return "\n".join(out)


def wrapped(text: str, width: int = 118) -> str:
    """Lines of prose in their width. A code span is never broken: a pattern may hold blanks."""
    out = []
    for line in text.splitlines():
        parts, inside = [""], False
        for character in line:
            inside ^= character == "`"
            if character == " " and not inside:
                parts.append("")
            else:
                parts[-1] += character
        current = ""
        for part in parts:
            if current and len(current) + 1 + len(part) > width:
                out.append(current)
                current = "  " + part
            else:
                current = f"{current} {part}" if current else part
        out.append(current)
    return "\n".join(out) + "\n"


def write(numbers: dict[str, Any], place: Path) -> None:
    """`place`: the page; its picture stands beside it."""
    drawn = place.with_suffix(".svg")
    if "schemas" in numbers:
        drawn.write_text("\n".join(picture(numbers["schemas"])) + "\n", encoding="utf-8")
    place.write_text(page(numbers, drawn.name), encoding="utf-8")
