"""A format's grammar in a notation for readers: what `narrows formats show` and the pages of docs/formats print.

    calls = call-object ("\\n"? call-object)*
    call-object = '<tool_call>' "\\n{\\"name\\": \\"" name ... '</tool_call>'

Double quotes: these characters. Single quotes: a marker, the special token of this name where the vocabulary has one.
`text`, `name`, `gap` and `json-object` stand for any text, a name, the whitespace that JSON allows and a JSON object;
where tools are given, their names and schemas take the place of names and values. It is printed from the rules that are
compiled, so it says what is enforced. Cost: a few milliseconds.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from narrows.formats.parameters import _BLANKS
from narrows.formats.rule_writer import NAME
from narrows.grammar import ir, utf8
from narrows.grammar.free_text import ANYTHING, TEXT
from narrows.grammar.json_schema.spelling.spelling import spelling

if TYPE_CHECKING:
    from narrows.formats.format import Format

_VALUES = ("value", "object", "array")
"""Last words of the names of rules that spell any value, in JSON or in a format's own literals: not printed."""
_ARGUMENTS = "tool/any/arguments"
_KNOWN: dict[ir.Node, str] = {
    TEXT: "text",
    NAME: "name",
    ANYTHING: "bytes",
    _BLANKS: "blanks",
    utf8.node(utf8.ANY): "character",
    spelling("bounded", "all").gap: "gap",
}
_BEYOND_ASCII = utf8.node(utf8.ANY).items[1:]  # type: ignore[union-attr]
_WIDTH = 110


def grammar_text(fmt: Format) -> str:
    """The rules of `fmt.grammar(None, "auto")` that are the format's own, one a paragraph."""
    rules = fmt.grammar(None, tool_choice="auto").module.rules
    printed: dict[str, str] = {}
    todo = ["root"]
    while todo:
        name = todo.pop()
        if name in printed or name not in rules:
            continue
        wanted: list[str] = []
        printed[name] = _wrapped(f"{_title(name)} = {_text(rules[name], wanted, outer=True)}")
        todo += reversed(wanted)
    return "\n".join(printed.values())


def _title(rule: str) -> str:
    name = rule.removeprefix("tool/any/")
    words = "".join(char if char.isalnum() else " " for char in name).split()
    return "-".join(words)


def _value(rule: str) -> str | None:
    """What to call a rule that spells any value; None for other rules."""
    first, _, last = rule.partition("/")[0].partition(" ")[0], "", rule.rpartition("/")[2]
    return f"{first}-{last}" if last in _VALUES and not rule.startswith("tool/") else None


def _text(node: ir.Node, wanted: list[str], outer: bool = False) -> str:
    """The node, in brackets where it stands among others (`outer`: alone). Recursive: as deep as a family's code nests
    its nodes."""
    node = node.item if isinstance(node, ir.Distinct) else node
    if node in _KNOWN:
        return _KNOWN[node]
    if isinstance(node, ir.Bytes):
        return _quoted(node.data)
    if isinstance(node, ir.Marker):
        return "'" + json.dumps(node.text, ensure_ascii=False)[1:-1].replace('\\"', '"') + "'"
    if isinstance(node, ir.Literals):
        return _in_brackets(
            " | ".join(_quoted(o) if o else "nothing" for o in node.options), outer or len(node.options) == 1
        )
    if isinstance(node, ir.ByteSet):
        return _set(node)
    if isinstance(node, ir.Seq):
        items: list[str] = []
        for item in _joined(node):
            text = _text(item, wanted)
            if items and text == items[-1] + "*":
                items[-1] += "+"
            elif text != '""?':
                items.append(text)
        return _in_brackets(" ".join(items) or "nothing", outer or len(items) == 1)
    if isinstance(node, ir.Alt) and node.items[1:] == _BEYOND_ASCII and isinstance(node.items[0], ir.ByteSet):
        left_out = ir.ByteSet(~node.items[0].bits & ((1 << 128) - 1))
        return f"character but {_set(left_out)}" if outer else f"(character but {_set(left_out)})"
    if isinstance(node, ir.Alt):
        return _in_brackets(
            " | ".join(_text(item, wanted) for item in node.items) or "never", outer or len(node.items) == 1
        )
    if isinstance(node, ir.Repeat):
        times = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((node.min, node.max))
        bounds = times or f"{{{node.min},{'' if node.max is None else node.max}}}"
        return _text(node.item, wanted) + bounds
    if isinstance(node, ir.And):
        return _in_brackets(
            _text(node.items[0], wanted) + "".join(_but(item, wanted) for item in node.items[1:]), outer
        )
    if isinstance(node, ir.Not):
        return f"not {_text(node.item, wanted)}"
    if isinstance(node, ir.Lexeme):
        return _text(node.item, wanted, outer)
    if isinstance(node, ir.Ref):
        if node.name == _ARGUMENTS:
            return "json-object"
        if (value := _value(node.name)) is not None:
            return value
        wanted.append(node.name)
        return _title(node.name)
    return "token"


