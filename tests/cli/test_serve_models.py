"""`narrows serve` with several models: names on the command line, and one process with real models behind them."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import typer
from openai import AsyncOpenAI, NotFoundError, OpenAI
from serving import eventually, metric
from test_terminal import interrupts_count  # noqa: F401  # used by itself
from typer.testing import CliRunner

from narrows.cli.app import app
from narrows.cli.model_file import HubOptions
from narrows.cli.several import models_asked, split, value_of, values_of
from narrows.engines import default_model

RUN = CliRunner()
OWN = b"{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
OTHER = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if tools %}[TOOL_CALLS]{{ tools[0].function.name }}{% endif %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
ASK: list[Any] = [{"role": "user", "content": "Name a city."}]
CITY = {
    "type": "function",
    "function": {
        "name": "note",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 12}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def asked(*models: str, **options: list[str]) -> list[tuple[str | None, tuple[str, ...]]]:
    given = {"lora": [], "lora_scaled": [], "tool_call_parser": [], "reasoning_parser": [], "chat_template": []}
    served = options.pop("served", [])
    return [(one.model, one.names) for one in models_asked(models, served, hub=HubOptions(), **{**given, **options})]


class TestNames:
    def test_a_name_stands_before_the_file(self, tmp_path: Path) -> None:
        assert split("qwen=dir/a.gguf") == ("qwen", "dir/a.gguf")
        assert split("Qwen/Qwen3-8B=a=b.gguf") == ("Qwen/Qwen3-8B", "a=b.gguf")
        assert split("a.gguf") == (None, "a.gguf")
        odd = tmp_path / "step=100.gguf"
        odd.write_bytes(b"")
        assert split(str(odd)) == (None, str(odd))

    def test_without_names_they_are_the_files(self) -> None:
        assert asked() == [(None, ())]
        assert asked("dir/a.gguf") == [("dir/a.gguf", ("a",))]
        assert asked("a.gguf", "x=b.gguf") == [("a.gguf", ("a",)), ("b.gguf", ("x",))]
        assert asked("a.gguf", served=["m", "n", "m"]) == [("a.gguf", ("m", "n"))]
        assert asked(served=["m"]) == [(None, ("m",))]

    def test_what_belongs_to_one_model_names_it(self) -> None:
        models = [("a",), ("b", "c")]
        assert values_of(["a=x", "c=y", "b=z"], models, "--lora") == [["x"], ["y", "z"]]
        assert values_of(["x", "a=y"], [("a",)], "--lora") == [["x", "y"]]
        assert values_of(["d=y"], [("a",)], "--lora") == [["d=y"]]
        assert value_of(["none"], models, "--reasoning-parser", for_all=("none",)) == ["none", "none"]
        with pytest.raises(typer.BadParameter, match="for the same model"):
            value_of(["b=x", "c=y"], models, "--chat-template")

    @pytest.mark.parametrize(
        ("arguments", "flag", "says"),
        [
            (["a.gguf", "x/a.gguf"], "--model", "two models have the name 'a'"),
            (["x=a.gguf", "-m", "x=b.gguf"], "--model", "two models have the name 'x'"),
            (["=a.gguf"], "--model", "is not NAME=FILE"),
            (["a="], "--model", "is not NAME=FILE"),
            (["a.gguf", "b.gguf", "--served-model-name", "x"], "--served-model-name", "NAME=FILE"),
            (["y=a.gguf", "--served-model-name", "x"], "--served-model-name", "NAME=FILE"),
            (["a.gguf", "b.gguf", "--tool-call-parser", "mistral"], "--tool-call-parser", "write b=mistral"),
            (["a.gguf", "b.gguf", "--format", "c=mistral"], "--tool-call-parser", "there are a, b"),
            (["a.gguf", "b.gguf", "--chat-template", "x.jinja"], "--chat-template", "write b=x.jinja"),
            (["a.gguf", "b.gguf", "--reasoning-parser", "think"], "--reasoning-parser", "write b=think"),
            (["a.gguf", "b.gguf", "--lora", "x.gguf"], "--lora", "write b=x.gguf"),
            (["a.gguf", "b.gguf", "--lora-scaled", "x.gguf:1"], "--lora-scaled", "write b=x.gguf:1"),
            (["a.gguf", "b.gguf"], "--model", "a.gguf is neither a file nor a name of the hub"),
            (["a.gguf", "b.gguf", "--upstream", "http://x/v1"], "--model", "the upstream runs the model"),
        ],
    )
    def test_what_is_refused_names_the_option(self, arguments: list[str], flag: str, says: str) -> None:
        result = RUN.invoke(app, ["serve", "--port", "0", *arguments])
        assert result.exit_code == 2, result.output
        assert flag in result.output
        assert says in " ".join(result.output.replace("│", " ").split())

    def test_an_unknown_format_of_one_model_is_refused_before_any_is_loaded(self) -> None:
        result = RUN.invoke(app, ["serve", "--port", "0", "a.gguf", "b.gguf", "--tool-call-parser", "b=nothing"])
        assert result.exit_code == 4
        assert "--tool-call-parser: there is no format 'nothing'" in result.output


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The small model, and a copy whose file has another chat template."""
    own = default_model.default_gguf()
    data = own.read_bytes()
    begin = data.index(OWN)
    length = int.from_bytes(data[begin - 8 : begin], "little")
    other = tmp_path_factory.mktemp("models") / "other.gguf"
    other.write_bytes(data[:begin] + OTHER.encode().ljust(length) + data[begin + length :])
    link = other.with_name("link.gguf")
    link.symlink_to(own)
    return {"own": own, "other": other, "link": link}


