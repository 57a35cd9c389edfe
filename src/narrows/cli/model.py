"""The engine of the commands that run a model: the embedded one, or another server."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from narrows.cli.engine_options import FLAGS
from narrows.cli.exits import INTERRUPTED
from narrows.cli.model_file import HubOptions, local_file, name_of
from narrows.cli.terminal import talk
from narrows.engines import default_model
from narrows.engines.api import Engine
from narrows.errors import InputError


def load_engine(
    model: str | None, *, hub: HubOptions | None = None, file: Path | None = None, quiet: bool = False, **options: Any
) -> Engine:
    """An engine with the model of `--model`, or with the small default model, which is downloaded once. Shows progress
    on a terminal. `hub`: how a model of the hub is fetched. `file`: the model's, if it is fetched already.

    An option that is None gets the engine's default. Raises `EngineError`, or `BadParameter` with the flag of an option
    that the engine refuses.
    """
    from narrows.engines.llama_cpp import LlamaCppEngine

    # Before the progress below begins: the hub's library shows its own.
    if file is None and model is not None:
        file = local_file(model, hub, quiet=quiet)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=talk, transient=True, disable=quiet or not talk.is_terminal) as progress:
        task = progress.add_task("looking for the model")
        options.setdefault("model_name", name_of(model, hub))
        path = file or default_model.default_gguf(progress=lambda line: progress.update(task, description=line))
        progress.update(task, description=f"loading {path.name}")
        try:
            with _ending_at_once():
                return LlamaCppEngine(path, **{name: value for name, value in options.items() if value is not None})
        except InputError as error:
            flag = FLAGS.get((error.pointer or "").removeprefix("/"))
            if error.code != "engine_option_invalid" or flag is None:
                raise
            raise typer.BadParameter(str(error), param_hint=flag) from None


def connect_engine(url: str, *, quiet: bool = False, **options: Any) -> Engine:
    """The engine that is the server at `url`. Waits for it, and says so. Options as above. Raises `EngineError`."""
    from narrows.engines.upstream import UpstreamEngine

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=talk, transient=True, disable=quiet or not talk.is_terminal) as progress:
        task = progress.add_task("asking the upstream")
        given = {name: value for name, value in options.items() if value is not None}
        return UpstreamEngine(url, progress=lambda line: progress.update(task, description=line), **given)


@contextmanager
def _ending_at_once() -> Iterator[None]:
    """An interrupt ends the process here, at once.

    While it loads a model, llama.cpp calls back into Python to log. An exception that is raised there is lost, so the
    usual `KeyboardInterrupt` could not end the command. What is open, such as models that were loaded before, ends with
    the process.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    before = signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(number: int, frame: FrameType | None) -> None:
    talk.show_cursor(True)
    os._exit(INTERRUPTED)
