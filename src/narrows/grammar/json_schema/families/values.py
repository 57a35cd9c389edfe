"""`enum` and `const`, and how a literal JSON value is spelled.

A string is spelled as JSON writers spell it: raw, and, if it has characters outside ASCII, also with those as \\uXXXX
(`json.dumps` with and without `ensure_ascii`). An integer has one spelling. Any other number may be written as the
schema writes it, without exponent (`0.0000001`), as an integer where it has no fraction, as `json.dumps` writes it
(`1.0`, `1e-07`), and with its exponent as JavaScript and people write it (`1e-7`, `1e+22`, `1e22`). Keys of a literal
object come in the order that the schema has. Cost: about a microsecond an option, whatever their number; some five for
a number with a fraction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from narrows.grammar import ir
from narrows.grammar.json_schema.document import Written, kind_of
from narrows.grammar.json_schema.equality import decimal_of
from narrows.grammar.json_schema.facts import Values
from narrows.grammar.json_schema.reading import Family, Reading
from narrows.grammar.json_schema.report import invalid
from narrows.grammar.json_schema.spelling.spelling import Spelling
from narrows.grammar.work import Work

MOST_DIGITS = 40
"""Of a number that is also written without exponent."""


def _read(reading: Reading) -> None:
    schema = reading.schema
    if "enum" in schema:
        options = schema["enum"]
        if not isinstance(options, (list, tuple)):
            raise invalid(reading.at("enum"), f"enum is an array of values, not {kind_of(options)}")
        reading.work.spend(len(options) // 32)
        if not options:
            reading.add_impossible(reading.at("enum"), "an empty enum allows nothing")
        _only_json(options, reading.at("enum"))
        reading.add_values(Values(reading.at("enum"), list(options)))
    if "const" in schema:
        _only_json(schema["const"], reading.at("const"))
        reading.add_values(Values(reading.at("const"), [schema["const"]]))


def _only_json(root: Any, where: str) -> None:
    """Raises for what JSON cannot say, a set or NaN: such a value would be left out in silence."""
    stack = [root]
    while stack:
        value = stack.pop()
        if value is None or type(value) is int or isinstance(value, (str, bool)):
            continue
        if isinstance(value, (list, tuple)):
            stack.extend(value)
        elif isinstance(value, dict):
            stack.extend(value.values())
        elif decimal_of(value) is None:
            shown = repr(value) if isinstance(value, (float, Decimal)) else kind_of(value)
            raise invalid(where, f"{shown} is not a JSON value")


def spell_number(value: int | float | Decimal, where: str) -> list[bytes]:
    exact = decimal_of(value)
    if exact is None:
        raise invalid(where, f"{value!r} is not a JSON number")
    if isinstance(value, int):
        try:
            return [str(value).encode()]
        except ValueError:  # beyond sys.get_int_max_str_digits()
            raise invalid(where, "an integer of thousands of digits cannot be written") from None
    forms: dict[str, None] = {}
    is_short = _is_short(exact)
    if is_short and exact == exact.to_integral_value():
        forms[str(int(exact))] = None
    if isinstance(value, Written):
        forms[value.text] = None
        forms[value.text.replace("E", "e")] = None
    elif isinstance(value, Decimal):
        forms[str(value).replace("E", "e")] = None
    nearest = float(exact) if is_short else 0.0
    if isinstance(value, float) or (is_short and Decimal(repr(nearest)) == exact):
        forms[repr(value if isinstance(value, float) else nearest)] = None  # as json.dumps writes it: 1.0, 1e-07, 1e+22
    if is_short:
        forms[_plain(exact)] = None
    for form in list(forms):
        mantissa, e, exponent = form.partition("e")
        if e and exponent.lstrip("+-").isdigit():
            sign = "-" if exponent.startswith("-") else ""
            shortest = exponent.lstrip("+-").lstrip("0") or "0"
            forms[f"{mantissa}e{sign}{shortest}"] = None  # 1e-7 and 1e22; JavaScript writes 1e+22
            forms[f"{mantissa}e{sign or '+'}{shortest}"] = None
    return [form.encode() for form in forms]


def _plain(exact: Decimal) -> str:
    """Without exponent, and without needless zeros."""
    digits = f"{exact:f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def spell_plainly(value: int | float | Decimal, where: str) -> bytes | None:
    """The spelling that all equal numbers share: no exponent, no needless zeros. None for a number with too many
    digits."""
    if isinstance(value, int):
        return spell_number(value, where)[0]
    exact = decimal_of(value)
    if exact is None or not _is_short(exact):
        return None
    return _plain(exact if exact else abs(exact)).encode()


def _is_short(exact: Decimal) -> bool:
    return -MOST_DIGITS < exact.adjusted() < MOST_DIGITS and len(exact.as_tuple().digits) <= MOST_DIGITS


def spell_scalar(value: Any, spelling: Spelling, where: str) -> list[bytes] | None:
    """The spellings of null, a boolean, a number or a string; None for arrays and objects."""
    if isinstance(value, str):
        return spelling.literal(value)
    if value is None or isinstance(value, bool):
        return list(spelling.constants[value])
    if isinstance(value, (int, float, Decimal)):
        return spell_number(value, where)
    if isinstance(value, (list, tuple, dict)):
        return None
    raise invalid(where, f"{kind_of(value)} is not a JSON value")


def literal_node(root: Any, spelling: Spelling, where: str, work: Work) -> ir.Node:
    """One literal value, with gaps where JSON allows them. An explicit stack: values are as deep as the schema is."""
    items: list[ir.Node] = []
    text = bytearray()

    def flush() -> None:
        if text:
            items.append(ir.Bytes(bytes(text)))
            text.clear()

    def gap() -> None:
        if spelling.gap is not ir.EMPTY:
            flush()
            items.append(spelling.gap)

    stack: list[Any] = [_Value(root)]
    while stack:
        work.spend(2)
        step = stack.pop()
        if isinstance(step, bytes):
            text += step
        elif step is _GAP:
            gap()
        elif isinstance(step, _Key):
            node = spelling.key(step.key)
            if isinstance(node, ir.Bytes):
                text += node.data
            else:
                flush()
                items.append(node)
        else:
            value = step.value
            options = spell_scalar(value, spelling, where)
            if isinstance(value, str) and spelling.strings_apart:
                flush()
                items.append(spelling.whole(ir.Literals(tuple(options or ()))))
            elif options is not None and len(options) == 1:
                text += options[0]
            elif options is not None:
                flush()
                items.append(ir.Literals(tuple(options)))
            else:
                stack.extend(reversed(_parts(value, spelling, where)))
    flush()
    return ir.seq(*items)


def whole_text(
    root: Any, spelling: Spelling, order: Callable[[Sequence[str]], Sequence[str]], where: str, work: Work
) -> bytes | None:
    """One literal value as the one text that all equal values share, where `order` puts keys in order; None for one
    that has no such text (`spell_plainly`)."""
    text = bytearray()
    stack: list[Any] = [root]
    while stack:
        work.spend(2)
        value = stack.pop()
        if isinstance(value, _Text):
            text += value.data
        elif isinstance(value, dict):
            text += b"{"
            todo: list[Any] = []
            for k, key in enumerate(order(list(value))):
                written = spelling.literal(key)[0] + spelling.colon_bytes
                todo += [_Text((spelling.comma_bytes if k else b"") + written), value[key]]
            stack += reversed([*todo, _Text(b"}")])
        elif isinstance(value, (list, tuple)):
            text += b"["
            todo = []
            for k, item in enumerate(value):
                todo += [_Text(spelling.comma_bytes), item] if k else [item]
            stack += reversed([*todo, _Text(b"]")])
        elif isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
            spelled = spell_plainly(value, where)
            if spelled is None:
                return None
            text += spelled
        else:
            text += (spell_scalar(value, spelling, where) or [b""])[0]
    return bytes(text)


class _Text:
    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class _Value:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class _Key:
    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        self.key = key


_GAP = object()


def _parts(value: Any, spelling: Spelling, where: str) -> list[Any]:
    """An array or object as bytes, gaps and values to write."""
    comma = spelling.comma_bytes
    parts: list[Any]
    if isinstance(value, dict):
        parts = [b"{", _GAP]
        for k, (name, member) in enumerate(value.items()):
            if not isinstance(name, str):
                raise invalid(where, "a key is a string")
            parts += [comma, _GAP] if k else []
            parts += [_Key(name), _Value(member), _GAP]
        return [*parts, b"}"]
    parts = [b"[", _GAP]
    for k, item in enumerate(value):
        parts += [comma, _GAP] if k else []
        parts += [_Value(item), _GAP]
    return [*parts, b"]"]


FAMILY = Family(("enum", "const"), _read)
