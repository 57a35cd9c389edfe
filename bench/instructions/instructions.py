"""How many instructions does the core take for a step? Compares them with the numbers in bench/instructions/instructions.toml.

    make instructions                               # exit code 1 if a number grew by more than 5 %
    make instructions-update                        # writes the numbers that the core has now

Counted by valgrind's callgrind, which a busy machine does not disturb. A number that fell by more than 5 % is named too,
so that it can be written down. Without valgrind, or with another compiler or processor than the numbers were made with,
nothing is compared, and the reason is said.

The vocabulary has 50,000 made-up tokens. It needs no download and is always the same. Cost: a build of the core the
first time, then half a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from narrows import Grammar, Limits, Vocabulary
from narrows.grammar.flatten import TokenFacts, flatten

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "core" / "fuzz"))
from sanitize import write

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = Path(__file__).with_name("instructions.toml")
BUILD = ROOT / "build" / "instructions"
ALLOWED = 0.05
SCENARIOS = {
    "known_mask": "a mask that the sequence has filled before",
    "known_accept": "a token of a text that the constraint has read before",
    "first_mask_plain_string": "the first mask inside a string",
    "first_mask_counted_string": "the first mask inside a string of at most 100 characters",
    "first_text": "a constraint, and all masks and steps of its first text",
    "first_text_keys_by_pattern": "the same, for an object of 20 keys that one pattern describes",
}
ARRAYS = ("kinds", "a", "b", "child_offsets", "children", "string_offsets", "string_bytes", "tokens", "rules")

ARGUMENTS = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1, "maxLength": 200},
        "path": {"type": "string", "pattern": r"\.(js|ts)$"},
        "kind": {"enum": ["file", "folder", "link"]},
        "limit": {"type": "integer", "minimum": 1, "maximum": 500},
        "tags": {"type": "array", "items": {"type": "string"}},
        "where": {"type": "object", "properties": {"mail": {"type": "string", "format": "email"}}},
    },
    "required": ["query", "path"],
    "additionalProperties": False,
}
TEXT = (
    '{"query": "some words, and a café", "path": "src/index.ts", "kind": "folder", "limit": 25, '
    '"tags": ["red", "dark blue", ""], "where": {"mail": "ann.lee@example.org", "other": [1, null]}}'
)
STRINGS = {"type": "array", "items": {"type": "string"}}
COUNTED = {"type": "array", "items": {"type": "string", "maxLength": 100}}
MAP = {
    "type": "object",
    "patternProperties": {"^[a-z]{2,8}_[0-9]+$": {"type": "integer"}},
    "additionalProperties": False,
}
KEYS = json.dumps({f"name_{number}": number for number in range(20)})
DEFINITIONS = ((STRINGS, '["some'), (COUNTED, '["some'), (ARGUMENTS, TEXT), (MAP, KEYS))
"""In the order that steps.cpp knows."""


def tokens() -> list[bytes]:
    """Every byte, then pieces like those of real vocabularies: words, numbers, JSON's signs, blanks, letters of other
    scripts. The last one is the end token."""
    chance = random.Random(1)
    found = dict.fromkeys(bytes([byte]) for byte in range(256))
    for piece in ['{"', '":', '", "', '",', '"]', "}}", "[]", '":"', '": "', "\\n", '\\"', "://", "  ", "    ", "\n\n"]:
        found[piece.encode()] = None
    found |= dict.fromkeys(str(number).encode() for number in range(1000))
    starts, middles = "b c d f g h l m n p r s t st tr pr qu".split(), "a e i o u ea ou io".split()
    others = [chr(c) for c in (*range(0xE0, 0x17F), *range(0x3B1, 0x3C9), *range(0x430, 0x450), *range(0x4E00, 0x5200))]
    while len(found) < 49_999:
        word = "".join(chance.choice(starts) + chance.choice(middles) for _ in range(chance.randint(1, 4)))
        kind = chance.random()
        if kind < 0.1:
            word = "".join(chance.choices(others, k=chance.randint(1, 3)))
        elif kind < 0.15:
            word = chance.choice("_./-(=+*<") + word
        elif kind < 0.3:
            word = word.capitalize()
        found[(" " * (chance.random() < 0.5) + word).encode()] = None
    return [*found, b""]


def cut(text: bytes, ids: dict[bytes, int]) -> list[int]:
    """The longest token that fits, again and again."""
    longest = max(map(len, ids))
    at, out = 0, []
    while at < len(text):
        piece = next(text[at : at + n] for n in range(longest, 0, -1) if text[at : at + n] in ids)
        out.append(ids[piece])
        at += len(piece)
    return out


def write_world(path: Path) -> None:
    """What steps.cpp reads."""
    pieces = tokens()
    end = len(pieces) - 1
    vocabulary = Vocabulary(pieces, special={"<end>": end}, eos=[end])
    ids = {piece: token for token, piece in enumerate(pieces) if piece}
    facts = TokenFacts(vocabulary.special, vocabulary.eos_ids, dict.fromkeys(range(vocabulary.size)))
    with path.open("wb") as out:
        write(out, np.frombuffer(b"".join(pieces), np.uint8))
        write(out, np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])]).astype(np.uint64))
        write(out, np.array([end], np.uint32))
        write(out, np.array([vocabulary.size, len(DEFINITIONS)], np.uint32))
        for schema, text in DEFINITIONS:
            arrays = flatten(Grammar.from_json_schema(schema).module, facts, Limits())
            for name in ARRAYS:
                write(out, arrays[name])
            write(out, np.array([arrays["start"]], np.uint32))
            write(out, np.array(cut(text.encode(), ids), np.uint32))


def build() -> Path:
    """The program, with the compiler that builds the core. Raises CalledProcessError."""
    cmake = shutil.which("cmake") or str(Path(sys.executable).with_name("cmake"))
    for arguments in (["-S", str(Path(__file__).parent), "-B", str(BUILD)], ["--build", str(BUILD), "--parallel", "2"]):
        subprocess.run([cmake, *arguments], check=True, stdout=subprocess.DEVNULL)
    return BUILD / "steps"


def made_with() -> dict[str, str]:
    """What the numbers depend on besides the core."""
    cache = (BUILD / "CMakeCache.txt").read_text()
    found = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.MULTILINE)
    said = subprocess.run([found[1] if found else "c++", "--version"], capture_output=True, text=True, check=True)
    return {"compiler": said.stdout.splitlines()[0], "machine": platform.machine()}


def count(valgrind: str, program: Path, world: Path, scenario: str) -> int:
    """Instructions of one step. Raises RuntimeError with what valgrind said."""
    command = [valgrind, "--tool=callgrind", f"--callgrind-out-file={BUILD / 'callgrind.out'}", "--collect-atstart=no",
               "--toggle-collect=measured", str(program), str(world), scenario]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"})
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or collected is None:
        raise RuntimeError(f"{scenario}: {done.stderr[-1000:]}")
    return int(collected[1]) // int(done.stdout)


def written(numbers: dict[str, int], basis: dict[str, str]) -> str:
    lines = [
        "# Instructions of one step, counted by `make instructions`; `make instructions-update` writes this file.",
        "",
    ]
    lines += [f"{name} = {json.dumps(value)}" for name, value in basis.items()]
    lines += ["", "[instructions]"]
    for name, number in numbers.items():
        lines += [f"# {SCENARIOS[name]}", f"{name} = {number:_}"]
    return "\n".join(lines) + "\n"


def verdict(numbers: dict[str, int], known: dict[str, int]) -> tuple[list[str], bool]:
    """A line for each number, and whether none grew too much."""
    lines, good = [], True
    for name, number in numbers.items():
        before = known.get(name)
        if before is None:
            lines.append(f"{name:28}{number:>14,}  not in {NUMBERS.name} yet")
            good = False
            continue
        change = number / before - 1
        word = (
            "GREW" if number > before * (1 + ALLOWED) else "fell: write it down" if change < -ALLOWED else "as before"
        )
        lines.append(f"{name:28}{number:>14,}  was {before:>14,}  {change:+.1%}  {word}")
        good &= number <= before * (1 + ALLOWED)
    return lines, good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the numbers instead of comparing them")
    asked = parser.parse_args()
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        print("instructions are not counted: there is no valgrind (on Debian: apt install valgrind)")
        return 2 if asked.update else 0
    program = build()
    known: dict[str, Any] = tomllib.loads(NUMBERS.read_text()) if NUMBERS.is_file() else {}
    basis = made_with()
    other = [f"{name} {value!r}, not {known.get(name)!r}" for name, value in basis.items() if value != known.get(name)]
    if other and not asked.update:
        print(
            f"instructions are not compared: {'; '.join(other)}. `make instructions-update` makes numbers for this machine."
        )
        return 0
    world = BUILD / "world.bin"
    write_world(world)
    numbers = {scenario: count(valgrind, program, world, scenario) for scenario in SCENARIOS}
    if asked.update:
        NUMBERS.write_text(written(numbers, basis))
        print(*(f"{name:28}{number:>14,}" for name, number in numbers.items()), sep="\n")
        return 0
    lines, good = verdict(numbers, known.get("instructions", {}))
    print(*lines, sep="\n")
    if not good:
        print("If the new numbers are meant: `make instructions-update`, and say in the commit why.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
