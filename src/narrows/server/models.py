"""The models of a server, by name. The first stands for requests that name none.

Names of the same model share all that it has. Models that differ only in how chats are written and read may share an
engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from narrows.arguments import TEXT, quoted, wants
from narrows.engines.api import Engine
from narrows.errors import EngineError, InputError, NarrowsError
from narrows.server.errors import RequestError
from narrows.server.logs import log
from narrows.server.metrics import Watched
from narrows.server.served_model import ServedModel
from narrows.server.service import Service
from narrows.server.settings import Settings
from narrows.server.shared import Shared

Served = Engine | ServedModel | Mapping[str, Engine | ServedModel]
"""What `create_app` serves: one model under its own name, or models by the names that clients know them by."""


class Models:
    """Use from one event loop."""

    def __init__(self, served: Served, settings: Settings) -> None:
        """Raises `InputError` where settings of one model are given for several, and `FormatError` or `EngineError`
        where a model's format or chat template cannot be used."""
        self.shared = Shared(settings)
        by_model = _names_by_model(served, settings)
        is_alone = len(by_model) == 1
        self._all = [Service(model, self.shared, names, is_alone=is_alone) for model, names in by_model]
        self.by_name = {name: service for service in self._all for name in service.model_names}
        """In the order in which they were given."""
        if isinstance(served, Mapping):
            self.by_name = {name: self.by_name[name] for name in served}
        self.first = self._all[0]
        self.shared.metrics.watch([Watched(one.name, one.engine, one.grammars) for one in self._all])
        self._deaths: set[str] = set()

    def __iter__(self) -> Iterator[Service]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def named(self, name: str | None) -> Service:
        """The model of a request. No name stands for the first, and Ollama's tag `:latest` for none.

        Raises `RequestError` code model_not_found, with all names.
        """
        if not name:
            return self.first
        found = self.by_name.get(name) or self.by_name.get(name.removesuffix(":latest"))
        if found is None:
            raise RequestError(
                f"the model {name[:128]!r} does not exist",
                code="model_not_found",
                pointer="/model",
                hint=f"This server has {', '.join(self.by_name)}",
            )
        return found

    def dead(self) -> dict[str, EngineError]:
        """The models whose engine does not work any more, by their first names. Each death is logged once."""
        found = {}
        for one in self._all:
            try:
                one.engine.check_health()
            except EngineError as error:
                found[one.name] = error
                self._note(one.name, error)
        return found

    def note(self, error: NarrowsError) -> None:
        """Log the death of an engine, if that is why a request failed."""
        if error.code == "engine_dead":
            self.dead()

    def _note(self, name: str, error: EngineError) -> None:
        if error.code == "engine_dead" and name not in self._deaths:
            self._deaths.add(name)
            log.critical("the engine is dead (model %s), and every request to it fails from now on: %s", name, error)

    def close(self) -> None:
        """End the workers. The engines are not closed: they belong to the caller."""
        for one in self._all:
            one.close()


def _names_by_model(served: Served, settings: Settings) -> list[tuple[ServedModel, tuple[str, ...]]]:
    """Each model once, with its names. None: the settings', or the engine's own."""
    if not isinstance(served, Mapping):
        return [(_with_settings(served, settings), settings.served_model_names)]
    if not served:
        raise InputError("there is no model to serve", code="invalid_value")
    if settings.served_model_names:
        raise InputError("the models have their names already", code="invalid_value", pointer="/served_model_names")
    found: dict[tuple[object, ...], tuple[ServedModel, list[str]]] = {}
    for name, one in served.items():
        wants(TEXT, name=name)
        if not name:
            raise InputError("the name of a model is empty", code="invalid_value")
        model = _with_settings(one, settings)
        same = (id(model.engine), model.tool_call_parser, model.reasoning_parser, model.chat_template)
        found.setdefault(same, (model, []))[1].append(name)
    if len(found) > 1:
        _check_for_several(settings, list(served))
    return [(model, tuple(names)) for model, names in found.values()]


def _with_settings(one: Engine | ServedModel, settings: Settings) -> ServedModel:
    if isinstance(one, ServedModel):
        return one
    return ServedModel(one, settings.tool_call_parser, settings.reasoning_parser, settings.chat_template)


def _check_for_several(settings: Settings, names: list[str]) -> None:
    given = {
        "tool_call_parser": settings.tool_call_parser is not None,
        "reasoning_parser": settings.reasoning_parser not in ("auto", None),
        "chat_template": settings.chat_template is not None,
    }
    for name, is_given in given.items():
        if is_given:
            raise InputError(
                f"{name} is of one model, and there are several: {', '.join(map(quoted, names))}",
                code="invalid_value",
                pointer=f"/{name}",
                hint="Give it to one of them with ServedModel",
            )
