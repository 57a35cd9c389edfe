"""What a person reads with help(): every public name says what it does.

Names that can be imported are asked as help() asks them. Plug-ins and compat, which need other packages, are read as source. Attributes and
aliases, which help() has no place for, are said below their line in the source: editors and the reference show that.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import narrows
import narrows._core
import narrows.decoding

SOURCE = Path(narrows.__file__).parent
MODULES = [
    "narrows",
    "narrows.formats",
    "narrows.engines.api",
    "narrows.server",
    "narrows.server.settings",
    "narrows.stream.message",
    "narrows.stream.parser",
    "narrows.engines.select",
    "narrows.engines.beams",
    "narrows.engines.llama_cpp",
    *(f"narrows.decoding.{found.name}" for found in pkgutil.iter_modules(narrows.decoding.__path__)),
]
BY_SOURCE = sorted([*(SOURCE / "plugins").rglob("*.py"), *(SOURCE / "compat").rglob("*.py")])


def public_names(module: ModuleType) -> list[str]:
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def said(thing: Any) -> str:
    """What help() says of it, without what Python or the binding writes by itself."""
    text = inspect.getdoc(thing) or ""
    if inspect.isclass(thing):
        text = inspect.cleandoc(thing.__dict__.get("__doc__") or "")
        return "" if text.startswith(f"{thing.__name__}(") else text
    name = getattr(thing, "__name__", None)
    lines = text.splitlines()
    while lines and name is not None and lines[0].startswith(f"{name}("):  # the signatures that nanobind writes
        lines.pop(0)
    return "\n".join(lines).strip()


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties, with those that it inherits from classes of narrows."""
    for name in dir(kind):
        owner = next(base for base in kind.__mro__ if name in vars(base))
        member = inspect.getattr_static(kind, name)
        if name.startswith("_") or not owner.__module__.startswith("narrows") or inspect.ismemberdescriptor(member):
            continue
        if callable(member) or isinstance(member, (property, classmethod, staticmethod)):
            yield name, getattr(kind, name)


def things() -> Iterator[tuple[str, Any]]:
    for module_name in MODULES:
        module = import_module(module_name)
        yield module_name, module
        for name in public_names(module):
            yield f"{module_name}.{name}", getattr(module, name)


CLASSES = dict.fromkeys(thing for _, thing in things() if inspect.isclass(thing))


def test_the_walk_sees_what_people_use() -> None:
    names = {name for name, _ in things()} | {
        f"{kind.__name__}.{name}" for kind in CLASSES for name, _ in members(kind)
    }
    assert {
        "narrows.Grammar",
        "Matcher.fill_mask",
        "Matcher.is_accepting",
        "Grammar.from_lark",
        "Format.parser",
    } <= names
    assert {"narrows.formats.get", "Engine.generate", "Settings", "StreamParser.feed"} <= {
        name.rpartition("narrows.server.settings.")[2] for name in names
    }


@pytest.mark.parametrize(("name", "thing"), list(things()), ids=lambda value: value if isinstance(value, str) else "")
def test_every_public_name_says_what_it_is(name: str, thing: Any) -> None:
    if inspect.ismodule(thing) or inspect.isclass(thing) or inspect.isroutine(thing):
        assert said(thing), name
    else:
        last = name.rpartition(".")[2]
        made_in = [
            module for module in list(sys.modules) if module.startswith("narrows") and is_there(module, last, thing)
        ]
        assert any(said_below(module, last) for module in made_in), name


def is_there(module: str, name: str, thing: Any) -> bool:
    return (
        vars(sys.modules[module]).get(name) is thing
        and (SOURCE.parent / module.replace(".", "/")).with_suffix(".py").is_file()
    )


@pytest.mark.parametrize("kind", list(CLASSES), ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_public_member_says_what_it_does(kind: type) -> None:
    assert not [name for name, member in members(kind) if not said(member) and not said(static(kind, name))]


def static(kind: type, name: str) -> Any:
    return inspect.getattr_static(kind, name)


@pytest.mark.parametrize(
    "kind", [kind for kind in CLASSES if is_dataclass(kind)], ids=lambda kind: f"{kind.__module__}.{kind.__name__}"
)
def test_every_field_says_what_it_holds(kind: type) -> None:
    """Below its line, or by its name in the class's own text."""
    silent = []
    for field in fields(kind):
        owner = next(base for base in kind.__mro__ if field.name in vars(base).get("__annotations__", {}))
        if field.name.startswith("_") or said_below(owner.__module__, f"{owner.__name__}.{field.name}"):
            continue
        if f"`{field.name}`" not in (owner.__doc__ or ""):
            silent.append(field.name)
    assert not silent


def said_below(module: str, name: str) -> bool:
    """Whether a text stands below the line that makes an attribute, `NAME` or `Class.NAME`."""
    return name in texts_below(module)


@cache
def texts_below(module: str) -> frozenset[str]:
    path = SOURCE.joinpath(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(path.read_text())
    bodies = [("", tree.body)] + [(f"{n.name}.", n.body) for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    found = set()
    for prefix, body in bodies:
        for made, after in pairwise(body):
            if not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)):
                continue
            if isinstance(made, ast.Assign):
                found |= {prefix + target.id for target in made.targets if isinstance(target, ast.Name)}
            elif isinstance(made, ast.AnnAssign) and isinstance(made.target, ast.Name):
                found.add(prefix + made.target.id)
    return frozenset(found)


def silent_in(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    if not ast.get_docstring(tree) and tree.body:
        yield path.name
    for node in tree.body:
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef)) or node.name.startswith("_"):
            continue
        if not ast.get_docstring(node):
            yield node.name
        for member in node.body if isinstance(node, ast.ClassDef) else ():
            is_public = isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)) and member.name[0] != "_"
            if is_public and not ast.get_docstring(member) and not is_of_another(node):
                yield f"{node.name}.{member.name}"


def is_of_another(node: ast.ClassDef) -> bool:
    """Whether the class has a base that another package defines, which says what its methods do."""
    return bool(node.bases) or bool(node.keywords)


@pytest.mark.parametrize("path", BY_SOURCE, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_public_name_of_plugins_and_compat_says_what_it_is(path: Path) -> None:
    assert not list(silent_in(path))


def test_the_stub_says_of_the_core_what_help_says() -> None:
    """Editors show the stub's text, and help() the core's."""
    stub = ast.parse((SOURCE / "_core.pyi").read_text())
    (matcher,) = [node for node in stub.body if isinstance(node, ast.ClassDef) and node.name == "Matcher"]
    written = {
        node.name: " ".join((ast.get_docstring(node) or "").split())
        for node in matcher.body
        if isinstance(node, ast.FunctionDef) and node.name != "__init__"
    }
    assert all(written.values())
    assert written == {
        name: " ".join(said(inspect.getattr_static(narrows._core.Matcher, name)).split()) for name in written
    }
