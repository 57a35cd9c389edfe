"""The schema as a document: read under limits, and places in it found by JSON pointer and by name (identifiers.py).

Costs: reading walks the whole document once (about 0.2 us a node) to bound its size and depth before anything else
touches it; a reference costs its own length, a place the length of its pointer. Nothing here recurses.

Sources: RFC 6901 (JSON Pointer), JSON Schema 2020-12 core, sections 8.2 (identifiers) and 8.2.3 (references).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Hashable, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from narrows.arguments import quoted
from narrows.errors import GrammarError, InputError, LimitError
from narrows.grammar.json_schema.identifiers import (
    RECURSIVE,
    START,
    Draft,
    DynamicScope,
    Index,
    Scope,
    enter,
    index,
    join,
    scope_of,
)
from narrows.grammar.json_schema.published import documents, is_published
from narrows.grammar.json_schema.report import invalid, over_limit
from narrows.grammar.work import Work
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
    """A place that holds a schema: the schema and its JSON pointer. One object per pointer of a document, and per
    dynamic scope, where that decides where a reference leads."""

    __slots__ = ("facts", "negates", "negation", "otherwise", "pointer", "schema", "scope")

    def __init__(self, pointer: str, schema: Any, scope: DynamicScope = ()) -> None:
        self.pointer = pointer
        self.schema = schema
        self.scope = scope
        self.facts: Any = None  # the result of `keywords.read`
        self.negates: Site | None = None  # the schema whose negation this is; then it has none of its own
        self.negation: Site | None = None  # its negation, once `Document.negation` has made it
        self.otherwise: Site | None = None  # what holds where this does not, if that is one conjunction of facts

    def at(self, keyword: str) -> str:
        """The pointer of a keyword of this schema."""
        return f"{self.pointer}/{escape(keyword)}"

    def __repr__(self) -> str:
        return f"Site({self.pointer!r})"


class Document:
    """One schema document. `site(pointer, schema)` interns places; `resolve` follows a reference."""

    __slots__ = (
        *(
            "_alike",
            "_alike_inside",
            "_derived",
            "_index",
            "_roots",
            "_says_unevaluated",
            "_scope",
            "_several",
            "_sites",
        ),
        "_structures",
        *("foreign_types", "lenient", "root", "work"),
    )

    def __init__(
        self,
        schema: object,
        limits: Limits | Work,
        *,
        resources: Mapping[str, object] | None = None,
        foreign_types: bool = False,
        lenient: bool = False,
    ) -> None:
        """`resources`: other documents by their addresses. The pointers of their places begin with the address and `#`.

        `foreign_types`: types may have the names of other languages (families/types.py).

        `lenient`: for callers that refuse nothing and only ask which values to expect. A value that is not a schema
        counts as `true`, and a keyword with a wrong value asserts nothing.
        """
        self.foreign_types = foreign_types
        self.lenient = lenient
        self.work = Work.of(limits)
        if isinstance(schema, (str, bytes, bytearray)):
            schema = parse(schema, self.work)
        if not isinstance(schema, (dict, bool)):
            raise invalid("", f"a JSON Schema is an object or a boolean, not {kind_of(schema)}")
        self._scope: Scope | None = None  # the one scope, if nothing has an identifier
        has_ids, self._says_unevaluated, refers, published = _measure(schema, self.work, lenient)
        self._roots: dict[str, tuple[Any, Scope]] = {"": (schema, START)}
        for address, resource in (resources or {}).items():
            also_refers, others = self._add_resource(address, resource)
            refers |= also_refers
            published |= others
        for address, resource in documents(published).items() if published else ():
            if f"{address}#" not in self._roots:
                refers |= self._add_resource(address, resource)[0]
        if not has_ids and len(self._roots) == 1:
            self._scope = enter(schema, "", None)
        self._sites: dict[str | tuple[str, DynamicScope], Site] = {}
        self._derived: dict[Hashable, Site] = {}
        self._alike: dict[Hashable, Site] = {}
        """By place and by what is written there: the first place that says the same."""
        self._alike_inside: dict[Site, Hashable] = {}
        self._structures: dict[Hashable, int] = {}
        """By the id of a part of the schema, and by its content: a number."""
        self._index: Index | None = None
        self._several: dict[str, list[str]] = {}
        """The dynamic names that stand for several places, by the pointers of the schemas that set them."""
        if refers and self._scope is None:
            self._index = index(self._roots, self.work, every=True)
            self._several = self._index.several()
        self.root = self.site("", schema)

    def _add_resource(self, address: str, schema: object) -> tuple[bool, set[str]]:
        """Returns whether it refers to anything by a dynamic name, and the published schemas that it refers to."""
        name = quoted(address)
        if not isinstance(address, str) or not _is_absolute(address):
            raise InputError(f"{name} is not an absolute URI", code="resources_invalid", pointer="/resources")
        if isinstance(schema, (str, bytes, bytearray)):
            schema = parse(schema, self.work)
        if not isinstance(schema, (dict, bool)):
            raise invalid(f"{address}#", f"a JSON Schema is an object or a boolean, not {kind_of(schema)}")
        _, says_unevaluated, refers, published = _measure(schema, self.work, self.lenient)
        self._says_unevaluated |= says_unevaluated
        base = address.partition("#")[0]
        draft = enter(self._roots[""][0], "", None).draft  # unless the resource names one
        self._roots[f"{base}#"] = schema, Scope(base, f"{base}#", draft)
        return refers, published

    def site(self, pointer: str, schema: Any, scope: DynamicScope = ()) -> Site:
        """The place; `scope`: the dynamic scope that it is reached in."""
        if self._several:
            scope = self._entered(pointer, scope)
        key = (pointer, scope) if scope else pointer
        known = self._sites.get(key)
        if known is None:
            if not isinstance(schema, (dict, bool)):
                if not self.lenient:
                    raise invalid(pointer, f"a schema is an object or a boolean, not {kind_of(schema)}")
                schema = True
            self.work.spend(5 + len(pointer) // 64)  # a pointer takes memory, too
            known = self._sites[key] = Site(pointer, schema, scope)
            bound = self.work.limits.schema_places
            if len(self._sites) > bound:
                raise over_limit("schema_places", bound, "too many sub-schemas", pointer)
        return known

    def _entered(self, pointer: str, scope: DynamicScope) -> DynamicScope:
        """The dynamic scope after this place was reached: the names stand for what the outermost schema says that has
        them."""
        resource = self._where(pointer)[0].root
        known = {name for name, _ in scope}
        added = [(name, resource) for name in self._several.get(resource, ()) if name not in known]
        self.work.spend(2 + len(scope))
        return tuple(sorted((*scope, *added))) if added else scope

    def derived(self, pointer: str, facts: Any, name: Hashable = None) -> Site:
        """A schema that says this, and does not stand in the document. The pointer is for messages. There is one schema
        of each `name`."""
        self.work.spend(5)
        known = None if name is None else self._derived.get(name)
        if known is not None:
            return known
        site = Site(pointer, True)
        site.facts = facts
        if name is not None:
            self._derived[name] = site
        return site

    def negation(self, site: Site) -> Site:
        """The schema of all values that do not satisfy this one. It is worked out when it is read.

        The negation of a negation is the schema itself, except that it says nothing of keys and items in the sense of
        `unevaluatedProperties`. So where that occurs, it is one of its own, and a third negation is the first one.
        """
        if site.negates is not None and (not self._says_unevaluated or site.negates.negates is not None):
            return site.negates
        if site.negation is None:
            site.negation = self.derived(site.pointer, None)
            site.negation.negates = site
        return site.negation

    def like(self, site: Site) -> Site:
        """The first place that says the same in the same words, where no schema lies in it; or this one. Of a negation,
        the negation of that."""
        negated = site.negates
        if negated is not None:
            first = self.like(negated) if negated.negates is None else negated
            return site if first is negated else self.negation(first)
        if site.facts is None or self._scope is None:  # what a reference leads to may differ
            return site
        if site not in self._alike:
            words = _words(site.schema, self.work) if isinstance(site.schema, dict) else None
            self._alike[site] = site if words is None else self._alike.setdefault(words, site)
        return self._alike[site]

    def same(self, site: Site) -> Hashable:
        """Equal for places at which the same is written, but for titles and descriptions, where that means the same."""
        if self._scope is None or not isinstance(site.schema, dict):
            return site
        if site not in self._alike_inside:
            self._alike_inside[site] = _structure(site.schema, self._structures, self.work)
        return self._alike_inside[site]

    def sites(self) -> list[Site]:
        """Every place that was reached, in that order."""
        return list(self._sites.values())

    def draft(self, site: Site) -> Draft:
        """The draft whose rules hold at a place."""
        return (self._scope or self._where(site.pointer)[0]).draft

    def resolve(self, reference: str, site: Site, keyword: str) -> Site | str:
        """The place that a `$ref` at `site` names, or why it cannot be followed."""
        target = self._resource(reference, site, keyword)
        return target if isinstance(target, str) else self._within(*target, site, keyword)

    def resolve_dynamic(self, reference: str, site: Site) -> Site | str:
        """The same for a `$dynamicRef`."""
        target = self._resource(reference, site, "$dynamicRef")
        if isinstance(target, str):
            return target
        resource, name = target
        if (resource, name) in self._names().dynamic:
            resource = dict(site.scope).get(name, resource)
        return self._within(resource, name, site, "$dynamicRef")

    def resolve_recursive(self, site: Site) -> Site | str:
        """The same for a `$recursiveRef`, which is always to `#`."""
        resource = (self._scope or self._where(site.pointer)[0]).root
        if resource in self._names().recursive:
            resource = dict(site.scope).get(RECURSIVE, resource)
        return self._within(resource, "", site, "$recursiveRef")

    def _where(self, pointer: str) -> tuple[Scope, bool]:
        if self._scope is not None:
            return self._scope, False
        self.work.spend(3 + len(pointer) // 16 + 4 * pointer.count("/"))
        (root, start), tokens = self._tokens(pointer)
        return scope_of(root, tokens, start)

    def _tokens(self, pointer: str) -> tuple[tuple[Any, Scope], list[str]]:
        """The document of a pointer with the scope that it starts with, and the tokens of the pointer in it."""
        root = "" if not pointer or pointer.startswith("/") else pointer.partition("#")[0] + "#"
        return self._roots[root], [unescape(token) for token in pointer[len(root) :].split("/")[1:]]

    def _names(self) -> Index:
        if self._index is None:
            self._index = index(self._roots, self.work)
        return self._index

    def _resource(self, reference: str, site: Site, keyword: str) -> tuple[str, str] | str:
        """(pointer of the schema that has the address, fragment), or why there is none."""
        scope, is_open = self._where(site.pointer)
        if is_open:
            below = "the reference stands below an identifier where no schema is expected"
            return f"{below}, and so what it is relative to is open"
        if not reference or reference.startswith("#"):  # urljoin drops an empty base
            return scope.root, reference[1:]
        self.work.spend(10 + (len(scope.base) + len(reference)) // 16)
        try:
            address, fragment = join(scope.base, reference)
        except ValueError as error:
            raise invalid(site.at(keyword), f"the reference is no URI: {error}") from None
        if self._scope is None and address not in self._names().resources and not self._names().is_whole:
            self._index = index(self._roots, self.work, every=True)  # an identifier inside one that nothing refers to
        if self._scope is not None or address not in self._names().resources:
            return f"the reference {reference[:80]!r} leaves the document"
        resource = self._names().resources[address]
        if resource is None:
            return f"two schemas have the address of the reference {reference[:80]!r}"
        return resource, fragment

    def _within(self, resource: str, fragment: str, site: Site, keyword: str) -> Site:
        """`fragment` (still percent-encoded) in the resource whose root has this pointer, for a reference at `site`."""
        where = site.at(keyword)
        self.work.spend(3 + fragment.count("/") + fragment.count("%") + len(fragment) // 16)
        try:
            fragment = unquote(fragment, errors="strict")
        except UnicodeDecodeError as error:
            raise invalid(where, "the reference is not percent-encoded UTF-8") from error
        if fragment and not fragment.startswith("/"):
            anchors = self._names().anchors
            named = anchors.get((resource, fragment))
            if named is None:
                many = (resource, fragment) in anchors
                raise invalid(where, f"{'two places have the' if many else 'no'} $anchor {fragment!r} in the schema")
            fragment, resource = "", named
        pointer = resource + "".join("/" + escape(unescape(token)) for token in fragment.split("/")[1:])
        known = None if self._several else self._sites.get(pointer)
        if known is not None:
            return known
        node, missing = self._look_up(pointer)
        if missing is not None:
            raise invalid(where, f"the reference names {pointer!r}, and there is no {missing!r}")
        if not isinstance(node, (dict, bool)):
            raise invalid(where, f"the reference names {pointer!r}, which is {kind_of(node)} and no schema")
        return self.site(pointer, node, site.scope)

    def _look_up(self, pointer: str) -> tuple[Any, str | None]:
        """(value, None), or (anything, the token that is missing)."""
        node: Any
        (node, _), names = self._tokens(pointer)
        for name in names:
            if isinstance(node, dict) and name in node:
                node = node[name]
            elif (
                isinstance(node, (list, tuple))
                and name.isascii()
                and name.isdigit()
                and len(name) < 10
                and int(name) < len(node)
            ):
                node = node[int(name)]
            else:
                return None, name
        return node, None


def _is_absolute(address: str) -> bool:
    """Whether it is an address by itself, and names a whole document."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return bool(parts.scheme) and not parts.fragment and "\0" not in address


