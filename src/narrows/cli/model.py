"""The engine of the commands that run a model: the embedded one, or another server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from narrows.cli.exits import talk
from narrows.engines.api import Engine


def load_engine(model: str | None, *, quiet: bool = False, **options: Any) -> Engine:
    """An engine with the model of `--model`, or with the small default model, which is downloaded once. Shows progress.

    An option that is None gets the engine's default. Raises `EngineError`.
    """
    from narrows.engines import default_model
    from narrows.engines.llama_cpp import LlamaCppEngine

    if model is not None and not Path(model).is_file():
        raise typer.BadParameter(
            f"{model} is not a file: name a GGUF file, or leave --model out for the small default model",
            param_hint="--model",
        )
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=talk, transient=True, disable=quiet) as progress:
        task = progress.add_task("looking for the model")
        # The name inside a GGUF file is often the name of a build. People know the file's name.
        options.setdefault("model_name", Path(model).stem if model else default_model.NAME)
        path = (
            Path(model)
            if model
            else default_model.default_gguf(progress=lambda line: progress.update(task, description=line))
        )
        progress.update(task, description=f"loading {path.name}")
        return LlamaCppEngine(path, **{name: value for name, value in options.items() if value is not None})


def connect_engine(url: str, *, quiet: bool = False, **options: Any) -> Engine:
    """The engine that is the server at `url`. Waits for it, and says so. Options as above. Raises `EngineError`."""
    from narrows.engines.upstream import UpstreamEngine

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=talk, transient=True, disable=quiet) as progress:
        task = progress.add_task("asking the upstream")
        given = {name: value for name, value in options.items() if value is not None}
        return UpstreamEngine(url, progress=lambda line: progress.update(task, description=line), **given)
