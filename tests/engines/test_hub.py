"""Models by their names on the hub: the real `huggingface_hub`, with a small server on this machine in place of the hub."""

from __future__ import annotations

import builtins
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from fake_hub import TOKEN, FakeHub, fake_hub
from fake_upstream import folder
from huggingface_hub import constants
from typer.testing import CliRunner

from narrows.cli.app import app
from narrows.engines import default_model
from narrows.engines.hub import Access, HubName, fetch_gguf, fetch_tokenizer, hub_name
from narrows.engines.upstream.tokenizer import load_tokenizer
from narrows.errors import EngineError

PARTS = [f"big-Q8_0-{i:05}-of-00003.gguf" for i in (1, 2, 3)]
MODELS = {name: name.encode() for name in (*PARTS, "small-BF16.gguf", "small-IQ4_XS.gguf", "small-Q4_K_M.gguf")}
OTHERS = {"README.md": b"", "imatrix-Q4_K_M.gguf": b"", "mmproj-Q4_K_M.gguf": b""}
REPOS = {
    "user/model-GGUF": {**OTHERS, **MODELS},
    "user/plain": {"z.gguf": b"z", "a.gguf": b"a"},
    "user/eight": {"a-F16.gguf": b"a", "b-q8_0.gguf": b"b"},
    "user/torn": {PARTS[0]: b"", PARTS[2]: b""},
    "user/weights": {"model.safetensors": b""},
    "private/model": {"a-Q4_K_M.gguf": b"mine"},
}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    with fake_hub(REPOS) as hub:
        use(hub.url, monkeypatch)
        yield hub


