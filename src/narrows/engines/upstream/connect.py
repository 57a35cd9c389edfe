"""The start: waits for the upstream, finds out what it is and what its model is, and loads the tokenizer.

The tokenizer must be the model's own. So where the upstream can be asked, both read a text, and must read the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narrows.engines.upstream.client import Client, message_of
from narrows.engines.upstream.completions import NarrowsVllm, OpenAi, SgLang, Vllm
from narrows.engines.upstream.llama_cpp import LlamaCpp
from narrows.engines.upstream.servers import Server
from narrows.engines.upstream.tokenizer import Tokenizer, load_tokenizer
from narrows.errors import EngineError, InputError

KINDS = ("vllm", "sglang", "llama.cpp", "openai")
_OWNERS = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llama.cpp"}
"""What servers say of their models (`owned_by`)."""
_PROBE = 'Hello, 12 wörld!\n\n  {"a": [1, 2]} 日本 🦩'
_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class Connected:
    """An upstream that answers."""

    server: Server
    tokenizer: Tokenizer
    name: str
    """The model's name for people."""
    chat_template: str | None
    max_model_len: int


def connect(
    client: Client,
    *,
    tokenizer: str | os.PathLike[str] | None,
    kind: str | None,
    model: str | None,
    max_model_len: int | None,
    wait: float,
    progress: Callable[[str], None],
) -> Connected:
    """See `UpstreamEngine`."""
    if kind is not None and kind not in KINDS:
        raise InputError(f"{kind!r} is no kind of upstream: {', '.join(KINDS)}", code="engine_option_invalid")
    models = _models(client, wait, progress)
    listed = next((entry for entry in models if entry.get("id") == model), None) if model else models[0]
    if listed is None:
        names = ", ".join(str(entry.get("id")) for entry in models[:10])
        raise InputError(f"the upstream has no model {model!r}: it has {names}", code="model_not_found")
    kind = kind or _OWNERS.get(str(listed.get("owned_by")), "openai")
    props = _props(client) if kind == "llama.cpp" else {}
    own = load_tokenizer(tokenizer or _files(listed, props))
    try:
        length = max_model_len or _length(listed, props)
        _compare(client, kind, str(listed.get("id")), own)
        server = _server(client, kind, str(listed.get("id")), own)
    except BaseException:
        own.close()
        raise
    template = own.chat_template or props.get("chat_template") or None
    return Connected(server, own, Path(str(listed.get("id"))).stem or "model", template, length)


def _models(client: Client, wait: float, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    until = time.monotonic() + wait
    while True:
        try:
            status, answer = client.ask("/v1/models")
        except EngineError as error:
            problem = error
        else:
            models = answer.get("data") if isinstance(answer, dict) else None
            is_list = isinstance(models, list) and bool(models) and all(isinstance(m, dict) for m in models)
            is_loading = client.ask("/health")[0] == 503  # llama.cpp lists its model before it has loaded it
            if status == 200 and is_list and not is_loading:
                return list(models or ())
            said = "it is loading" if is_loading else message_of(answer) or "it lists no models"
            problem = EngineError(
                f"the upstream {client.root} answered {status} to /v1/models: {said}",
                code="upstream_refused" if status in (401, 403, 404) else "upstream_unreachable",
                hint="Give its key with --upstream-api-key" if status in (401, 403) else None,
            )
            if problem.code == "upstream_refused":
                raise problem
        if time.monotonic() + _PAUSE > until:
            raise problem
        progress(f"waiting for the upstream {client.root}")
        time.sleep(_PAUSE)


def _props(client: Client) -> dict[str, Any]:
    status, props = client.ask("/props")
    return props if status == 200 and isinstance(props, dict) else {}


def _files(listed: dict[str, Any], props: dict[str, Any]) -> str:
    """The model's files, where the upstream names them and they are on this machine."""
    named = props.get("model_path") or listed.get("root")
    if isinstance(named, str) and os.path.isabs(named) and os.path.exists(named):
        return named
    raise EngineError(
        "the tokenizer of the upstream's model is not on this machine",
        code="tokenizer_missing",
        hint="Name it with --tokenizer: a folder with a tokenizer.json, the model's GGUF file, or its name on the hub",
    )


def _length(listed: dict[str, Any], props: dict[str, Any]) -> int:
    length = (props.get("default_generation_settings") or {}).get("n_ctx") or listed.get("max_model_len")
    if type(length) is not int or length < 2:
        raise InputError(
            "the upstream does not say how many tokens its model can read and write",
            code="engine_option_invalid",
            hint="Say it with --max-model-len",
        )
    return length


def _compare(client: Client, kind: str, model: str, own: Tokenizer) -> None:
    """Raises EngineError `tokenizer_mismatch` if the upstream reads a text otherwise."""
    if kind == "llama.cpp":
        body: dict[str, Any] = {"content": _PROBE, "add_special": False}
    elif kind in ("vllm", "sglang"):
        body = {"model": model, "prompt": _PROBE, "add_special_tokens": False}
    else:
        return
    status, answer = client.ask("/tokenize", body)
    theirs = answer.get("tokens") if status == 200 and isinstance(answer, dict) else None
    if isinstance(theirs, list) and theirs != own.encode(_PROBE):
        raise EngineError(
            f"the tokenizer {own.path!r} is not that of the upstream's model: they read a text in different ways",
            code="tokenizer_mismatch",
            hint="Name the model's own tokenizer with --tokenizer",
        )


def _server(client: Client, kind: str, model: str, own: Tokenizer) -> Server:
    vocabulary = own.vocabulary
    if kind == "llama.cpp":
        return LlamaCpp(model, vocabulary)
    if kind == "sglang":
        return SgLang(model, vocabulary)
    if kind == "vllm":
        return NarrowsVllm(model, vocabulary) if _has_narrows(client, model, own) else Vllm(model, vocabulary)
    bos = own.special_tokens.get("bos_token", "") if own.add_bos else ""
    return OpenAi(model, vocabulary, lambda text: own.encode(text, parse_special=True), bos)


def _has_narrows(client: Client, model: str, own: Tokenizer) -> bool:
    """Whether a vLLM has the narrows plug-in: it refuses a broken grammar in a field that others do not read."""
    body = {"model": model, "prompt": own.encode("a")[:1], "max_tokens": 1, "vllm_xargs": {"narrows_regex": "("}}
    status, answer = client.ask("/v1/completions", body, timeout=60.0)
    return status == 400 and "[narrows: regex_invalid]" in message_of(answer)
