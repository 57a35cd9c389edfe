"""What each name of a Lark grammar stands for: imports, `%override`, `%extend` and templates are resolved here.

Cost: linear in the text, and in what is written out for each use of a template with other arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace

from narrows.grammar.languages.lark import tree
from narrows.grammar.languages.lark.common import MODULES
from narrows.grammar.languages.lark.syntax import read
from narrows.grammar.languages.lark.tree import Definition, Grammar, Name, Tree
from narrows.grammar.languages.text import GrammarText


class Definitions:
    """Rules and terminals by name. Templates become definitions when they are used (`closed`)."""

    def __init__(self, text: GrammarText, grammar: Grammar) -> None:
        """Raises `GrammarError` for a name that is defined twice, or that a module does not have."""
        self._text = text
        self._modules: dict[str, dict[str, Definition]] = {}
        self.by_name: dict[str, Definition] = {}
        self._import(grammar)
        for definition in grammar.definitions:
            if definition.name in self.by_name:
                hint = "%override replaces a definition, %extend adds to it"
                text.fail(f"{definition.name} is defined twice", definition.offset, hint)
            self.by_name[definition.name] = definition
        for definition in grammar.overrides:
            self.by_name[self._known(definition).name] = definition
        for definition in grammar.extensions:
            known = self._known(definition)
            if definition.parameters != known.parameters or definition.options:
                text.fail(f"%extend of {known.name} has other parameters or options", definition.offset)
            both = tree.Choice((known.body, definition.body))
            self.by_name[known.name] = replace(known, body=both)
        self._instances: dict[Hashable, str] = {}

    def _known(self, definition: Definition) -> Definition:
        known = self.by_name.get(definition.name)
        if known is None:
            self._text.fail(f"{definition.name} is not defined", definition.offset)
        return known

    def _import(self, grammar: Grammar) -> None:
        aliases: dict[str, dict[str, list[str]]] = {}
        for one in grammar.imports:
            if one.module not in MODULES:
                hint = f"There is {', '.join(MODULES)}; copy the definitions of other modules into this text"
                self._text.unsupported(f"the module {one.module[:64]!r}", one.offset, hint)
            module = self._module(one.module)
            if one.name not in module:
                self._text.fail(f"the module {one.module} has no {one.name[:64]}", one.offset)
            known = aliases.setdefault(one.module, {}).setdefault(one.name, [])
            if one.alias in known:
                continue
            known.append(one.alias)
            if one.alias in self.by_name:
                self._text.fail(f"{one.alias} is imported twice", one.offset)
            self.by_name[one.alias] = replace(module[one.name], name=one.alias, offset=one.offset)
        for name, imported in aliases.items():
            self._add_needed(name, imported)

    def _module(self, name: str) -> dict[str, Definition]:
        if name not in self._modules:
            text = GrammarText(MODULES[name], "lark", self._text.work)
            self._modules[name] = {definition.name: definition for definition in read(text).definitions}
        return self._modules[name]

    def _add_needed(self, module_name: str, imported: Mapping[str, list[str]]) -> None:
        """The definitions that the imported ones refer to. They get the module's name before their own, unless they are
        imported, too."""
        module = self._module(module_name)
        offset = self.by_name[next(iter(imported.values()))[0]].offset
        names = {name: imported[name][0] if name in imported else _mangled(module_name, name) for name in module}
        todo, done = list(imported), set[str]()
        while todo:
            name = todo.pop()
            if name in done:
                continue
            done.add(name)
            used: list[str] = []

            def renamed(node: Tree, used: list[str] = used) -> Tree:
                if isinstance(node, Name):
                    used.append(node.name)
                    return replace(node, name=names[node.name], offset=offset)
                return node if isinstance(node, (tree.Seq, tree.Choice)) else replace(node, offset=offset)

            body = _rebuilt(module[name].body, renamed)
            for alias in imported.get(name, [names[name]]):
                self.by_name[alias] = Definition(alias, offset, body)
            todo += used

    # Templates.

    def closed(self, body: Tree) -> Tree:
        """The same with each use of a template replaced by the name of a definition of its own."""

        def replaced(node: Tree) -> Tree:
            return Name(self._instance(node), node.offset) if isinstance(node, Name) and node.arguments else node

        return self._rebuilt(body, replaced)

    def _instance(self, used: Name) -> str:
        template = self.by_name.get(used.name)
        if template is None:
            self._text.fail(f"{used.name} is not defined", used.offset)
        if len(template.parameters) != len(used.arguments):
            wanted = f"{len(template.parameters)} arguments, not {len(used.arguments)}"
            self._text.fail(f"{used.name} takes {wanted}", used.offset)
        key = (used.name, *map(_key, used.arguments))
        name = self._instances.get(key)
        if name is None:
            name = self._instances[key] = f"{used.name}{{{len(self._instances) + 1}}}"
            values = dict(zip(template.parameters, used.arguments, strict=True))

            def replaced(node: Tree) -> Tree:
                if not isinstance(node, Name) or node.name not in values:
                    return node
                value = values[node.name]
                if node.arguments and isinstance(value, Name):
                    return replace(value, arguments=node.arguments)
                return value

            body = self._rebuilt(template.body, replaced)
            self.by_name[name] = replace(template, name=name, body=body, parameters=())
        return name

    def _rebuilt(self, body: Tree, change: Callable[[Tree], Tree]) -> Tree:
        return _rebuilt(body, change, self._text.work.spend)


def _rebuilt(root: Tree, change: Callable[[Tree], Tree], spend: Callable[[int], None] = lambda units: None) -> Tree:
    """The tree with each node changed, children first."""
    done: dict[int, Tree] = {}
    todo: list[tuple[Tree, bool]] = [(root, False)]
    while todo:
        node, is_ready = todo.pop()
        if id(node) in done:
            continue
        inner = tree.children(node)
        if inner and not is_ready:
            todo.append((node, True))
            todo += [(child, False) for child in inner]
            continue
        spend(2)
        done[id(node)] = change(_with_children(node, tuple([done[id(child)] for child in inner])))
    return done[id(root)]


def _with_children(node: Tree, inner: tuple[Tree, ...]) -> Tree:
    if isinstance(node, (tree.Seq, tree.Choice, tree.Both)):
        return replace(node, items=inner)
    if isinstance(node, (tree.Repeat, tree.Negated)):
        return replace(node, item=inner[0])
    return replace(node, arguments=inner) if isinstance(node, Name) and inner else node


def _mangled(module: str, name: str) -> str:
    return f"{module.upper() if tree.is_terminal(name) else module}__{name}"


def _key(argument: Tree) -> Hashable:
    """Equal for arguments that mean the same."""
    if isinstance(argument, Name):
        return argument.name
    if isinstance(argument, tree.Text):
        return "text", argument.text, argument.folded
    if isinstance(argument, tree.Pattern):
        return "pattern", argument.source, argument.flags
    return id(argument), argument  # held, so that its id is not reused