def use(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What HF_ENDPOINT does when the library is imported."""
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")


def refused(name: str, **options: object) -> EngineError:
    wanted = hub_name(name)
    assert wanted is not None
    with pytest.raises(EngineError) as caught:
        fetch_gguf(wanted, **options)  # type: ignore[arg-type]
    return caught.value


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("user/model", HubName("user/model", None)),
        ("Qwen/Qwen3-0.6B-GGUF:Q8_0", HubName("Qwen/Qwen3-0.6B-GGUF", "Q8_0")),
        ("user/model:UD-Q4_K_XL", HubName("user/model", "UD-Q4_K_XL")),
        *((text, None) for text in ("model", "a/b/c", "./model", "../model", "/model", "~/model", "", "/", "user/")),
        *((text, None) for text in ("models/a.gguf", "models/tokenizer.json", "user/model:", "user/model:a/b", "C:/m")),
        ("user/" + "m" * 100, None),
    ],
)
def test_what_has_the_form_of_a_name(text: str, name: HubName | None) -> None:
    assert hub_name(text) == name


@pytest.mark.parametrize(
    ("name", "fetched"),
    [
        ("user/model-GGUF", "small-Q4_K_M.gguf"),
        ("user/model-GGUF:bf16", "small-BF16.gguf"),
        ("user/model-GGUF:Q8_0", PARTS),
        ("user/eight", "b-q8_0.gguf"),
        ("user/plain", "a.gguf"),
    ],
)
def test_which_file_is_fetched(hub: FakeHub, name: str, fetched: str | list[str]) -> None:
    wanted = hub_name(name)
    assert wanted is not None
    path = fetch_gguf(wanted)
    names = [fetched] if isinstance(fetched, str) else fetched
    assert path.name == names[0]
    assert [each.read_bytes() for each in sorted(path.parent.iterdir())] == [REPOS[wanted.repo][n] for n in names]
    assert hub.fetched == names
    fetch_gguf(wanted)
    assert hub.fetched == names, "it was fetched again"


def test_a_file_by_its_name(hub: FakeHub) -> None:
    name = HubName("user/model-GGUF", "Q4_K_M")
    assert fetch_gguf(name, file="small-bf16.gguf").name == "small-BF16.gguf"
    assert fetch_gguf(name, file=PARTS[1]).name == PARTS[0]


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("user/nobody", "hub_not_found", "HF_TOKEN"),
        ("private/model", "hub_not_found", "HF_TOKEN"),
        ("gated/model", "hub_access_denied", "/gated/model"),
        ("user/weights", "model_missing", "no GGUF file"),
        ("user/model-GGUF:F16", "model_missing", "It has Q8_0, BF16, IQ4_XS, Q4_K_M"),
        ("user/torn:Q8_0", "model_missing", PARTS[1]),
        ("user/a--b", "hub_not_found", "a--b"),
    ],
)
def test_what_is_not_there(hub: FakeHub, name: str, code: str, said: str) -> None:
    error = refused(name)
    assert error.code == code
    assert said in str(error)
    assert hub.fetched == []


def test_a_file_that_is_not_there(hub: FakeHub) -> None:
    assert "b-q8_0.gguf" in str(refused("user/eight", file="c.gguf"))


def test_a_token(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fetch_gguf(HubName("private/model", None), access=Access(token=TOKEN)).read_bytes() == b"mine"
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    assert refused("private/model:Q8_0").code == "hub_not_found"


def test_offline(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    offline = Access(offline=True)
    assert "without --offline" in str(refused("user/plain", access=offline))
    path = fetch_gguf(HubName("user/model-GGUF", None))
    asked = list(hub.asked)
    assert fetch_gguf(HubName("user/model-GGUF", None), access=offline) == path
    assert "It has Q4_K_M" in str(refused("user/model-GGUF:Q8_0", access=offline))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert fetch_gguf(HubName("user/model-GGUF", None)) == path
    assert "without HF_HUB_OFFLINE" in str(refused("user/plain"))
    assert hub.asked == asked


def test_no_network(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fetch_gguf(HubName("user/model-GGUF", None))
    use("http://127.0.0.1:9", monkeypatch)
    assert fetch_gguf(HubName("user/model-GGUF", None)) == path
    error = refused("user/plain")
    assert (error.code, "could not be fetched" in str(error)) == ("download_failed", True)


def test_a_download_that_breaks_off(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # the library tries again, after pauses
    hub.broken.add("a.gguf")
    assert refused("user/plain").code == "download_failed"
    hub.broken.clear()
    assert fetch_gguf(HubName("user/plain", None)).read_bytes() == b"a"


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "huggingface_hub" else find_spec(name))
    monkeypatch.delitem(sys.modules, "huggingface_hub")
    real = builtins.__import__

    def without(name: str, *args: object) -> object:
        if name.partition(".")[0] == "huggingface_hub":
            raise ImportError(name)
        return real(name, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    error = refused("user/model")
    assert (error.code, error.hint) == ("hub_package_missing", 'pip install "narrows[hub]"')


def test_a_tokenizer(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own").mkdir()
    own = folder(tmp_path / "own")
    files = {path.name: path.read_bytes() for path in own.iterdir()}
    monkeypatch.setattr(hub, "repos", {**REPOS, "user/model": {**files, "model.safetensors": b"large"}})
    path = fetch_tokenizer(HubName("user/model", None))
    assert "model.safetensors" not in hub.fetched
    mine, theirs = load_tokenizer(own), load_tokenizer("user/model")
    assert Path(theirs.path) == path
    assert theirs.encode("Hello") == mine.encode("Hello")
    assert theirs.chat_template == mine.chat_template
    assert theirs.vocabulary.eos_ids == mine.vocabulary.eos_ids


def test_no_tokenizer(hub: FakeHub) -> None:
    for repo, said in (("user/plain", "user/plain:QUANT"), ("user/weights", "original model")):
        with pytest.raises(EngineError, match=said) as caught:
            load_tokenizer(repo)
        assert caught.value.code == "tokenizer_missing"
    assert fetch_tokenizer(HubName("user/model-GGUF", "BF16")).name == "small-BF16.gguf"


@pytest.mark.model
def test_the_command(tmp_path: Path) -> None:
    with fake_hub(
        {"user/small-GGUF": {"small-Q4_K_M.gguf": b"", "small-Q4_1.gguf": default_model.default_gguf()}}
    ) as hub:
        environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path)}
        words = ["generate", "x", "--choice", "red", "--json", "--model", "user/small-GGUF:Q4_1"]
        command = [sys.executable, "-m", "narrows.cli", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["choices"][0]["message"]["content"] == "red"
    assert hub.fetched == ["small-Q4_1.gguf"]


def said(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})
    return result.exit_code, result.output


def test_a_name_that_is_neither_a_file_nor_on_the_hub(hub: FakeHub) -> None:
    for words in (("serve", "user/nobody"), ("generate", "x", "-m", "user/nobody")):
        code, text = said(*words)
        assert code == 5
        assert "no file user/nobody is here, and the hub has no repository user/nobody" in text
    code, text = said("serve", "--hf-repo", "user/nobody")
    assert (code, "no file" in text, "hub has no repository" in text) == (5, False, True)
    code, text = said("serve", "--upstream", "http://127.0.0.1:9", "--tokenizer", "user/nobody")
    assert (code, "no file user/nobody is here" in text) == (5, True)
    code, text = said("check", "pyproject.toml", "--language", "choice", "--vocab", "user/nobody")
    assert (code, "no file user/nobody is here" in text) == (5, True)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("serve nothing.gguf", "neither a file nor a name of the hub"),
        ("serve a/b/c", "neither a file nor a name of the hub"),
        ("serve docs/formats", "is a folder"),
        ("serve user/a -hf user/b --hf-file a.gguf", "it belongs to one model"),
        ("generate x -m user/a -hfr user/b", "named twice"),
        ("serve --hf-file a.gguf", "needs a model of the hub"),
        ("generate x -hf model", "is not USER/MODEL"),
        ("generate x -m README.md --hf-file a.gguf", "is a file on this machine"),
        ("serve --upstream http://127.0.0.1:9 -hf user/a", "the upstream runs the model"),
    ],
)
def test_what_is_refused_before_anybody_is_asked(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch, words: str, text: str
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    code, shown = said(*words.split())
    assert (code, text in shown) == (2, True), shown
    assert hub.asked == []
