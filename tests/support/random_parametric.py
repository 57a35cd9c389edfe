"""Random Lark grammars whose rules have a parameter: each alternative begins with a letter, so that there is one way to cut a text."""

from __future__ import annotations

from random import Random

_RANGES = ("_", "[0:2]", "[1:3]", "[0:4]")
_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


def parametric_grammar(seed: int) -> str:
    """Texts over "a", "b" and "c" that end with a dot."""
    rng = Random(seed)
    rules = [f'start: p::{rng.randrange(16)} "."']
    for name in ("p", "q"):
        branches = []
        for letter in rng.sample("abcabc", rng.randint(2, 4)):
            rest = rng.choice(("", f" p::{_expression(rng)}", f" q::{_expression(rng)}"))
            branches.append(f'"{letter}"{rest}' + (f" %if {_condition(rng, 2)}" if rng.random() < 0.7 else ""))
        if rng.random() < 0.3:
            branches.append(f'"" %if {_condition(rng, 1)}')
        rules.append(f"{name}::_: " + "\n | ".join(branches))
    return "\n".join(rules)


def _condition(rng: Random, depth: int) -> str:
    kind = rng.random() if depth else 1.0
    if kind < 0.4:
        return f"{rng.choice(('and', 'or'))}({_condition(rng, depth - 1)}, {_condition(rng, depth - 1)})"
    if kind < 0.5:
        return f"not({_condition(rng, depth - 1)})"
    bits, compare = rng.choice(_RANGES), rng.choice(_COMPARE)
    return rng.choice(
        (
            f"bit_set({rng.randrange(4)})",
            f"bit_clear({rng.randrange(4)})",
            f"is_ones({bits})",
            f"is_zeros({bits})",
            f"{compare}({bits}, {rng.randrange(5)})",
            f"bit_count_{compare}({bits}, {rng.randrange(4)})",
        )
    )


def _expression(rng: Random) -> str:
    bits = rng.choice(_RANGES[1:])
    functions = (f"incr({bits})", f"decr({bits})", f"set_bit({rng.randrange(4)})", f"clear_bit({rng.randrange(4)})")
    return rng.choice(
        ("_", str(rng.randrange(16)), f"bit_and({rng.randrange(16)})", f"bit_or({hex(rng.randrange(16))})", *functions)
    )