def _but(item: ir.Node, wanted: list[str]) -> str:
    """What a text must not be."""
    if isinstance(item, ir.Not):
        parts = item.item.items if isinstance(item.item, ir.Seq) else ()
        if len(parts) == 3 and isinstance(parts[1], ir.Literals) and parts[2] == ANYTHING:
            shown = ", ".join(_quoted(option) for option in parts[1].options)
            if parts[0] == ANYTHING:
                return f" without {shown}"
            if parts[0] == _BLANKS:
                return f" not beginning with {shown}"
        return f" but not {_text(item.item, wanted)}"
    return f" and {_text(item, wanted)}"


def _joined(node: ir.Seq) -> list[ir.Node]:
    """The items, with nested sequences opened up and neighbouring characters put together."""
    items: list[ir.Node] = []
    todo = list(reversed(node.items))
    while todo:
        item = todo.pop()
        item = item.item if isinstance(item, ir.Distinct) else item
        if isinstance(item, ir.Lexeme) and isinstance(item.item, (ir.Seq, ir.Bytes)):
            item = item.item
        if isinstance(item, ir.Seq) and item not in _KNOWN:
            todo += reversed(item.items)
        elif isinstance(item, ir.Bytes) and items and isinstance(items[-1], ir.Bytes):
            items[-1] = ir.Bytes(items[-1].data + item.data)
        else:
            items.append(item)
    return [item for item in items if item != ir.EMPTY]


def _in_brackets(text: str, plain: bool) -> str:
    return text if plain else f"({text})"


def _quoted(data: bytes) -> str:
    return json.dumps(data.decode("utf-8", "replace"), ensure_ascii=False)


def _set(node: ir.ByteSet) -> str:
    """As in a regular expression: runs of three and more as ranges."""
    members = [b for b in range(256) if node.bits >> b & 1]
    parts: list[str] = []
    while members:
        length = next((n for n, b in enumerate(members) if b != members[0] + n), len(members))
        run, members = members[:length], members[length:]
        shown = [_byte(b) for b in (run if length < 3 else (run[0], run[-1]))]
        parts.append(("-" if length >= 3 else "").join(shown))
    return f"[{''.join(parts)}]"


def _byte(b: int) -> str:
    if b >= 127 or (b < 32 and b not in (9, 10, 13)):
        return f"\\x{b:02x}"
    return "\\" + chr(b) if chr(b) in "\\]-^" else json.dumps(chr(b))[1:-1]


def _wrapped(line: str) -> str:
    """The rule in lines of at most `_WIDTH`, broken at spaces outside of quotes."""
    lines = [""]
    word, quote = "", ""
    for char in line + " ":
        if char == " " and not quote:
            if lines[-1] and len(lines[-1]) + len(word) + 1 > _WIDTH:
                lines.append("   ")
            lines[-1] += (" " if lines[-1] else "") + word
            word = ""
            continue
        if char in "\"'" and (not quote or (quote == char and not word.endswith("\\"))):
            quote = "" if quote else char
        word += char
    return "\n".join(lines)