def _words(schema: dict[str, Any], work: Work) -> Hashable:
    """What a schema says, as a key; None where a schema lies in it."""
    said: list[tuple[str, Hashable]] = []
    for keyword, value in schema.items():
        if keyword in _ANNOTATIONS:
            continue
        items = value if isinstance(value, (list, tuple)) else (value,)
        work.spend(1 + len(items) // 8)
        if len(items) > _MOST_WORDS or any(isinstance(item, (dict, list, tuple)) for item in items):
            return None
        said.append((keyword, (isinstance(value, (list, tuple)), tuple(map(_scalar, items)))))
    return tuple(sorted(said, key=_first))


def _structure(root: Any, known: dict[Hashable, int], work: Work) -> int:
    """A number, the same for all that is written alike. `known`: the numbers so far, to which it adds."""
    todo: list[tuple[Any, bool, bool]] = [(root, False, False)]  # (value, whether it is a value of an enum, is ready)
    while todo:
        value, is_literal, is_ready = todo.pop()
        name = (id(value), is_literal)
        if name in known:
            continue
        inner: list[tuple[str, Any, bool]] = []
        if isinstance(value, dict):
            for key, one in value.items():
                if is_literal or key not in _NOTES or not isinstance(one, str):
                    inner.append((key, one, is_literal or key in ("enum", "const")))
        elif isinstance(value, (list, tuple)):
            inner = [("", one, is_literal) for one in value]
        nested = [(one, literal, False) for _, one, literal in inner if isinstance(one, (dict, list, tuple))]
        work.spend(1 + len(inner) // 2)
        if nested and not is_ready:
            todo += [(value, is_literal, True), *nested]
            continue
        parts = [
            (key, known[id(one), literal] if isinstance(one, (dict, list, tuple)) else _scalar(one))
            for key, one, literal in inner
        ]
        kind = "object" if isinstance(value, dict) else "array"
        content = (kind, is_literal, tuple(sorted(parts, key=_first) if kind == "object" else parts))
        known[name] = known.setdefault(content, len(known))
    return known[id(root), False]


def _first(part: tuple[str, Hashable]) -> str:
    return part[0]


def _scalar(value: Any) -> Hashable:
    return type(value).__name__, value.text if isinstance(value, Written) else value


_NOTES = frozenset(("title", "description", "$comment"))
_ANNOTATIONS = frozenset(("title", "description", "default", "examples", "$comment"))
_MOST_WORDS = 1_000


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


def parse(text: str | bytes | bytearray, limits: Limits | Work) -> Any:
    """A schema given as JSON text. Fractions are read as decimals, so that bounds keep all their digits."""
    work = Work.of(limits)
    bound = work.limits.schema_bytes
    if isinstance(text, (bytes, bytearray)):
        if len(text) > bound:
            raise over_limit("schema_bytes", bound, f"the schema has {len(text):,} bytes")
        try:
            text = bytes(text).decode("utf-8")
        except UnicodeDecodeError as error:
            raise GrammarError("the schema is not UTF-8", code="schema_invalid", offset=error.start) from error
    elif len(text) > bound:
        raise over_limit("schema_bytes", bound, f"the schema has {len(text):,} characters")
    outside = _outside_strings(text)
    brackets = outside.count("[") + outside.count("{")
    values = 1 + brackets + outside.count(",") + outside.count(":")  # and names; an upper bound
    work.pointer = ""
    work.spend(values // 2)
    if brackets > work.limits.schema_depth and _depth(outside) > work.limits.schema_depth:
        raise _too_deep(work)
    try:
        return json.loads(text, parse_float=Written, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise GrammarError(
            f"the schema is not JSON: {error.msg}", code="schema_invalid", line=error.lineno, column=error.colno
        ) from error
    except RecursionError:
        raise _too_deep(work) from None
    except GrammarError:
        raise
    except (ValueError, ArithmeticError) as error:  # a number beyond what Python reads
        raise GrammarError(f"the schema holds a number that cannot be read: {error}", code="schema_invalid") from error


def _too_large(bound: int) -> LimitError:
    return over_limit("schema_bytes", bound, "the schema is too large")


def _too_deep(work: Work) -> LimitError:
    return over_limit("schema_depth", work.limits.schema_depth, "the schema is nested too deeply")


def _no_constant(name: str) -> Any:
    raise GrammarError(f"{name} is not JSON", code="schema_invalid")


def _outside_strings(text: str) -> str:
    """What stands outside strings. It is looked at before the parser runs, which recurses and takes memory for each
    value."""
    return "".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2])


def _depth(outside: str) -> int:
    """The deepest nesting of brackets."""
    steps = _STEPS[np.frombuffer(outside.encode("utf-8", "surrogatepass"), dtype=np.uint8)]
    return int(np.cumsum(steps, dtype=np.int32).max(initial=0))


_STEPS = np.zeros(256, dtype=np.int8)
_STEPS[[0x5B, 0x7B]] = 1
_STEPS[[0x5D, 0x7D]] = -1


_CONTAINERS: tuple[type, ...] = (str, dict, list, tuple)
_EXACT = frozenset((*_CONTAINERS, int, float, bool))
_TELLING = frozenset(("$id", "id", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef", "$ref"))
"""The keys that `_measure` looks for."""


def _measure(schema: Any, work: Work, lenient: bool) -> tuple[bool, bool, bool, set[str]]:
    """Bounds size and depth, level by level; refuses what is not JSON (`lenient`: but for lone surrogates). Says
    whether anything may be an identifier, `unevaluatedProperties` or `unevaluatedItems`, or a dynamic reference, and
    which published schemas may be referred to."""
    size, depth, has_ids, says_unevaluated, refers = 0, 0, False, False, False
    published: set[str] = set()
    bound, deepest = work.limits.schema_bytes, work.limits.schema_depth
    level: list[Any] = [schema]
    while level:
        depth += 1
        if depth > deepest + 1:  # the scalars inside the deepest container are not a level of nesting
            raise _too_deep(work)
        work.spend(1 + len(level) // 4)
        below: list[Any] = []
        texts: list[str] = []  # looked at together: the fastest way
        members = 0
        for node in level:
            kind = type(node)
            if kind not in _EXACT:
                kind = next((base for base in _CONTAINERS if isinstance(node, base)), kind)
            if kind is str:
                size += 2
                texts.append(node)
            elif kind is dict:
                size += 2 + 4 * len(node)
                members += len(node) // 4
                texts += node
                for value in node.values():
                    if type(value) is str:  # most values are: looked at here, not on a level of their own
                        size += 2
                        texts.append(value)
                    elif value is not True and value is not False and value is not None:
                        below.append(value)
                if not _TELLING.isdisjoint(node):
                    if isinstance(node.get("$id"), str) or isinstance(node.get("id"), str):
                        has_ids = True
                    if "unevaluatedProperties" in node or "unevaluatedItems" in node:
                        says_unevaluated = True
                    if "$dynamicRef" in node or "$recursiveRef" in node:
                        refers = True
                    if isinstance(node.get("$ref"), str) and is_published(node["$ref"]):
                        published.add(node["$ref"])
            elif kind is list or kind is tuple:
                size += 2 + len(node)
                below.extend(node)
            else:
                size += 4
            if size > bound:
                raise _too_large(bound)
        for text in texts if set(map(type, texts)) - {str} else ():
            if not isinstance(text, str):
                raise invalid("", f"the schema has a key that is {kind_of(text)}; JSON keys are strings")
        if not lenient and not all(map(str.isascii, texts)) and any(map(_has_surrogate, texts)):
            raise _lone_surrogate(schema)
        size += sum(map(len, texts))
        if size > bound:
            raise _too_large(bound)
        work.spend(members)
        level = below
    return has_ids, says_unevaluated, refers, published


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _lone_surrogate(schema: Any) -> GrammarError:
    """The error for a lone surrogate, with its place (for a key, the place of the object)."""
    queue: deque[tuple[Any, str]] = deque([(schema, "")])  # level by level: deeper down may be a cycle
    while queue:
        node, pointer = queue.popleft()
        if isinstance(node, str) and _has_surrogate(node):
            break
        if isinstance(node, dict):
            if any(_has_surrogate(name) for name in node):
                break
            queue.extend((item, f"{pointer}/{escape(name)}") for name, item in node.items())
        elif isinstance(node, (list, tuple)):
            queue.extend((item, f"{pointer}/{k}") for k, item in enumerate(node))
    return invalid(pointer, "a string holds half of a surrogate pair, which is no character")
