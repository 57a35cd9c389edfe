"""Places by name: `$id` (draft 4: `id`), `$anchor`, and what a reference is relative to. What the drafts differ in
stands here.

An identifier counts where a schema stands, and nowhere else: not in `enum`, `const`, `default`, `examples` or an
unknown keyword, and not as the name of a property. `$schema` says which draft's rules hold, for the document and for a
schema in it that has an identifier of its own.

Cost: a place costs the length of its pointer; the index walks the document once, when a name is first asked for.
Sources: JSON Schema drafts 4 to 7 and 2019-09 and 2020-12, core, "Base URI" and "Identifying"; RFC 3986.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

from narrows.grammar.work import Work


@dataclass(frozen=True, slots=True)
class Draft:
    """What differs between the drafts, as far as it changes what a schema means here."""

    name: str
    id_keyword: str = "$id"
    fragment_ids: bool = False
    """An identifier that is a fragment (`#name`) names the place, as `$anchor` does later."""
    anchors: bool = False
    dynamic: bool = False
    """`$dynamicRef` and `$dynamicAnchor`."""
    recursive: bool = False
    """`$recursiveRef` and `$recursiveAnchor`."""
    ref_alone: bool = False
    """What stands beside `$ref` is ignored, identifiers included."""
    prefix_items: bool = False
    counts_contained: bool = False
    """`minContains` and `maxContains`."""
    contains_evaluates: bool = True
    """An item that `contains` counts is none of the `unevaluatedItems`."""


DRAFT_4 = Draft("draft 4", id_keyword="id", fragment_ids=True, ref_alone=True)
DRAFT_7 = Draft("draft 7", fragment_ids=True, ref_alone=True)
DRAFT_2019 = Draft("draft 2019-09", anchors=True, recursive=True, counts_contained=True, contains_evaluates=False)
DRAFT_2020 = Draft("draft 2020-12", anchors=True, dynamic=True, prefix_items=True, counts_contained=True)
UNSTATED = Draft(
    "", fragment_ids=True, anchors=True, dynamic=True, recursive=True, prefix_items=True, counts_contained=True
)
"""Without `$schema`, or with one of somebody's own: draft 2020-12, and what older drafts say in other words."""

_BY_NAME = {
    "json-schema.org/draft-03": DRAFT_4,
    "json-schema.org/draft-04": DRAFT_4,
    "json-schema.org/draft-05": DRAFT_4,
    "json-schema.org/draft-06": DRAFT_7,
    "json-schema.org/draft-07": DRAFT_7,
    "json-schema.org/draft/2019-09": DRAFT_2019,
    "json-schema.org/draft/2020-12": DRAFT_2020,
}

_ONE = frozenset(
    (
        *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"),
        *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
    )
)
_SEVERAL = frozenset(("allOf", "anyOf", "items", "oneOf", "prefixItems"))
_NAMED = frozenset(("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"))


def draft_of(named: object) -> Draft:
    """The draft that the value of a `$schema` names."""
    if not isinstance(named, str):
        return UNSTATED
    address = named.partition("://")[2].partition("#")[0]
    return _BY_NAME.get(address.rpartition("/")[0], UNSTATED)


RECURSIVE = ""
"""The name that `$recursiveAnchor` gives; no anchor has it."""
DynamicScope = tuple[tuple[str, str], ...]
"""(dynamic name, pointer of the outermost schema that sets it), on the way to a place. Only of names that stand for
several places."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What the references in a part of the document are relative to, and the draft whose rules hold there."""

    base: str
    root: str
    """The pointer of the schema whose identifier is the base."""
    draft: Draft


START = Scope("", "", UNSTATED)


def enter(node: Any, pointer: str, outside: Scope | None, start: Scope = START) -> Scope:
    """The scope of a schema that stands in another one. None: it is the whole document, which has the scope `start`
    unless it says otherwise."""
    scope = outside or start
    if not isinstance(node, dict):
        return scope
    draft = scope.draft
    if "$schema" in node:
        named = draft_of(node["$schema"])
        if outside is None or isinstance(node.get(named.id_keyword), str):
            draft = named
    identifier = _identifier(node, draft)
    if identifier is None or identifier.startswith("#"):
        return scope if draft is scope.draft else Scope(scope.base, scope.root, draft)
    try:
        base, fragment = join(scope.base, identifier)
    except ValueError:  # no URI: it names nothing
        return Scope(scope.base, scope.root, draft)
    if fragment and base == scope.base:
        return Scope(base, scope.root, draft)
    return Scope(base, pointer, draft)


def _identifier(node: dict[str, Any], draft: Draft) -> str | None:
    identifier = node.get(draft.id_keyword)
    if not isinstance(identifier, str) or (draft.ref_alone and isinstance(node.get("$ref"), str)):
        return None
    return identifier


def join(base: str, reference: str) -> tuple[str, str]:
    """The address without its fragment, and the fragment. Raises ValueError for what is no URI."""
    address, _, fragment = urljoin(base, reference).partition("#")
    return address, fragment


