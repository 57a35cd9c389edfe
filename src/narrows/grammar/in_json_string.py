"""A grammar's texts as they stand between the quotes of a JSON string.

Each character has one spelling: its escape where JSON requires one (the short one if there is one), else itself
(`json_text`'s "minimal"). All that JSON requires an escape for are single bytes of UTF-8, and other bytes stand for
themselves. So a grammar is respelled byte by byte. No spelling is the beginning of another one, and different bytes
have different spellings. So what a text is read as, what two rules share and what names are equal stays the same.

Cost: linear in the nodes. The stack is explicit.
"""

from __future__ import annotations

from narrows.errors import UnsupportedError
from narrows.grammar import ir
from narrows.grammar.json_text import CONTROLS, minimal

_ESCAPED = {byte: minimal(chr(byte)) for byte in (*range(CONTROLS[0], CONTROLS[1] + 1), 0x22, 0x5C)}
"""Byte -> its escape. Bytes that are not here stand for themselves."""
_ITSELF = ((1 << 256) - 1) & ~sum(1 << byte for byte in _ESCAPED)
_REFUSED: dict[type, str] = {
    ir.Distinct: "keys that may not come twice",
    ir.Guard: "keys that depend on other keys",
    ir.Counted: "a bound on tokens",
    ir.Marker: "a special token",
    ir.Token: "a token by its id",
    ir.Substrings: "parts of a text",
}


def in_json_string(module: ir.Module) -> ir.Module:
    """The module of the spellings, without the quotes. Raises UnsupportedError `input_unsupported` for what has none,
    such as special tokens."""
    done: dict[int, ir.Node] = {}
    rules = {name: _spelled(node, done) for name, node in module.rules.items()}
    places = {id(done[old]): place for old, place in module.places.items() if old in done}
    return ir.Module(rules, module.start, module.sources, places, module.longest, module.marked)


def spelled(data: bytes) -> bytes:
    """Bytes as they are spelled."""
    return b"".join(_ESCAPED.get(byte) or bytes((byte,)) for byte in data)


def _byte(bits: int) -> ir.Node:
    escapes = tuple(text for byte, text in _ESCAPED.items() if bits >> byte & 1)
    if not escapes:
        return ir.ByteSet(bits)
    itself = bits & _ITSELF
    return ir.alt(*([ir.ByteSet(itself)] if itself else []), ir.Literals(escapes))


_ANYTHING = ir.Repeat(_byte(ir.ANY_BYTE.bits))


def _spelled(root: ir.Node, done: dict[int, ir.Node]) -> ir.Node:
    """The node respelled. Shared nodes are visited once."""
    todo: list[tuple[ir.Node, bool]] = [(root, False)]
    while todo:
        node, ready = todo.pop()
        if id(node) in done:
            continue
        parts = _parts(node)
        if parts and not ready:
            todo.append((node, True))
            todo += [(part, False) for part in parts]
        else:
            done[id(node)] = _made(node, [done[id(part)] for part in parts])
    return done[id(root)]


def _parts(node: ir.Node) -> tuple[ir.Node, ...]:
    if isinstance(node, (ir.Seq, ir.Alt, ir.And)):
        return node.items
    if isinstance(node, (ir.Repeat, ir.Not, ir.Lexeme)):
        return (node.item,)
    return ()


def _made(node: ir.Node, parts: list[ir.Node]) -> ir.Node:
    """The node from its respelled parts."""
    if isinstance(node, (ir.Seq, ir.Alt, ir.And)):
        return type(node)(tuple(parts))
    if isinstance(node, ir.Repeat):
        return ir.Repeat(parts[0], node.min, node.max)
    if isinstance(node, ir.Not):
        return ir.And((_ANYTHING, ir.Not(parts[0])))  # among the spellings
    if isinstance(node, ir.Lexeme):
        return ir.Lexeme(parts[0])
    if isinstance(node, ir.Bytes):
        return ir.Bytes(spelled(node.data))
    if isinstance(node, ir.ByteSet):
        return _byte(node.bits)
    if isinstance(node, ir.Literals):
        return ir.Literals(tuple(map(spelled, node.options)))
    if isinstance(node, ir.Ref):
        return node
    raise UnsupportedError(
        f"the grammar has {_REFUSED[type(node)]}, which cannot stand in a string",
        code="input_unsupported",
        hint="Leave it out",
    )
