"""Random grammars in xgrammar's EBNF over a small alphabet: rules, classes, quantifiers, macros, options, comments.

`max_chars` is left out: xgrammar 0.2.8 does not enforce it everywhere."""

from __future__ import annotations

from random import Random

ALPHABET = "ab<c\n"
STRINGS = ['"a"', '"b"', '"ab"', '"ba"', '""', '"<"', '"\\n"', '"\\x61"', '"\\u0062"', '"a\\"b"', '"\\/"']
CLASSES = ["[ab]", "[^a]", "[a-c]", "[^a-b<]", "[\\x61-b]", "[-a]", "[a-]", "[\\-\\]<]", "[^]", "[a\\n]", "[é-ü]"]
QUANTIFIERS = ["?", "*", "+", "{2}", "{1,2}", "{0,2}", "{2,}", "{0}", "{ 1 , 3 }"]
PATTERNS = ["a+b?", "[ab]{2}", "(a|b)c*", "a.", "[^a]", "(?:ab)+?", "a|", "\\\\x61"]
LAZY = ["[ab]+", '"a" [ab]*', '("ab" | "a") [ab]*', '[^c]* "c"', '"" | [ab]+', '"a" "a"+ | "b"']
"""Bodies of lazy rules. xgrammar takes no counts and no names in them."""


class RandomEbnf:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.names = ["root", "x", "y-1", "z.z"][: self.rng.randint(1, 4)]
        self.options: list[str] = []

    def text(self) -> str:
        rng = self.rng
        rules = [f"{name} ::= {self.choices(2)}" for name in self.names]
        rules += [f"{name} ::= {rng.choice(LAZY)}" for name in self.options]
        first, *others = rules
        rng.shuffle(others)
        return rng.choice(("\n", "\n\n", " # a comment\n")).join([first, *others]) + rng.choice(("", "\n"))

    def choices(self, depth: int) -> str:
        separator = self.rng.choice((" | ", " |\n  ", "|"))
        return separator.join(self.sequence(depth) for _ in range(self.rng.choice((1, 1, 2, 3))))

    def sequence(self, depth: int) -> str:
        separator = self.rng.choice((" ", " ", "\n    "))
        return separator.join(self.item(depth) for _ in range(self.rng.choice((1, 1, 2, 2, 3))))

    def item(self, depth: int) -> str:
        rng = self.rng
        kind = rng.randrange(20)
        if kind < 4 and depth:
            return self.quantified(f"({self.choices(depth - 1)})")
        if kind < 8:
            return self.quantified(rng.choice(self.names))
        if kind < 12:
            return self.quantified(rng.choice(CLASSES))
        if kind == 12:
            return f'Regex("{rng.choice(PATTERNS)}")'
        if kind == 13:
            chunks = ", ".join(rng.choice(('"a"', '"b"', '"ab"', '"c"')) for _ in range(rng.randint(0, 4)))
            return f"Substring({chunks})"
        if kind == 14:
            return self.tags()
        if kind == 15 and len(self.options) < 2:
            name = rng.choice(("lazy", "lazy, capture", 'capture="o", lazy', "temperature=0.5"))
            self.options.append(f"o{len(self.options)}[{name}]")
            return self.options[-1].partition("[")[0]
        return self.quantified(rng.choice(STRINGS))

    def quantified(self, item: str) -> str:
        return item + self.rng.choice(QUANTIFIERS) if self.rng.random() < 0.35 else item

    def tags(self) -> str:
        rng = self.rng
        tags = rng.sample(['"<"', '"ab"', '"abc"', '"<a"', '"cc"'], rng.randint(1, 2))
        pairs = [f"({tag}, {rng.choice(self.names)})" for tag in tags]
        named = [f"loop_after_dispatch={rng.choice(('true', 'false'))}"] if rng.random() < 0.4 else []
        named += (
            [f"excludes=({rng.choice(('', chr(34) + 'bb' + chr(34) + ',', chr(34) + 'ca' + chr(34)))})"]
            if rng.random() < 0.4
            else []
        )
        return f"TagDispatch({', '.join(pairs + named)})"
