"""What of a pattern does not matter where it may be found anywhere in a text.

    [a-z]{1,255}     is found exactly where [a-z] is
    x*[a-z]+-y?      is found exactly where [a-z]- is
    [a-z]{40}        is found exactly where [a-z]{40,} is

Before and after a match any text may stand. So a repeated character at either end is as good as its least number. That
leaves out counters, which cost states. Where the least number is more than one, the form without a greatest one is
taken: of all the places where a match may have begun, only the first then counts.

Cost: linear in the items at the ends.
"""

from __future__ import annotations

from dataclasses import replace

from narrows.grammar.regex.tree import Chars, Choice, Concat, Repeat, Tree


def shortened(root: Tree) -> Tree:
    """A pattern that is found in the same texts."""
    if isinstance(root, Choice):
        return Choice(tuple([_shortened(branch) for branch in root.items]))
    return _shortened(root)


def _shortened(part: Tree) -> Tree:
    items = list(part.items) if isinstance(part, Concat) else [part]
    for end in (-1, 0):
        while items:
            last = items[end]
            if not isinstance(last, Repeat) or not isinstance(last.item, Chars):
                break
            if last.min:
                items[end] = replace(last, max=1 if last.min == 1 else None)
                break
            items.pop(end)
    return items[0] if len(items) == 1 else Concat(tuple(items))
