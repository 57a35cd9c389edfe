"""The schema as a document: read under limits, and places in it found by JSON pointer, `$ref`, `$id` and `$anchor`.

Costs: reading walks the whole document once (about 0.1 us a node) to bound its size and depth before anything else touches
it; a reference costs its own length. Nothing here recurses.

Sources: RFC 6901 (JSON Pointer), JSON Schema 2020-12 core, sections 8.2 (identifiers) and 8.2.3 (references).
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any
from urllib.parse import unquote, urljoin

from narrows.errors import GrammarError, LimitError
from narrows.grammar.json_schema.report import invalid, over_limit
from narrows.limits import Limits


class Written(Decimal):
    """A number with a fraction or an exponent, and how the schema's text writes it."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Written:
        self = super().__new__(cls, text)
        self.text = text
        return self


class Site:
    """A place that holds a schema: the schema and its JSON pointer. One object per pointer of a document."""

    __slots__ = ("facts", "pointer", "schema")

    def __init__(self, pointer: str, schema: Any) -> None:
        self.pointer = pointer
        self.schema = schema
        self.facts: Any = None  # what `facts.read` found, kept

    def at(self, keyword: str) -> str:
        """The pointer of a keyword of this schema."""
        return f"{self.pointer}/{escape(keyword)}"

    def __repr__(self) -> str:
        return f"Site({self.pointer!r})"


