"""What MODEL names: a file on this machine, or a model of the hub (narrows.engines.hub)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from narrows.engines import default_model, hub
from narrows.errors import EngineError

HfRepo = Annotated[
    str | None,
    typer.Option(
        "--hf-repo",
        "-hf",
        "-hfr",
        metavar="USER/MODEL[:QUANT]",
        help="A model of the Hugging Face Hub, whatever file has this name. QUANT is Q4_K_M if there is one, else Q8_0 "
        "or the first file.",
        show_default=False,
    ),
]
HfFile = Annotated[
    str | None,
    typer.Option("--hf-file", "-hff", metavar="FILE", help="The file in the hub's repository, in place of QUANT."),
]
HfToken = Annotated[
    str | None,
    typer.Option(
        "--hf-token", "-hft", metavar="TOKEN", help="Your token of the hub. Else HF_TOKEN, or that of `hf auth login`."
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Take from the hub's cache alone, and ask nobody.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class HubOptions:
    """The options above."""

    repo: str | None = None
    file: str | None = None
    token: str | None = None
    offline: bool = False

    def named(self, *given: str | None) -> str | None:
        """The model, which only one of the arguments and `--hf-repo` may name."""
        names = [name for name in (*given, self.repo) if name is not None]
        if len(names) > 1:
            raise typer.BadParameter("the model is named twice", param_hint="--model")
        if self.file is not None and not names:
            raise typer.BadParameter("it needs a model of the hub", param_hint="--hf-file")
        return names[0] if names else None

    def access(self, quiet: bool) -> hub.Access:
        return hub.Access(token=self.token or None, offline=self.offline, quiet=quiet)


def name_of(model: str | None, options: HubOptions | None = None) -> str:
    """The model's name for people: that of its file, or the hub's. The name inside a GGUF file is often the name of a
    build."""
    if model is None:
        return default_model.NAME
    is_repo = options is not None and model == options.repo
    is_file = not is_repo and (Path(model).is_file() or model.lower().endswith(".gguf"))
    return Path(model).stem if is_file else model


def local_file(model: str, options: HubOptions | None = None, *, quiet: bool = False) -> Path:
    """The file of what the user wrote. A file comes first. A name of the hub is fetched, unless it is in the cache.

    Raises `BadParameter` for what is neither, and `EngineError`.
    """
    options = options or HubOptions()
    is_repo = model == options.repo
    if not is_repo and Path(model).is_file():
        if options.file is not None:
            raise typer.BadParameter(f"{model} is a file on this machine", param_hint="--hf-file")
        return Path(model)
    name = hub.hub_name(model)
    if is_repo and name is None:
        raise typer.BadParameter(f"{model!r} is not USER/MODEL or USER/MODEL:QUANT", param_hint="--hf-repo")
    if name is None or (not is_repo and Path(model).is_dir()):
        wrong = (
            "is a folder" if Path(model).is_dir() else "is neither a file nor a name of the hub (USER/MODEL[:QUANT])"
        )
        raise typer.BadParameter(
            f"{model} {wrong}: name a GGUF file, or leave --model out for the small default model",
            param_hint="--model",
        )
    with _no_such_file(None if is_repo else model):
        return hub.fetch_gguf(name, file=options.file, access=options.access(quiet))


def tokenizer_files(tokenizer: str, options: HubOptions | None = None, *, quiet: bool = False) -> str:
    """The same for a tokenizer: a folder or file, or what the hub has under this name. What is neither is returned as
    it is, for whoever reads it to refuse."""
    name = None if Path(tokenizer).exists() else hub.hub_name(tokenizer)
    if name is None:
        return tokenizer
    with _no_such_file(tokenizer):
        return str(hub.fetch_tokenizer(name, access=(options or HubOptions()).access(quiet)))


@contextmanager
def _no_such_file(model: str | None) -> Iterator[None]:
    """Errors of the hub begin with what else the name could have meant, if it could."""
    try:
        yield
    except EngineError as error:
        if model is None:
            raise
        raise EngineError(f"no file {model} is here, and {error.message}", code=error.code, hint=error.hint) from error
