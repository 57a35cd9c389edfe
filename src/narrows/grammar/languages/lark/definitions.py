"""What each name of a Lark grammar stands for: imports, `%override`, `%extend`, templates and parameters are resolved
here.

Cost: linear in the text, and in what is written out for each use of a template with other arguments, and for each value
that the parameter of a rule can have. `Limits.reading_work` bounds it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace

from narrows.grammar.languages.lark import tree
from narrows.grammar.languages.lark.common import MODULES
from narrows.grammar.languages.lark.parametric import Expression
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
            is_other = (definition.parameters, definition.is_parametric) != (known.parameters, known.is_parametric)
            if is_other or definition.options:
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

    # Templates and parameters.

    def closed(self, body: Tree) -> Tree:
        """The same with each use of a template or of a rule with a parameter replaced by the name of a definition of
        its own."""

        def replaced(node: Tree) -> Tree:
            if not isinstance(node, Name):
                return node
            if node.parameter is not None:
                return self._with_value(node, node.parameter)
            return Name(self._instance(node), node.offset) if node.arguments else node

        return self._rebuilt(body, replaced)

    def _with_value(self, used: Name, parameter: Expression) -> Name:
        """The name of a rule for one value of its parameter."""
        rule = self.by_name.get(used.name)
        if rule is None:
            self._text.fail(f"{used.name} is not defined", used.offset)
        if not rule.is_parametric:
            hint = f"Define it as {used.name}::_: ..."
            self._text.fail(f"{used.name} has no parameter", used.offset, hint)
        if parameter.needs_parameter:
            self._text.fail(f"the rule that uses {used.name} has no parameter", used.offset, "Write a number after ::")
        value = parameter.of(0)
        key = (used.name, value)
        name = self._instances.get(key)
        if name is None:
            name = self._instances[key] = f"{used.name}::{value:#x}"

            def replaced(node: Tree) -> Tree:
                if isinstance(node, tree.When):
                    return node.item if node.condition.holds(value) else tree.NEVER
                if isinstance(node, tree.Choice):
                    left = tuple([item for item in node.items if item is not tree.NEVER])
                    return left[0] if len(left) == 1 else replace(node, items=left) if left else tree.NEVER
                if isinstance(node, Name) and node.parameter is not None:
                    return replace(node, parameter=Expression("number", node.parameter.of(value)))
                return node

            body = self._rebuilt(rule.body, replaced)
            self.by_name[name] = replace(rule, name=name, body=body, is_parametric=False, instance_of=rule.written_name)
        return Name(name, used.offset)

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
                if (node.arguments or node.parameter) and isinstance(value, Name):
                    return replace(value, arguments=node.arguments, parameter=node.parameter)
                return value

            body = self._rebuilt(template.body, replaced)
            self.by_name[name] = replace(template, name=name, body=body, parameters=(), instance_of=template.name)
        return name

    def _rebuilt(self, body: Tree, change: Callable[[Tree], Tree]) -> Tree:
        return _rebuilt(body, change, self._text.work.spend)


def _rebuilt(root: Tree, change: Callable[[Tree], Tree], spend: Callable[[int], None] = lambda units: None) -> Tree:
    return tree.rebuilt(root, lambda node, inner: change(tree.with_children(node, inner)), spend)


def _mangled(module: str, name: str) -> str:
    return f"{module.upper() if tree.is_terminal(name) else module}__{name}"


def _key(argument: Tree) -> Hashable:
    """Equal for arguments that mean the same."""
    if isinstance(argument, Name):
        return argument.name, argument.parameter
    if isinstance(argument, tree.Text):
        return "text", argument.text, argument.folded
    if isinstance(argument, tree.Pattern):
        return "pattern", argument.source, argument.flags
    return id(argument), argument  # held, so that its id is not reused