class Document:
    """One schema document. `site(pointer, schema)` interns places; `resolve` follows a reference."""

    __slots__ = ("_anchors", "_has_ids", "_limits", "_resources", "_sites", "root")

    def __init__(self, schema: object, limits: Limits) -> None:
        if isinstance(schema, (str, bytes, bytearray)):
            schema = parse(schema, limits)
        if not isinstance(schema, (dict, bool)):
            raise invalid("", f"a JSON Schema is an object or a boolean, not {kind_of(schema)}")
        self._limits = limits
        self._has_ids = _measure(schema, limits)
        self._sites: dict[str, Site] = {}
        self._resources: dict[str, str] | None = None
        self._anchors: dict[tuple[str, str], str] = {}
        self.root = self.site("", schema)

    def site(self, pointer: str, schema: Any) -> Site:
        known = self._sites.get(pointer)
        if known is None:
            if not isinstance(schema, (dict, bool)):
                raise invalid(pointer, f"a schema is an object or a boolean, not {kind_of(schema)}")
            known = self._sites[pointer] = Site(pointer, schema)
            if len(self._sites) > self._limits.schema_places:
                raise over_limit("schema_places", self._limits.schema_places, "too many sub-schemas", pointer)
        return known

    def sites(self) -> list[Site]:
        """Every place that was reached, in that order."""
        return list(self._sites.values())

    def resolve(self, reference: str, site: Site, keyword: str) -> Site | None:
        """The place that a `$ref` at `site` names; None if it lies outside this document."""
        where = site.at(keyword)
        if not self._has_ids:
            if not reference.startswith("#"):
                return None
            return self._within("", reference[1:], where)
        resources = self._index()
        base, fragment_base = self._base(site.pointer)
        try:
            target, _, fragment = urljoin(base, reference).partition("#")
        except ValueError as error:
            raise invalid(where, f"the reference is no URI: {error}") from None
        if reference.startswith("#"):  # urljoin drops an empty base
            return self._within(fragment_base, reference[1:], where)
        if target not in resources:
            return None
        return self._within(resources[target], fragment, where)

    def _within(self, resource: str, fragment: str, where: str) -> Site:
        """`fragment` (still percent-encoded) in the resource whose root has this pointer."""
        try:
            fragment = unquote(fragment, errors="strict")
        except UnicodeDecodeError as error:
            raise invalid(where, "the reference is not percent-encoded UTF-8") from error
        if fragment and not fragment.startswith("/"):
            self._index()
            pointer = self._anchors.get((resource, fragment))
            if pointer is None:
                raise invalid(where, f"no $anchor {fragment!r} in the schema")
            fragment, resource = "", pointer
        pointer = resource + "".join("/" + escape(unescape(token)) for token in fragment.split("/")[1:])
        known = self._sites.get(pointer)
        if known is not None:
            return known
        node, missing = self._look_up(pointer)
        if missing is not None:
            raise invalid(where, f"the reference names {pointer!r}, and there is no {missing!r}")
        if not isinstance(node, (dict, bool)):
            raise invalid(where, f"the reference names {pointer!r}, which is {kind_of(node)} and no schema")
        return self.site(pointer, node)

    def _look_up(self, pointer: str) -> tuple[Any, str | None]:
        """(value, None), or (anything, the token that is missing)."""
        node: Any = self.root.schema
        for token in pointer.split("/")[1:]:
            name = unescape(token)
            if isinstance(node, dict) and name in node:
                node = node[name]
            elif (
                isinstance(node, list)
                and name.isascii()
                and name.isdigit()
                and len(name) < 10
                and int(name) < len(node)
            ):
                node = node[int(name)]
            else:
                return None, name
        return node, None

    # Identifiers: only documents that have any pay for them.

    def _base(self, pointer: str) -> tuple[str, str]:
        """(base URI, pointer of the resource root) for a place: that of the nearest `$id` above it."""
        node: Any = self.root.schema
        base, root, here = "", "", ""
        if isinstance(node, dict) and isinstance(node.get("$id"), str):
            base = _join(base, node["$id"])
        for token in pointer.split("/")[1:]:
            here += "/" + token
            node = node[int(unescape(token))] if isinstance(node, list) else node[unescape(token)]
            if isinstance(node, dict) and isinstance(node.get("$id"), str) and not node["$id"].startswith("#"):
                base, root = _join(base, node["$id"]), here
        return base, root

    def _index(self) -> dict[str, str]:
        """Base URI -> pointer of each resource; fills `_anchors` on the way."""
        if self._resources is not None:
            return self._resources
        resources: dict[str, str] = {"": ""}
        stack: list[tuple[Any, str, str, str]] = [(self.root.schema, "", "", "")]
        while stack:
            node, pointer, base, root = stack.pop()
            if isinstance(node, list):
                stack.extend((item, f"{pointer}/{i}", base, root) for i, item in enumerate(node))
            elif isinstance(node, dict):
                identifier = node.get("$id")
                if isinstance(identifier, str):
                    if identifier.startswith("#"):  # draft 6 and 7: an anchor
                        self._anchors.setdefault((root, identifier[1:]), pointer)
                    else:
                        base, root = _join(base, identifier), pointer
                        resources.setdefault(base, pointer)
                anchor = node.get("$anchor")
                if isinstance(anchor, str):
                    self._anchors.setdefault((root, anchor), pointer)
                stack.extend(
                    (item, f"{pointer}/{escape(name)}", base, root)
                    for name, item in node.items()
                    if isinstance(item, (dict, list)) and name not in ("enum", "const", "examples", "default")
                )
        self._resources = resources
        return resources


def _join(base: str, identifier: str) -> str:
    """The base URI that an `$id` sets. One that is no URI sets none."""
    try:
        return urljoin(base, identifier).partition("#")[0]
    except ValueError:
        return base


