"""Random Lark grammars over a small alphabet: rules, terminals, templates, quantifiers, `%ignore`, `%extend`."""

from __future__ import annotations

from random import Random

TERMINALS = ['"a"', '"b"', '"ab"', '"ba"i', "/a+/", "/[ab]/", "/b?a/", "/(?:ab|b)+/", "/a.*?b/", "A", "B", "C"]
QUANTIFIERS = ["?", "*", "+", "~2", "~1..2", "~0..2"]
DEFINED = ['A: "a"', 'B: "b" | "bb"', "C: A B+ | B~2", "_t{p, q}: p (q p)* | q"]


class RandomLark:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.names = ["start", "x", "y"][: self.rng.randint(1, 3)]
        self.ignored = ""
        """Characters that may stand anywhere between terminals."""

    def text(self) -> str:
        rng = self.rng
        lines = [f"{rng.choice(('', '?', '!'))}{name}: {self.alternatives(2)}" for name in self.names]
        lines += DEFINED
        for pattern, char, share in (('" "', " ", 0.3), ("/-+/", "-", 0.1)):
            if rng.random() < share:
                lines.append(f"%ignore {pattern}")
                self.ignored += char
        rng.shuffle(lines)
        changes = ['%extend A: "aa"', "%override B: /b/"]
        return "\n".join([*lines, *(change for change in changes if rng.random() < 0.2)]) + "\n"

    def alternatives(self, depth: int) -> str:
        branches = [self.sequence(depth) for _ in range(self.rng.choice((1, 1, 2, 3)))]
        return " | ".join([*branches, ""] if self.rng.random() < 0.06 else branches)

    def sequence(self, depth: int) -> str:
        return " ".join(self.item(depth) for _ in range(self.rng.choice((1, 1, 2, 2, 3))))

    def item(self, depth: int) -> str:
        rng = self.rng
        kind = rng.randrange(12)
        if depth == 0 or kind < 4:
            return rng.choice(TERMINALS)
        if kind < 6:
            return rng.choice(self.names)
        if kind < 8:
            inner = self.alternatives(depth - 1)
            return f"({inner})" if kind == 6 else f"[{inner}]"
        if kind < 10:
            repeated = f"({self.alternatives(depth - 1)})" if rng.random() < 0.5 else rng.choice(TERMINALS + self.names)
            return repeated + rng.choice(QUANTIFIERS)
        if kind == 10:
            return f"_t{{{rng.choice(TERMINALS + self.names)}, {rng.choice(TERMINALS)}}}"
        return rng.choice(TERMINALS)