def serve(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "narrows.cli", "serve", "--port", "0", "--json", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.fixture(scope="module")
def said(files: dict[str, Path]) -> Iterator[dict[str, Any]]:
    """What a server of three models says when it is ready."""
    models = [f"smol={files['own']}", "--model", files["other"], "-m", f"again={files['link']}"]
    options = ["--tool-call-parser", "again=llama3_json", "-c", "1024", "--max-model-len", "512", "-t", "1"]
    with serve(*models, *options) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
            process.communicate()


@pytest.fixture(scope="module")
def url(said: dict[str, Any]) -> str:
    return str(said["url"])


@pytest.fixture(scope="module")
def client(url: str) -> OpenAI:
    return OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120)


@pytest.mark.model
class TestServed:
    def test_the_command_says_what_it_serves(self, said: dict[str, Any]) -> None:
        each = said["models"]
        assert [one["model"] for one in each] == ["smol", "other", "again"]
        assert [one["format"] for one in each] == ["hermes_json", "mistral", "llama3_json"]
        assert {(one["engine"]["n_ctx"], one["engine"]["n_threads"]) for one in each} == {(1024, 1)}
        assert (said["model"], said["format"]) == ("smol", "hermes_json")

    def test_the_models_are_listed_and_unknown_ones_refused(self, client: OpenAI) -> None:
        assert [one.id for one in client.models.list()] == ["smol", "other", "again"]
        assert client.models.retrieve("other").id == "other"
        with pytest.raises(NotFoundError, match="smol, other, again"):
            client.chat.completions.create(model="third", messages=ASK)

    def test_chats_with_all_at_the_same_time(self, url: str) -> None:
        async def chat(client: AsyncOpenAI, name: str) -> tuple[str, str, int]:
            stream = await client.chat.completions.create(
                model=name,
                messages=ASK,
                temperature=0,
                max_tokens=6,
                stream=True,
                stream_options={"include_usage": True},
            )
            text, model, tokens = "", "", 0
            async for chunk in stream:
                model = chunk.model
                text += "".join(choice.delta.content or "" for choice in chunk.choices)
                tokens = chunk.usage.prompt_tokens if chunk.usage else tokens
            return text, model, tokens

        async def all_of_them() -> list[tuple[str, str, int]]:
            async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120) as client:
                return list(await asyncio.gather(*(chat(client, name) for name in ("smol", "other", "again") * 2)))

        answers = asyncio.run(all_of_them())
        assert [model for _, model, _ in answers] == ["smol", "other", "again"] * 2
        assert answers[:3] == answers[3:]
        (own, _, own_tokens), (_, _, other_tokens), (again, _, again_tokens) = answers[:3]
        assert own
        assert own == again, "the same file"
        assert (again_tokens, own_tokens - other_tokens) == (own_tokens, 18), "the other template has no system message"

    @pytest.mark.parametrize("name", ["smol", "other", "again"])
    def test_each_calls_in_its_own_format(self, client: OpenAI, name: str) -> None:
        answer = client.chat.completions.create(
            model=name,
            messages=ASK,
            tools=[CITY],
            tool_choice="required",
            parallel_tool_calls=False,
            temperature=0,
            max_tokens=60,
        )
        [call] = answer.choices[0].message.tool_calls or ()
        assert call.function.name == "note"
        assert isinstance(json.loads(call.function.arguments)["city"], str)

    def test_the_first_stands_for_no_name(self, url: str) -> None:
        body = {"prompt": "x", "max_tokens": 1}
        assert httpx.post(f"{url}/v1/completions", json=body, timeout=60).json()["model"] == "smol"

    def test_models_of_one_file_share_its_engine(self, client: OpenAI, url: str) -> None:
        def generated(name: str) -> float:
            return metric(url, "narrows_generation_tokens_total", name)

        before = {name: generated(name) for name in ("smol", "other", "again")}
        client.completions.create(model="again", prompt="x", max_tokens=3, extra_body={"ignore_eos": True})
        client.completions.create(model="other", prompt="x", max_tokens=2, extra_body={"ignore_eos": True})
        assert {name: generated(name) - before[name] for name in before} == {"smol": 3, "other": 2, "again": 0}


