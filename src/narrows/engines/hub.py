"""Models and tokenizers by their names on the Hugging Face Hub. The library `huggingface_hub` fetches and caches them.

A name is `user/model`. For GGUF files a quantisation may follow: `user/model:Q8_0`. It means what llama.cpp's `-hf`
means: without a quantisation it is Q4_K_M, else Q8_0, else the first file. A quantisation is a whole word of a file's
name here, so F16 is not found in BF16.

Nothing is fetched but what is asked for by name. The cache, its place (`HF_HOME`), the address (`HF_ENDPOINT`), the
token (`HF_TOKEN`, or that of `hf auth login`) and `HF_HUB_OFFLINE` are the library's. Where the hub cannot be reached,
what is in the cache is taken. Cost: one question and one download for each file; none offline.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from narrows.errors import EngineError

DEFAULT_QUANTS = ("Q4_K_M", "Q8_0")
"""What is looked for where no quantisation is named, in this order, as llama.cpp does."""
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "config.json",
    "chat_template.jinja",
)
"""What `Vocabulary.from_tokenizer_json` and the upstream's tokenizer read."""
_NO_MODELS = ("mmproj", "imatrix", "mtp-", "eagle3-", "dflash-", "dspark-")
"""In names of GGUF files that are no language model, but something beside one. llama.cpp leaves out the same."""
_IN_NAMES = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
_LONGEST = 96
"""Characters of a name of the hub."""


class HubName(NamedTuple):
    """A repository, and the quantisation that was named after it."""

    repo: str
    quant: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How the hub is asked."""

    token: str | None = None
    """None: the library's own (`HF_TOKEN`, `hf auth login`)."""
    offline: bool = False
    """Take what is in the cache, and ask nobody. `HF_HUB_OFFLINE=1` does the same."""
    quiet: bool = False
    """No progress bar."""


def hub_name(text: str) -> HubName | None:
    """The name that the text has the form of: `user/model` or `user/model:quant`. None for any other text. What ends in
    `.gguf` or `.json` is the name of a file."""
    repo, colon, quant = text.partition(":")
    parts = repo.split("/")
    if len(parts) != 2 or len(repo) > _LONGEST or repo.lower().endswith((".gguf", ".json")) or (colon and not quant):
        return None
    for part in parts:
        if not part or not _IN_NAMES.issuperset(part) or part[0] in ".-" or part[-1] in ".-":
            return None
    return HubName(repo, quant or None) if _IN_NAMES.issuperset(quant) else None


def fetch_gguf(name: HubName, *, file: str | None = None, access: Access | None = None) -> Path:
    """The GGUF file of a repository: the path in the library's cache. Of a model in several files it is the first one,
    and all are fetched. `file`: its name in the repository, in place of the quantisation.

    Raises EngineError: `hub_package_missing`, `hub_not_found`, `hub_access_denied`, `download_failed`, `model_missing`
    (there is no such file).
    """
    access = access or Access()
    files = _files(name.repo, access)
    chosen = _named(files, file, name.repo) if file is not None else _chosen(files, name)
    paths = [_fetch(name.repo, part, access) for part in _parts(chosen, files, name.repo)]
    if len({path.parent for path in paths}) > 1:
        raise EngineError(
            f"the repository {name.repo} changed while its files were fetched", code="download_failed", hint="Try again"
        )
    return paths[0]


def fetch_tokenizer(name: HubName, *, access: Access | None = None) -> Path:
    """What a tokenizer can be loaded from: the folder in the library's cache with a repository's `tokenizer.json` and
    what belongs to it. With a quantisation it is the GGUF file.

    Raises EngineError as `fetch_gguf` does; `tokenizer_missing` where the repository has no `tokenizer.json`.
    """
    access = access or Access()
    if name.quant is not None:
        return fetch_gguf(name, access=access)
    files = _files(name.repo, access)
    if TOKENIZER_FILES[0] not in files:
        ggufs = any(file.endswith(".gguf") for file in files)
        raise EngineError(
            f"the repository {name.repo} has no tokenizer.json",
            code="tokenizer_missing",
            hint=f"It has GGUF files: name one as {name.repo}:QUANT, or name the repository of the original model"
            if ggufs
            else "Name the repository of the original model",
        )
    for other in TOKENIZER_FILES[1:]:
        if other in files:
            _fetch(name.repo, other, access)
    return _fetch(name.repo, TOKENIZER_FILES[0], access).parent


# Which file.


def _chosen(files: list[str], name: HubName) -> str:
    models = [file for file in files if _is_model(file)]
    if not models:
        raise EngineError(
            f"the repository {name.repo} has no GGUF file",
            code="model_missing",
            hint="Name one that has: their names often end in -GGUF",
        )
    for quant in (name.quant,) if name.quant else DEFAULT_QUANTS:
        for file in models:
            if _has_word(file, quant):
                return file
    if name.quant is None:
        return models[0]
    raise EngineError(
        f"the repository {name.repo} has no GGUF file of quantisation {name.quant}",
        code="model_missing",
        hint=f"It has {_listed(_quant(file) for file in models)}",
    )


def _named(files: list[str], file: str, repo: str) -> str:
    for same in (file, next((each for each in files if each.lower() == file.lower()), "")):
        if same in files:
            return same
    has = _listed(each for each in files if each.endswith(".gguf"))
    raise EngineError(
        f"the repository {repo} has no file {file!r}", code="model_missing", hint=f"Its GGUF files: {has or 'none'}"
    )