def escape(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1") if "~" in token or "/" in token else token


def unescape(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~") if "~" in token else token


def kind_of(value: object) -> str:
    """The JSON name of a Python value's kind, for messages."""
    if value is None:
        return "null"
    names = ((bool, "a boolean"), (str, "a string"), ((int, float, Decimal), "a number"), (dict, "an object"))
    for types, name in names:
        if isinstance(value, types):
            return name
    return "an array" if isinstance(value, (list, tuple)) else f"a Python {type(value).__name__}"


def parse(text: str | bytes | bytearray, limits: Limits) -> Any:
    """A schema given as JSON text. Fractions are read as decimals, so that bounds keep all their digits."""
    if isinstance(text, (bytes, bytearray)):
        if len(text) > limits.schema_bytes:
            raise over_limit("schema_bytes", limits.schema_bytes, f"the schema has {len(text):,} bytes")
        try:
            text = bytes(text).decode("utf-8")
        except UnicodeDecodeError as error:
            raise GrammarError("the schema is not UTF-8", code="schema_invalid", offset=error.start) from error
    elif len(text) > limits.schema_bytes:
        raise over_limit("schema_bytes", limits.schema_bytes, f"the schema has {len(text):,} characters")
    if _bracket_depth(text) > limits.schema_depth:
        raise _too_deep(limits)
    try:
        return json.loads(text, parse_float=Written, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise GrammarError(
            f"the schema is not JSON: {error.msg}", code="schema_invalid", line=error.lineno, column=error.colno
        ) from error
    except RecursionError:
        raise _too_deep(limits) from None
    except GrammarError:
        raise
    except (ValueError, ArithmeticError) as error:  # a number beyond what Python reads
        raise GrammarError(f"the schema holds a number that cannot be read: {error}", code="schema_invalid") from error


def _too_deep(limits: Limits) -> LimitError:
    return over_limit("schema_depth", limits.schema_depth, "the schema is nested too deeply")


def _no_constant(name: str) -> Any:
    raise GrammarError(f"{name} is not JSON", code="schema_invalid")


def _bracket_depth(text: str) -> int:
    """The deepest nesting of brackets outside strings. Runs before the parser, which recurses."""
    outside = "".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2])
    brackets = outside.encode("ascii", "ignore").translate(None, _NO_BRACKET)
    depth = deepest = 0
    for bracket in brackets:
        if bracket in b"[{":
            depth += 1
            if depth > deepest:
                deepest = depth
        else:
            depth -= 1
    return deepest


_NO_BRACKET = bytes(b for b in range(256) if b not in b"[]{}")


def _measure(schema: Any, limits: Limits) -> bool:
    """Bounds size and depth, level by level; refuses what is not JSON. Says whether any `$id` is in use."""
    size, depth, has_ids = 0, 0, False
    level: list[Any] = [schema]
    while level:
        depth += 1
        if depth > limits.schema_depth + 1:  # the scalars inside the deepest container are not a level of nesting
            raise _too_deep(limits)
        below: list[Any] = []
        for node in level:
            kind = type(node)
            if kind is str:
                size += len(node) + 2
                if not node.isascii() and _has_surrogate(node):
                    raise _lone_surrogate(schema)
            elif kind is dict:
                size += 2
                for name, value in node.items():
                    if type(name) is not str:
                        raise invalid("", f"the schema has a key that is {kind_of(name)}; JSON keys are strings")
                    size += len(name) + 4
                    if not name.isascii() and _has_surrogate(name):
                        raise _lone_surrogate(schema)
                    if value is not True and value is not False and value is not None:
                        below.append(value)
                if "$id" in node and isinstance(node["$id"], str):
                    has_ids = True
            elif kind is list or kind is tuple:
                size += 2 + len(node)
                below.extend(node)
            else:
                size += 4
            if size > limits.schema_bytes:
                raise over_limit("schema_bytes", limits.schema_bytes, "the schema is too large")
        level = below
    return has_ids


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _lone_surrogate(schema: Any) -> GrammarError:
    """The refusal of half a surrogate pair, with its place (of the object, for a key)."""
    stack: list[tuple[Any, str]] = [(schema, "")]
    while stack:
        node, pointer = stack.pop()
        if isinstance(node, str) and _has_surrogate(node):
            break
        if isinstance(node, dict):
            if any(_has_surrogate(name) for name in node):
                break
            stack.extend((item, f"{pointer}/{escape(name)}") for name, item in node.items())
        elif isinstance(node, (list, tuple)):
            stack.extend((item, f"{pointer}/{k}") for k, item in enumerate(node))
    return invalid(pointer, "a string holds half of a surrogate pair, which is no character")
