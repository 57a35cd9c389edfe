"""The syntax tree of a Lark grammar: what is written, before names are looked up.

Offsets are places in the text, for messages. They do not take part in comparisons.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Union

from narrows.grammar.languages.lark.parametric import Condition, Expression


@dataclass(frozen=True, slots=True, eq=False)
class Seq:
    """The items one after the other. No items: the empty text."""

    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Any of the items."""

    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Both:
    """Texts that match all items. In terminals only."""

    items: tuple[Tree, ...]
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Negated:
    """Texts that do not match the item. In terminals only."""

    item: Tree
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """The item `low` to `high` times (None: without end)."""

    item: Tree
    low: int
    high: int | None
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A rule or terminal. `arguments`: of a template. `parameter`: of a rule that has one."""

    name: str
    offset: int
    arguments: tuple[Tree, ...] = ()
    parameter: Expression | None = None


@dataclass(frozen=True, slots=True, eq=False)
class When:
    """The item, where the parameter of the rule is such (`%if`)."""

    item: Tree
    condition: Condition
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """Exactly these characters; with `folded`, in upper or lower case."""

    text: str
    folded: bool
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """One character, from `low` to `high`."""

    low: str
    high: str
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A regular expression in Python's notation, with flags."""

    source: str
    flags: str
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Special:
    """A special token: `<name>`, or `<[...]>` with ids."""

    text: str
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """`%json`, `%regex` or `%lark` and what stands in braces after it: a JSON value, or the tokens of a grammar."""

    kind: str
    value: Any
    offset: int


Tree = Union[Seq, Choice, Both, Negated, Repeat, When, Name, Text, Range, Pattern, Special, Embedded]

Terminal = Union[Text, Range, Pattern, Negated, Embedded]
TERMINAL = (Text, Range, Pattern, Negated)
"""In a rule, each is a terminal without a name."""

EMPTY = Seq(())
NEVER = Choice(())


@dataclass(slots=True)
class Definition:
    """A rule or a terminal."""

    name: str
    offset: int
    body: Tree
    parameters: tuple[str, ...] = ()
    """Of a template."""
    is_parametric: bool = False
    """Whether each use has a number: `name::_`."""
    options: dict[str, Tree | str | None] = field(default_factory=dict)
    """llguidance's, in brackets after the name: `lazy`, `suffix`, `capture` ..."""
    instance_of: str | None = None
    """The name of the template that it was made of."""

    @property
    def written_name(self) -> str:
        """The name in the text."""
        return self.instance_of or self.name

    @property
    def is_lazy(self) -> bool:
        return "lazy" in self.options or self.end is not None

    @property
    def end(self) -> Tree | None:
        """The text with which it ends: that of `suffix` or `stop`."""
        end = self.options.get("suffix", self.options.get("stop"))
        return None if end is None or isinstance(end, str) or self.ends_by_token else end

    @property
    def ends_by_token(self) -> bool:
        """Whether the model's end token ends it: `stop=""`."""
        stop = self.options.get("stop")
        return isinstance(stop, Text) and not stop.text

    @property
    def is_terminal(self) -> bool:
        return is_terminal(self.name)


@dataclass(slots=True)
class Import:
    """One name of a module, and the name that it gets here."""

    module: str
    name: str
    alias: str
    offset: int


@dataclass(slots=True)
class Grammar:
    """What one text defines, in the order of the text."""

    definitions: list[Definition] = field(default_factory=list)
    overrides: list[Definition] = field(default_factory=list)
    extensions: list[Definition] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)
    declared: dict[str, int] = field(default_factory=dict)
    """Name -> offset."""
    ignored: list[tuple[Tree, int]] = field(default_factory=list)
    settings: list[tuple[Any, int]] = field(default_factory=list)
    """The values of `%llguidance`."""


def is_terminal(name: str) -> bool:
    """Whether a name is that of a terminal: its first letter is a capital."""
    return name.lstrip("_")[:1].isupper()


def children(tree: Tree) -> tuple[Tree, ...]:
    if isinstance(tree, (Seq, Choice, Both)):
        return tree.items
    if isinstance(tree, (Repeat, Negated, When)):
        return (tree.item,)
    return tree.arguments if isinstance(tree, Name) else ()


def names(root: Tree) -> list[Name]:
    """All names in it."""
    found: list[Name] = []
    todo, seen = [root], set[int]()
    while todo:
        node = todo.pop()
        if id(node) not in seen:
            seen.add(id(node))
            if isinstance(node, Name):
                found.append(node)
            todo += children(node)
    return found


def rebuilt(root: Tree, change: Callable[[Tree, tuple[Tree, ...]], Tree], spend: Callable[[int], None]) -> Tree:
    """The tree with each node changed, children first: `change` gets a node, and its children as they are now."""
    done: dict[int, Tree] = {}
    todo: list[tuple[Tree, bool]] = [(root, False)]
    while todo:
        node, is_ready = todo.pop()
        if id(node) in done:
            continue
        inner = children(node)
        if inner and not is_ready:
            todo.append((node, True))
            todo += [(child, False) for child in inner]
            continue
        spend(2)
        done[id(node)] = change(node, tuple([done[id(child)] for child in inner]))
    return done[id(root)]


def with_children(node: Tree, inner: tuple[Tree, ...]) -> Tree:
    """The node with these children instead of its own."""
    if isinstance(node, (Seq, Choice, Both)):
        return replace(node, items=inner)
    if isinstance(node, (Repeat, Negated, When)):
        return replace(node, item=inner[0])
    return replace(node, arguments=inner) if isinstance(node, Name) and inner else node
