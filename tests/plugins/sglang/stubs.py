"""SGLang's parser classes without what its engine needs: every module that is not installed is an empty one whose names are empty classes.

`pip install --no-deps sglang` brings the classes; torch, CUDA and the rest stay away. A stub that is called or subclassed does nothing, so what runs here is
SGLang's own parsing code, and nothing of its engine.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from typing import Any, ClassVar

REAL = ("sglang", "narrows")


class _Meta(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _made(name)

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__

    def __getitem__(cls, item: Any) -> Any:
        return cls

    def __iter__(cls) -> Any:
        return iter(())

    def __lt__(cls, other: Any) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def __bool__(cls) -> bool:
        return False


class _Nothing:
    """False, empty and zero; calls and attributes give more of it. As a decorator it leaves things as they are."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __init_subclass__(cls, **options: Any) -> None:
        pass

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.any_schema()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and not kwargs and callable(args[0]) else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _made(name)()

    def __getitem__(self, item: Any) -> Any:
        return self

    def __iter__(self) -> Any:
        return iter(())

    def __contains__(self, item: Any) -> bool:
        return False

    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def __int__(self) -> int:
        return 0

    def __lt__(self, other: Any) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__


def _made(name: str) -> Any:
    return _Meta(name, (_Nothing,), {"__module__": "stub"})


class _Module(types.ModuleType):
    __version__ = "99.0"
    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _made(name)
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes last: only what nobody else has found and SGLang itself imports. Other packages find out that something is not there."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        top = name.partition(".")[0]
        if top in REAL or top in sys.stdlib_module_names or not _is_for_sglang():
            return None
        if path and top in sys.modules and not isinstance(sys.modules[top], _Module):
            return None  # a real package that lacks a module
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _is_for_sglang() -> bool:
    """Whether the import that runs is one of SGLang's."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "importlib":
        frame = frame.f_back
    return frame.f_globals.get("__name__", "").partition(".")[0] in REAL


def install() -> bool:
    """Whether SGLang's parser classes can be imported from here on. Its package's own `__init__`, which patches transformers, is passed over."""
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return True
    spec = importlib.util.find_spec("sglang")
    if spec is None or spec.origin is None or not spec.submodule_search_locations:
        return False  # not there, or this folder taken for it
    package = types.ModuleType("sglang")
    package.__path__ = list(spec.submodule_search_locations)
    package.__spec__ = spec
    sys.modules["sglang"] = package
    sys.meta_path.append(Finder())
    return True