@pytest.mark.model
class TestLoading:
    def test_the_first_is_closed_when_the_second_does_not_load(
        self, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from narrows.engines.llama_cpp import LlamaCppEngine

        closed = []
        close = LlamaCppEngine.close
        monkeypatch.setattr(LlamaCppEngine, "close", lambda self: (closed.append(self.model_name), close(self)))
        broken = tmp_path / "broken.gguf"
        broken.write_bytes(b"GGUF" + bytes(100))
        arguments = ["serve", "--port", "0", "--json", f"smol={files['own']}", str(broken), "-c", "512"]
        result = RUN.invoke(app, arguments)
        assert result.exit_code not in (0, 130)
        assert "broken.gguf" in result.output
        assert closed == ["SmolLM2-135M-Instruct.Q4_1"]

    def test_an_interrupt_between_two_models_closes_the_first(
        self, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = SimpleNamespace(model_name="x", close=lambda: closed.append("x"))
        closed: list[str] = []
        loaded = iter([engine])

        def load(*arguments: Any, **options: Any) -> Any:
            for one in loaded:
                return one
            raise KeyboardInterrupt

        monkeypatch.setattr("narrows.cli.serve.load_engine", load)
        result = RUN.invoke(app, ["serve", "--port", "0", str(files["own"]), str(files["other"])])
        assert (result.exit_code, closed) == (130, ["x"])

    def test_an_interrupt_while_the_second_loads_ends_the_command(self, files: dict[str, Path]) -> None:
        with serve(files["own"], files["other"], "-c", "512") as process:
            maps = Path(f"/proc/{process.pid}/maps")
            assert eventually(lambda: "other.gguf" in maps.read_text(), 60)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=20)
        assert process.returncode in (130, -signal.SIGINT)
        assert "Traceback" not in errors