def _is_model(file: str) -> bool:
    """Whether it is a GGUF file of a language model, or the first of several."""
    last = file.rpartition("/")[2]
    return file.endswith(".gguf") and _split(file)[1] == 1 and not any(word in last for word in _NO_MODELS)


def _has_word(file: str, quant: str) -> bool:
    """Whether the quantisation stands in the name as a word, in any case."""
    text, word = file.lower(), quant.lower()
    at = text.find(word)
    while at >= 0:
        if text[at + len(word) : at + len(word) + 1] in ("-", ".", "/") and (at == 0 or text[at - 1] in "-./_"):
            return True
        at = text.find(word, at + 1)
    return False


def _quant(file: str) -> str:
    """What stands last in the name, which is the quantisation in nearly all of them."""
    stem = _split(file)[0].rpartition("/")[2]
    return stem[max(stem.rfind("-"), stem.rfind(".")) + 1 :].upper()


def _split(file: str) -> tuple[str, int, int]:
    """(name without its number, number, count) of a file such as `model-00001-of-00003.gguf`."""
    stem = file.removesuffix(".gguf")
    head, _, count = stem.rpartition("-of-")
    start, _, number = head.rpartition("-")
    if start and all(len(n) == 5 and n.isascii() and n.isdecimal() for n in (number, count)):
        return start, int(number), int(count)
    return stem, 1, 1


def _parts(file: str, files: list[str], repo: str) -> list[str]:
    """All files of the model, from the first on."""
    stem, number, count = _split(file)
    if (number, count) == (1, 1):
        return [file]
    parts = [f"{stem}-{i:05}-of-{count:05}.gguf" for i in range(1, count + 1)]
    if missing := [part for part in parts if part not in files]:
        raise EngineError(
            f"of the {count} files of {parts[0]}, {len(missing)} are missing in {repo}: {missing[0]}",
            code="model_missing",
            hint="Name another quantisation, or fetch the whole model once without --offline",
        )
    return parts


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


# The library.


def _files(repo: str, access: Access) -> list[str]:
    """The names of a repository's files: what the hub says, or what is in the cache where it cannot be asked."""
    with _told(repo, access):
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

        if not _is_offline(access):
            try:
                # Not list_repo_files: without a network it tries for half a minute.
                siblings = HfApi(token=access.token).model_info(repo).siblings
                return sorted(each.rfilename for each in siblings or ())
            except HfHubHTTPError as error:
                if error.response.status_code < 500:
                    raise
                problem: Exception = error
            except Exception as error:  # of the library's HTTP client, which is another one in each of its releases
                problem = error
            try:
                return _kept(repo)
            except LocalEntryNotFoundError:
                raise problem from None
        return _kept(repo)


def _kept(repo: str) -> list[str]:
    """The names of the files in the cache. Raises the library's error where there is nothing of this repository."""
    from huggingface_hub import snapshot_download

    # With no pattern nothing is wanted, so nothing is missing: it gives the folder as it is.
    folder = Path(snapshot_download(repo, local_files_only=True, allow_patterns=[]))
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _fetch(repo: str, file: str, access: Access) -> Path:
    """The path of a file in the cache, where the library puts it if it is not there."""
    with _told(repo, access):
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download(repo, file, token=access.token, local_files_only=access.offline))


@contextmanager
def _told(repo: str, access: Access) -> Iterator[None]:
    """Turns what the library raises into one error that says what to do."""
    if importlib.util.find_spec("huggingface_hub") is None:
        raise EngineError(
            f"{repo} can only be fetched with the package huggingface_hub",
            code="hub_package_missing",
            hint='pip install "narrows[hub]"',
        )
    from huggingface_hub import errors
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if access.quiet:
        disable_progress_bars()
    try:
        yield
    except EngineError:
        raise
    except errors.GatedRepoError as error:
        raise EngineError(
            f"the repository {repo} is gated: its owner lets in only who has asked",
            code="hub_access_denied",
            hint=f"Ask for access on its page, {_page(repo)}, and give your token with --hf-token or HF_TOKEN",
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise EngineError(
            f"the hub has no repository {repo}, or does not show it to you",
            code="hub_not_found",
            hint="Check the name. A private one needs your token: --hf-token or HF_TOKEN",
        ) from error
    except errors.LocalEntryNotFoundError as error:
        raise _unreachable(repo, access, error.__cause__ or error) from error
    except errors.HFValidationError as error:
        raise EngineError(f"{repo} is no name of a repository: {error}", code="hub_not_found") from error
    except Exception as error:  # of the library, of its HTTP client, or of the disk
        raise _unreachable(repo, access, error) from error


def _unreachable(repo: str, access: Access, error: BaseException) -> EngineError:
    if _is_offline(access):
        return EngineError(
            f"{repo} is not in the cache, and nothing is fetched offline",
            code="download_failed",
            hint=f"Run it once without {'--offline' if access.offline else 'HF_HUB_OFFLINE'}",
        )
    return EngineError(
        f"{repo} could not be fetched: {' '.join(str(error).split()) or type(error).__name__}",
        code="download_failed",
        hint="Try again, or fetch the file elsewhere and name it here. HF_ENDPOINT names a mirror",
    )


def _is_offline(access: Access) -> bool:
    from huggingface_hub import constants

    return access.offline or bool(constants.HF_HUB_OFFLINE)


def _page(repo: str) -> str:
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/{repo}"
