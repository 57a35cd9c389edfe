"""Grammars in GBNF that are expensive to compile, to step through or to keep. Each depends on a seed or number only."""

from __future__ import annotations

from random import Random

LEAVES = ('"a"', '"é"', "[0-9]", "[一-鿿]", ".", '"x"', '"ab"', '","', '" "', "[a-z ]", '""', '[^"]', '"\\""')
REPEATS = ("*", "+", "?", "{0,3}", "{2}", "{5,40}", "{1,200}", "{3,}")
RULES = ("root", "a", "b", "c")


def random_grammar(seed: int) -> str:
    """A few rules that call each other anywhere, repetitions of repetitions included."""
    rng = Random(seed)
    names = RULES[: rng.randint(1, len(RULES))]
    return "\n".join(
        f"{name} ::= " + " | ".join(_part(rng, rng.randint(1, 4), names) for _ in range(rng.randint(1, 3)))
        for name in names
    )


def _part(rng: Random, depth: int, names: tuple[str, ...]) -> str:
    roll = rng.random()
    if depth <= 0 or roll < 0.3:
        return rng.choice(LEAVES + names)
    if roll < 0.5:
        return " ".join(_part(rng, depth - 1, names) for _ in range(rng.randint(2, 4)))
    if roll < 0.7:
        return "(" + " | ".join(_part(rng, depth - 1, names) for _ in range(rng.randint(2, 4))) + ")"
    return "(" + _part(rng, depth - 1, names) + ")" + rng.choice(REPEATS)


def long_sequence(parts: int = 4_000, leaf: str = "[ab]") -> str:
    return "root ::= " + f"{leaf} " * parts


def doubling(levels: int = 12, leaf: str = "[ab]") -> str:
    """A rule that is twice the next rule, which is twice the one after it: 2**levels leaves in a few bytes."""
    rules = [f"r{i} ::= r{i + 1} r{i + 1}" for i in range(levels)]
    return "\n".join(["root ::= r0", *rules, f"r{levels} ::= {leaf}"])


def many_words(words: int = 250, mark: str = "x") -> str:
    """Alternatives that are all open at once, each with its own counters: 14 KB."""
    rules = (f'r{i} ::= [a-z]* [a-m]{{{i % 7 + 1},{i % 9 + 20}}} "{mark}{i}" root?' for i in range(words))
    return "root ::= " + " | ".join(f"r{i}" for i in range(words)) + "\n" + "\n".join(rules)


def many_rules(rules: int = 300) -> str:
    bodies = (f'r{i} ::= [a-z] r{(i * 7 + 1) % rules} | [a-z] r{(i * 3 + 2) % rules} "q" | ""' for i in range(rules))
    return "root ::= " + " | ".join(f"r{i}" for i in range(rules)) + "\n" + "\n".join(bodies)


def growing(number: int) -> str:
    """4 KB. Each number gives another grammar, and none can use what the others have cached."""
    return many_words(70, mark=f"w{number}q")


CJK = (
    "root ::= [一-鿿] a | [一-鿿] .\n"
    'a ::= [一-鿿] | "é" | ("x" | a root ((root a ","? | a | "é" "ab" root{2}){0,3} [0-9]){5,40} | .{5,40} a) . .'
)
SPACES = 'root ::= a | " " a\na ::= a "é"{2} | root | ""'
AMBIGUOUS = 'root ::= root root | "a" root | "a" | root "b"'
DOTS = "root ::= " + " | ".join(f'.{{{i},{i + 40}}} "é{i}" root' for i in range(1, 120))


def chain(rules: int = 100_000, branching: bool = False) -> str:
    body = '"a" r{} | "b"' if branching else "r{}"
    return "root ::= r0\n" + "".join(f"r{i} ::= {body.format(i + 1)}\n" for i in range(rules)) + f'r{rules} ::= "x"'
