"""Random Lark grammars over a small alphabet: rules, terminals, templates, quantifiers, imports, aliases, `%ignore`,
`%extend`, `%override`."""

from __future__ import annotations

from random import Random

TERMINALS = [
    '"a"', '"b"', '"ab"', '"ba"i', '"a".."b"', '"\\x61"', "/a+/", "/[ab]/", "/b?a/", "/(?:ab|b)+/", "/A B/ix", "A", "B", "C", "WORD",
]  # fmt: skip
LAZY = ["/a.*?b/", "L"]
QUANTIFIERS = ["?", "*", "+", "~2", "~1..2", "~0..2"]
DEFINED = ['A.2: "a"', 'B: "b" | "bb"', "C: A B+ | B~2", "%import common.WORD"]
WITH_TEMPLATES = ["_t{p, q}: p (q p)* | q", "_n{p}: p _n{p} | _t{p, A}", 'L: "a" | /b.*?a/']


class RandomLark:
    def __init__(self, seed: int, *, templates: bool = True) -> None:
        """templates: also what llguidance does not read: templates, lazy quantifiers, priorities, %extend."""
        self.templates = templates
        self.terminals = [*TERMINALS, *LAZY] if templates else TERMINALS
        self.rng = Random(seed)
        self.names = ["start", "x", "y"][: self.rng.randint(1, 3)]
        self.ignored = ""
        """Characters that may stand anywhere between terminals."""

    def text(self) -> str:
        rng = self.rng
        lines = [f"{rng.choice(('', '?', '!'))}{name}: {self.alternatives(2)}" for name in self.names]
        lines += [*DEFINED, *WITH_TEMPLATES] if self.templates else [line.replace(".2", "") for line in DEFINED]
        for pattern, char, share in (('" "', " ", 0.3), ("/-+/", "-", 0.1)):
            if rng.random() < share:
                lines.append(f"%ignore {pattern}")
                self.ignored += char
        rng.shuffle(lines)
        changes = ['%extend A: "aa"', "%override B: /b/"]
        made = [change for change in changes if rng.random() < 0.2]
        return "\n".join([*lines, *(made if self.templates else [])]) + "\n"

    def alternatives(self, depth: int) -> str:
        branches = [self.sequence(depth) for _ in range(self.rng.choice((1, 1, 2, 3)))]
        return " | ".join([*branches, ""] if self.rng.random() < 0.06 else branches)

    def sequence(self, depth: int) -> str:
        items = " ".join(self.item(depth) for _ in range(self.rng.choice((1, 1, 2, 2, 3))))
        return f"{items} -> alias" if depth == 2 and self.rng.random() < 0.1 else items

    def item(self, depth: int) -> str:
        rng = self.rng
        kind = rng.randrange(12)
        if depth == 0 or kind < 4:
            return rng.choice(self.terminals)
        if kind < 6:
            return rng.choice(self.names)
        if kind < 8:
            inner = self.alternatives(depth - 1)
            return f"({inner})" if kind == 6 else f"[{inner}]"
        if kind < 10:
            repeated = (
                f"({self.alternatives(depth - 1)})" if rng.random() < 0.5 else rng.choice(self.terminals + self.names)
            )
            return repeated + rng.choice(QUANTIFIERS)
        if kind == 10 and self.templates:
            if rng.random() < 0.2:
                return f"_n{{{rng.choice(self.terminals)}}}"
            return f"_t{{{rng.choice(self.terminals + self.names)}, {rng.choice(self.terminals)}}}"
        return rng.choice(self.terminals)