def scope_of(root: Any, tokens: list[str], start: Scope) -> tuple[Scope, bool]:
    """The scope that these tokens of a pointer lead to, and whether an identifier was passed where no schema stands:
    then it is open whether that counts. `start`: as for `enter`."""
    scope = enter(root, start.root, None, start)
    node, pointer, kind, is_open = root, start.root, "schema", False
    for token in tokens:
        pointer += "/" + token.replace("~", "~0").replace("/", "~1")
        node = node[int(token)] if isinstance(node, (list, tuple)) else node[token]
        if kind == "schema":
            kind = _kind(token, node)
        elif kind in ("list", "map"):
            kind = "schema" if isinstance(node, (dict, bool)) else "other"
        if kind == "schema":
            scope = enter(node, pointer, scope)
        elif kind == "other" and isinstance(node, dict) and isinstance(node.get(scope.draft.id_keyword), str):
            is_open = True
    return scope, is_open


def _kind(keyword: str, value: Any) -> str:
    """What a keyword holds: a schema, a list or a map of schemas, or something other."""
    if keyword in _ONE and isinstance(value, (dict, bool)):
        return "schema"
    if keyword in _SEVERAL and isinstance(value, (list, tuple)):
        return "list"
    return "map" if keyword in _NAMED and isinstance(value, dict) else "other"


def _below(node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schemas directly below one, with what their pointers add to its own."""
    for keyword, value in node.items():
        kind = _kind(keyword, value)
        if kind == "schema":
            yield f"/{keyword}", value
        elif kind == "list":
            yield from ((f"/{keyword}/{k}", item) for k, item in enumerate(value) if isinstance(item, dict))
        elif kind == "map":
            for name, item in value.items():
                if isinstance(item, dict):
                    yield f"/{keyword}/{name.replace('~', '~0').replace('/', '~1')}", item


@dataclass(slots=True)
class Index:
    """The names of a document, or of several. What two places share has the pointer None."""

    is_whole: bool
    """No document was left out."""
    resources: dict[str, str | None] = field(default_factory=dict)
    """Address -> the pointer of its schema."""
    anchors: dict[tuple[str, str], str | None] = field(default_factory=dict)
    """(the pointer of the schema whose address it is, name) -> pointer."""
    dynamic: set[tuple[str, str]] = field(default_factory=set)
    """The anchors that `$dynamicAnchor` sets."""
    recursive: set[str] = field(default_factory=set)
    """The pointers of the schemas with `$recursiveAnchor`."""

    def several(self) -> dict[str, list[str]]:
        """The dynamic names that stand for several places, by the pointers of the schemas that set them."""
        places = [*sorted(self.dynamic), *((resource, RECURSIVE) for resource in sorted(self.recursive))]
        times = Counter(name for _, name in places)
        found: dict[str, list[str]] = {}
        for resource, name in places:
            if times[name] > 1:
                found.setdefault(resource, []).append(name)
        return found


def index(roots: Mapping[str, tuple[Any, Scope]], work: Work, *, every: bool = False) -> Index:
    """The names of the document whose pointer is "", and of those that it refers to, directly or not; or of `every`
    one. `roots`: all documents by their pointers, which are those of their scopes."""
    names = Index(every or len(roots) == 1)
    others = {start.base: (root, start) for pointer, (root, start) in roots.items() if pointer}
    root, start = roots[""]
    _add(names.resources, start.base, "")
    stack: list[tuple[Any, str, Scope]] = [(root, "", enter(root, "", None, start))]
    if every:
        for address, (root, start) in others.items():
            _add(names.resources, address, start.root)
            stack.append((root, start.root, enter(root, start.root, None, start)))
        others = {}
    while stack:
        node, pointer, scope = stack.pop()
        if not isinstance(node, dict):
            continue
        work.spend(4 + len(node) // 2 + len(pointer) // 64)
        _collect(names, node, pointer, scope)
        for address in _named(node, scope, work) if others else ():
            if address in others:
                root, start = others.pop(address)
                _add(names.resources, address, start.root)
                stack.append((root, start.root, enter(root, start.root, None, start)))
        for more, item in _below(node):
            if isinstance(item, dict):
                if "$id" in item or "id" in item:
                    work.spend(10 + len(scope.base) // 16)
                stack.append((item, pointer + more, enter(item, pointer + more, scope)))
    return names


def _named(node: dict[str, Any], scope: Scope, work: Work) -> Iterator[str]:
    """The addresses that a schema refers to."""
    for keyword in ("$ref", "$dynamicRef"):
        reference = node.get(keyword)
        if isinstance(reference, str) and not reference.startswith("#"):
            work.spend(10 + (len(scope.base) + len(reference)) // 16)
            with suppress(ValueError):
                yield join(scope.base, reference)[0]


def _collect(names: Index, node: dict[str, Any], pointer: str, scope: Scope) -> None:
    draft = scope.draft
    identifier = _identifier(node, draft)
    if identifier is not None:
        if scope.root == pointer and not identifier.startswith("#"):
            _add(names.resources, scope.base, pointer)
        fragment = identifier.partition("#")[2]
        if fragment and not fragment.startswith("/") and draft.fragment_ids:
            _add(names.anchors, (scope.root, fragment), pointer)
    for keyword, known in (("$anchor", draft.anchors), ("$dynamicAnchor", draft.dynamic)):
        name = node.get(keyword)
        if known and isinstance(name, str):
            _add(names.anchors, (scope.root, name), pointer)
            if keyword == "$dynamicAnchor":
                names.dynamic.add((scope.root, name))
    if draft.recursive and node.get("$recursiveAnchor") is True and pointer == scope.root:
        names.recursive.add(pointer)


def _add(names: dict[Any, str | None], name: Any, pointer: str) -> None:
    names[name] = pointer if names.get(name, pointer) == pointer else None
