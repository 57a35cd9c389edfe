"""The engines that benchmarks compare, behind one face: narrows, llguidance, xgrammar and glrmask.

An engine reads a tokenizer's folder once. `compile` takes a definition and gives a function that starts a sequence.
A sequence fills its mask into `row`, and accepts a token. An engine that cannot read a kind of definition raises
`NotRead`. Everything else that `compile` raises is a refusal.

Each engine stands as its makers set it up, with one thread where it has the choice. glrmask has not: its compilation
uses the machine's cores, so measure the CPU time of the whole process. Cost of loading: `loading` says it.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np


class NotRead(Exception):
    """This engine has no front end for this kind of definition."""


class Session(Protocol):
    """One sequence of one engine."""

    row: np.ndarray

    def fill(self) -> None: ...
    def accept(self, token: int) -> bool: ...


class Engine(Protocol):
    """What is made ahead of the first definition may be a number of its own: `ahead`."""

    name: str
    loading: Loading

    def compile(self, source: Any, kind: str = "json_schema") -> Callable[[], Session]:
        """Everything that a new definition costs. The result starts a sequence."""
        ...


@dataclass
class Loading:
    """What it cost to make the engine's vocabulary out of a tokenizer."""

    seconds: float = 0.0
    """CPU time of all threads."""
    bytes: int = 0
    """Growth of the process, of which the engine may give some back later."""

    @contextmanager
    def measured(self) -> Iterator[None]:
        before, start = _resident(), time.process_time()
        yield
        self.seconds, self.bytes = time.process_time() - start, _resident() - before


