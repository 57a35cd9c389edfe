"""Special tokens in a Lark grammar, as llguidance writes them: `<|name|>`, `<[128010]>`, `<[1-5,9]>`, `<[^7]>`,
`<[*]>`.

Negated ids and `*` mean any other token than the end tokens: these are allowed where the text may end.
"""

from __future__ import annotations

from narrows.grammar import ir
from narrows.grammar.languages.lark.tree import Special
from narrows.grammar.languages.text import GrammarText

_MAX_TOKEN = 2**31 - 1


def special_token(text: GrammarText, node: Special) -> ir.Node:
    """A `Marker` for a name, a `Token` for ids. Raises `GrammarError`, and `LimitError` (`reading_work`) for too many
    ids."""
    written = node.text
    if not (written.startswith("<[") and written.endswith("]>")):
        text.encoded(written, node.offset)  # without such a token, it is text
        return ir.Marker(written)
    inner = written[2:-2]
    if inner == "*":
        return ir.Token((), negate=True)
    negate = inner.startswith("^")
    ids: list[int] = []
    for part in inner.removeprefix("^").split(","):
        low, dash, high = part.partition("-")
        bounds = [_id(text, node, low), _id(text, node, high if dash else low)]
        if bounds[1] < bounds[0]:
            text.fail(f"{part}: the ids are out of order", node.offset)
        text.work.spend(1 + (bounds[1] - bounds[0]) // 8)
        ids += range(bounds[0], bounds[1] + 1)
    return ir.Token(tuple(dict.fromkeys(ids)), negate)


def _id(text: GrammarText, node: Special, digits: str) -> int:
    if not digits.isdecimal() or not digits.isascii():
        text.fail(f"{node.text[:64]} has no list of token ids", node.offset, "Write <[5]>, <[1-5,9]>, <[^5]> or <[*]>")
    if len(digits) > 10 or int(digits) > _MAX_TOKEN:
        text.fail(f"the token id {digits[:12]} is too large", node.offset)
    return int(digits)
