"""The models of `serve` by name, and the options that belong to one of them.

    narrows serve qwen=Qwen3-0.6B-Q8_0.gguf small=model.gguf --tool-call-parser small=mistral

With one model such an option may leave out the name. With several it must have it: what is right for one model would be
wrong for another, and nothing would show it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from narrows.cli.model_file import HubOptions, name_of


@dataclass(frozen=True, slots=True)
class Asked:
    """One model of the command line, with what is its own."""

    model: str | None
    """A file or a name of the hub. None: the small default model, or an upstream's."""
    names: tuple[str, ...]
    """For clients. None: the engine's own."""
    lora: list[str]
    lora_scaled: list[str]
    tool_call_parser: str | None
    reasoning_parser: str | None
    chat_template: str | None
    """A file."""

    @property
    def weights(self) -> tuple[object, ...]:
        """What is loaded. Models of which this is equal share an engine."""
        return self.model and os.path.realpath(self.model), *self.lora, "scaled", *self.lora_scaled


def models_asked(
    models: Sequence[str],
    served_names: Sequence[str],
    *,
    hub: HubOptions,
    lora: Sequence[str],
    lora_scaled: Sequence[str],
    tool_call_parser: Sequence[str],
    reasoning_parser: Sequence[str],
    chat_template: Sequence[str],
) -> list[Asked]:
    """The models in order; without any, one without a file. Raises `BadParameter`.

    `served_names`: those of `--served-model-name`. `hub`: where models come from that are no files. The other options
    as they were given."""
    found = [split(model) for model in models] or [(None, None)]
    names: list[tuple[str, ...]] = [(name,) if name else (name_of(file, hub),) if file else () for name, file in found]
    if served_names:
        if len(names) > 1 or found[0][0]:
            raise typer.BadParameter("the models are named with NAME=FILE", param_hint="--served-model-name")
        names = [tuple(dict.fromkeys(served_names))]
    if hub.file is not None and len(models) != 1:
        needs = "it belongs to one model, and there are several" if models else "it needs a model of the hub"
        raise typer.BadParameter(needs, param_hint="--hf-file")
    known = [name for its in names for name in its]
    for name in known:
        if known.count(name) > 1:
            raise typer.BadParameter(
                f"two models have the name {name!r}: name one of them with NAME=FILE", param_hint="--model"
            )
    loras = values_of(lora, names, "--lora")
    scaled = values_of(lora_scaled, names, "--lora-scaled")
    parsers = value_of(tool_call_parser, names, "--tool-call-parser")
    reasonings = value_of(reasoning_parser, names, "--reasoning-parser", for_all=("auto", "none"))
    templates = value_of(chat_template, names, "--chat-template")
    return [
        Asked(
            file,
            names[i],
            lora=loras[i],
            lora_scaled=scaled[i],
            tool_call_parser=parsers[i],
            reasoning_parser=None if reasonings[i] == "none" else reasonings[i] or "auto",
            chat_template=templates[i],
        )
        for i, (_, file) in enumerate(found)
    ]


def split(model: str) -> tuple[str | None, str | None]:
    """The name and the file of `[NAME=]FILE`. A file with this whole name has none."""
    name, sign, file = model.partition("=")
    if not sign or Path(model).exists():
        return None, model
    if not name or not file:
        raise typer.BadParameter(f"{model!r} is not NAME=FILE", param_hint="--model")
    return name, file


def values_of(
    given: Sequence[str], models: Sequence[tuple[str, ...]], flag: str, *, for_all: Sequence[str] = ()
) -> list[list[str]]:
    """The values of an option that belongs to one model, for each of the models, which are given by their names.
    `for_all`: values that mean the same for every model."""
    values: list[list[str]] = [[] for _ in models]
    for text in given:
        name, sign, value = text.partition("=")
        places = [i for i, names in enumerate(models) if sign and name in names]
        if not places:
            value = text
            places = list(range(len(models)))
            if len(models) > 1 and text not in for_all:
                known = ", ".join(names[0] for names in models)
                raise typer.BadParameter(
                    f"this belongs to one model, and there are {known}: write {models[-1][0]}={text}", param_hint=flag
                )
        for place in places:
            values[place].append(value)
    return values


def value_of(
    given: Sequence[str], models: Sequence[tuple[str, ...]], flag: str, *, for_all: Sequence[str] = ()
) -> list[str | None]:
    """The same for an option with at most one value for each model."""
    values = values_of(given, models, flag, for_all=for_all)
    for its in values:
        if len(its) > 1:
            raise typer.BadParameter(f"{its[0]} and {its[1]} are for the same model", param_hint=flag)
    return [its[0] if its else None for its in values]