def _resident() -> int:
    """Bytes of this process in memory; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    except OSError:
        return 0


class Narrows:
    name = "narrows"

    def __init__(self, folder: Path) -> None:
        import narrows
        from narrows.compile_cache import CompileCache
        from narrows.vocabulary import ahead

        self.narrows = narrows
        self.loading, self.ahead = Loading(), Loading()
        few, ahead.FEW_TOKENS = ahead.FEW_TOKENS, 1 << 31  # apart, so that each has its number
        with self.loading.measured():  # the only one whose time includes reading the file
            self.vocabulary = narrows.Vocabulary.from_tokenizer_json(folder / "tokenizer.json")
        ahead.FEW_TOKENS = few
        with self.ahead.measured():
            ahead.prepare(self.vocabulary.compile, self.vocabulary.size)
        self.words = (self.vocabulary.size + 31) // 32
        self.kept: CompileCache[tuple[str, str], Any] = CompileCache(lambda constraint: constraint.bytes)

    def compile(self, source: Any, kind: str = "json_schema") -> Callable[[], Session]:
        read = getattr(self.narrows.Grammar, kind if kind in ("choice", "substring") else f"from_{kind}", None)
        if read is None:
            raise NotRead(kind)
        key = (kind, source if isinstance(source, str) else json.dumps(source))
        lease = self.kept.get(key, lambda: self.vocabulary.compile(read(source)))
        return lambda: NarrowsSession(lease.value.matcher(), self.words)


class NarrowsSession:
    def __init__(self, matcher: Any, words: int) -> None:
        self.row = np.zeros(words, np.int32)
        self.matcher = matcher
        self.accept = matcher.accept

    def fill(self) -> None:
        self.matcher.fill_mask(self.row)


class LLGuidance:
    name = "llguidance"

    def __init__(self, folder: Path) -> None:
        import llguidance.hf
        import llguidance.numpy

        self.module = llguidance
        self.loading = Loading()
        tokenizer = hugging_face(folder)
        with self.loading.measured():
            self.tokenizer = llguidance.hf.from_tokenizer(tokenizer)

    def compile(self, source: Any, kind: str = "json_schema") -> Callable[[], Session]:
        matcher = self.module.LLMatcher
        readers = {
            "json_schema": matcher.grammar_from_json_schema,
            "lark": matcher.grammar_from_lark,
            "regex": matcher.grammar_from_regex,
        }
        if kind not in readers:
            raise NotRead(kind)
        first = matcher(self.tokenizer, readers[kind](source), log_level=0)
        if first.is_error():
            raise ValueError(first.get_error())
        return lambda: LLGuidanceSession(first.deep_copy(), self.module.numpy, self.tokenizer.vocab_size)


class LLGuidanceSession:
    def __init__(self, matcher: Any, module: Any, size: int) -> None:
        self.rows = module.allocate_token_bitmask(1, size)
        self.row = self.rows[0]
        self.matcher = matcher
        self.fill_row = module.fill_next_token_bitmask

    def fill(self) -> None:
        self.fill_row(self.matcher, self.rows, 0)

    def accept(self, token: int) -> bool:
        return bool(self.matcher.consume_token(token))


class XGrammar:
    name = "xgrammar"

    def __init__(self, folder: Path) -> None:
        import torch
        import xgrammar

        torch.set_num_threads(1)
        self.module = xgrammar
        self.loading = Loading()
        tokenizer = hugging_face(folder)
        with self.loading.measured():
            self.info = xgrammar.TokenizerInfo.from_huggingface(tokenizer)
            self.compiler = xgrammar.GrammarCompiler(self.info, max_threads=1)

    def compile(self, source: Any, kind: str = "json_schema") -> Callable[[], Session]:
        # Not strict: an object that does not say so is open, as the standard has it and as the others read it.
        readers = {
            "json_schema": lambda text: self.compiler.compile_json_schema(text, strict_mode=False),
            "ebnf": self.compiler.compile_grammar,
            "lark": self.compiler.compile_lark,
            "regex": self.compiler.compile_regex,
        }
        if kind not in readers:
            raise NotRead(kind)
        compiled = readers[kind](source)
        return lambda: XGrammarSession(self.module, compiled, self.info.vocab_size)


class XGrammarSession:
    def __init__(self, module: Any, compiled: Any, size: int) -> None:
        self.matcher = module.GrammarMatcher(compiled)
        self.bitmask = module.allocate_token_bitmask(1, size)
        self.row = self.bitmask.numpy()[0]
        self.accept = self.matcher.accept_token

    def fill(self) -> None:
        self.matcher.fill_next_token_bitmask(self.bitmask)


class GLRMask:
    name = "glrmask"

    def __init__(self, folder: Path) -> None:
        import glrmask

        self.module = glrmask
        self.loading = Loading()
        pieces = bytes_of_tokens(folder)
        with self.loading.measured():
            self.vocabulary = glrmask.Vocab.from_id_to_bytes({token: piece for token, piece in pieces.items() if piece})
        self.words = (len(pieces) + 31) // 32

    def compile(self, source: Any, kind: str = "json_schema") -> Callable[[], Session]:
        readers = {"json_schema": self.module.Grammar.from_json_schema, "lark": self.module.Grammar.from_lark}
        if kind not in readers:
            raise NotRead(kind)
        constraint = readers[kind](source).compile(self.vocabulary)
        return lambda: GLRMaskSession(constraint, self.words)


class GLRMaskSession:
    def __init__(self, constraint: Any, words: int) -> None:
        self.row = np.zeros(max(words, constraint.mask_len()), np.int32)
        self.state = constraint.start()
        self.accept = self.state.commit_token

    def fill(self) -> None:
        self.state.fill_mask(self.row)


ENGINES: dict[str, Callable[[Path], Engine]] = {
    "narrows": Narrows,
    "llguidance": LLGuidance,
    "xgrammar": XGrammar,
    "glrmask": GLRMask,
}


# What an engine gets, and does not make itself, is kept: benchmarks make engines again and again.
@functools.cache
def bytes_of_tokens(folder: Path) -> dict[int, bytes]:
    """By narrows' reader: glrmask reads no tokenizer files."""
    import narrows

    read = narrows.Vocabulary.from_tokenizer_json(folder / "tokenizer.json")
    return {token: read.token_bytes(token) for token in range(read.size)}


@functools.cache
def hugging_face(folder: Path) -> Any:
    from transformers import PreTrainedTokenizerFast

    config = json.loads((folder / "tokenizer_config.json").read_text())
    eos = config["eos_token"]
    return PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), eos_token=eos if isinstance(eos, str) else eos["content"]
    )


def folder_of(tokenizer: str) -> Path:
    """`tokenizer`: a folder, or a name of tests/support/real_tokenizers.py, which fetches it if need be."""
    folder = Path(tokenizer)
    if folder.is_dir():
        return folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
    import real_tokenizers

    return real_tokenizers.folder(tokenizer)
