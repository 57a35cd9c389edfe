"""The tables in the docstrings name the states and the regions that there are."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType

import pytest

from narrows.stream import literals, regions
from narrows.stream.regions import values
from narrows.stream.states import State

MODULES = [
    import_module(f"{package.__name__}.{module.name}")
    for package in (regions, literals)
    for module in pkgutil.iter_modules(package.__path__)
]
HEAD = "| state | what comes | next state |\n"


def states(module: ModuleType) -> set[str]:
    return {name for name, value in vars(module).items() if isinstance(value, State)}


def in_table(module: ModuleType) -> set[str]:
    """The names of states in the module's table; none where it has no table."""
    table = (module.__doc__ or "").partition(HEAD)[2].split("\n\n")[0]
    words = table.split("`")[1::2]
    return {word for word in words if word.isidentifier() and word.isupper() and word[0] != "_"}


TABLES = [module for module in MODULES if HEAD in (module.__doc__ or "")]


@pytest.mark.parametrize("module", TABLES, ids=lambda module: module.__name__)
def test_a_table_names_the_states_of_its_region(module: ModuleType) -> None:
    assert states(module) <= in_table(module) <= states(module) | states(values)


def test_every_state_is_in_a_table() -> None:
    """A region's own, or those of `values` and `literals.states`, which regions share."""
    shown = {id(getattr(module, name)) for module in TABLES for name in states(module)}
    missing = [
        (module.__name__, name)
        for module in MODULES
        if module is not values
        for name in states(module)
        if id(getattr(module, name)) not in shown
    ]
    assert TABLES
    assert not missing


@pytest.mark.parametrize("file", sorted(module.name for module in pkgutil.iter_modules(regions.__path__)))
def test_every_file_of_regions_is_in_the_table(file: str) -> None:
    assert f"| `{file}` |" in (regions.__doc__ or "")
