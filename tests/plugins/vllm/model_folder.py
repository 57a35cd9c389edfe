"""The small default model as the folder that vLLM wants, made from its GGUF file. Run once, with vLLM's Python:

    python tests/plugins/vllm/model_folder.py        # prints the two folders; does nothing where they are

vLLM reads Hugging Face folders, and a bare machine has none; the GGUF file comes from a package index (`narrows.engines.default_model`). The result lies in the
cache (`$XDG_CACHE_HOME/narrows/vllm`, `~/.cache/narrows/vllm`), 269 MB in bfloat16:

    SmolLM2-135M-Instruct            as it is: a marker such as <tool_call> is written in ordinary tokens
    SmolLM2-135M-Instruct-markers    the same weights, with tokens that the model never writes renamed to the markers of the tool formats, as models
                                     that were trained for a format have them

Both have a chat template that describes tools, which the model's own does not.
Cost: half a minute and 2 GB of memory. The source is pinned by its sha256; a folder is complete when it exists, since it is renamed into place.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from narrows.engines import default_model

FOLDER = default_model.cache_dir() / "vllm"
PLAIN = FOLDER / default_model.NAME
MARKERS = FOLDER / f"{default_model.NAME}-markers"

# Tokens that the model knows from code repositories and notebooks, and what they are called in the folder with markers.
RENAMED = {
    "<repo_name>": "<tool_call>",
    "<reponame>": "</tool_call>",
    "<file_sep>": "[TOOL_CALLS]",
    "<filename>": "[ARGS]",
    "<gh_stars>": "[CALL_ID]",
    "<issue_start>": "<think>",
    "<issue_comment>": "</think>",
    "<issue_closed>": "[THINK]",
    "<jupyter_start>": "[/THINK]",
}
CHAT_TEMPLATE = Path(__file__).with_name("chat_template.jinja")
WEIGHTS = "model.safetensors"


def convert(source: Path, folder: Path) -> None:
    """The GGUF file's weights, dequantized, and its tokenizer, as transformers saves them."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    model = AutoModelForCausalLM.from_pretrained(
        source.parent,
        gguf_file=source.name,
        quantization_config=GgufConfig(dequantize=True),  # else it stays quantized, and cannot be saved
        dtype=torch.bfloat16,
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def with_markers(plain: Path, folder: Path) -> None:
    """A folder whose tokenizer has the markers as special tokens; the weights are a link to the plain folder's."""
    for path in plain.iterdir():
        if path.name == WEIGHTS:
            (folder / WEIGHTS).symlink_to(plain / WEIGHTS)
        else:
            shutil.copyfile(path, folder / path.name)
    path = folder / "tokenizer.json"
    tokenizer: dict[str, Any] = json.loads(path.read_text())
    for token in tokenizer["added_tokens"]:
        token["content"] = RENAMED.get(token["content"], token["content"])
    vocabulary = tokenizer["model"]["vocab"]
    tokenizer["model"]["vocab"] = {RENAMED.get(name, name): token for name, token in vocabulary.items()}
    path.write_text(json.dumps(tokenizer, ensure_ascii=False))


def make(target: Path, fill: Any) -> None:
    """`fill` writes into a new folder, which gets its name when it is whole."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="making-") as work:
        folder = Path(work) / "folder"
        folder.mkdir()
        fill(folder)
        try:
            os.rename(folder, target)
        except OSError:  # another process was as busy, and quicker
            if not target.is_dir():
                raise


def digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not PLAIN.is_dir():
        source = default_model.default_gguf(progress=lambda line: print(line, file=sys.stderr))
        if digest(source) != default_model.GGUF_SHA256:
            sys.exit(f"{source} is not the pinned model: sha256 {digest(source)}, not {default_model.GGUF_SHA256}")
        print(f"converting {source.name}", file=sys.stderr)
        make(PLAIN, lambda folder: convert(source, folder))
        print(f"sha256 of {WEIGHTS}: {digest(PLAIN / WEIGHTS)}", file=sys.stderr)
    if not MARKERS.is_dir():
        make(MARKERS, lambda folder: with_markers(PLAIN, folder))
    for folder in (PLAIN, MARKERS):
        shutil.copyfile(CHAT_TEMPLATE, folder / "chat_template.jinja")
    print(PLAIN, MARKERS, sep="\n")


if __name__ == "__main__":
    main()
