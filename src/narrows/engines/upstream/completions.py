"""Servers with OpenAI's `/v1/completions`: vLLM, SGLang, and any other.

vLLM and SGLang take and give token ids. Of others only the fields of OpenAI's own API are used, and text is all that
they give. Fields: vLLM 0.32 (vllm/entrypoints/openai/completion/protocol.py), SGLang 0.5
(sglang/srt/entrypoints/openai/protocol.py), OpenAI's API reference.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from narrows.decoding.sampling import TokenLogprob
from narrows.engines.api import Request
from narrows.engines.upstream.pieces import Finish, Piece, TextTokens
from narrows.engines.upstream.servers import Reader, Server
from narrows.errors import EngineError, InputError
from narrows.grammar.export import Dialect, Written
from narrows.vocabulary.vocabulary import Vocabulary

_FINISHES: dict[str, Finish] = {"stop": "stop", "length": "length"}


class OpenAi(Server):
    """Any server: it gets the prompt as text, gives text, and holds to no grammar."""

    kind = "openai"
    health = "/v1/models"
    takes_ids = False
    unknown: Collection[str] = ("top_k", "min_p", "repetition_penalty", "min_tokens", "ignore_eos", "logprobs")

    def __init__(
        self, model: str, vocabulary: Vocabulary, encode: Callable[[str], list[int]] | None = None, bos: str = ""
    ) -> None:
        super().__init__(model, vocabulary)
        self._encode = encode
        self._bos = bos
        self._names = {token: name for name, token in vocabulary.special.items()}

    def body(
        self, request: Request, prompt: list[int], seed: int | None, most: int, grammar: Written | None
    ) -> dict[str, Any]:
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": prompt if self.takes_ids else self._text(prompt),
            "max_tokens": most,
            "stream": True,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
        }
        if seed is not None:
            body["seed"] = seed
        bias = {str(token): value for token, value in sampling.logit_bias.items()}
        bias.update({str(token): -100.0 for token in self.banned(grammar)})
        if bias:
            body["logit_bias"] = bias
        return body

    def _text(self, prompt: list[int]) -> str:
        """The prompt as a text that reads as these ids. Raises InputError `prompt_not_text`."""
        names, vocabulary = self._names, self.vocabulary
        data = b"".join([names[t].encode() if t in names else vocabulary.token_bytes(t) for t in prompt])
        text = data.decode("utf-8", "replace")
        if self._encode is None or self._encode(text) != prompt:
            raise InputError(
                "the upstream takes prompts as text alone, and would read this one otherwise: it holds the name of a "
                "special token as ordinary text, or tokens that no text gives",
                code="prompt_not_text",
                pointer="/prompt_token_ids",
                hint="Remove names such as <|im_end|> from the messages",
            )
        # Such servers put the first token before a prompt themselves.
        return text.removeprefix(self._bos) if self._bos else text

    def reader(self, request: Request) -> Reader:
        return _Reader(self.vocabulary, request.sampling.logprobs or 0).read


class _WithIds(OpenAi):
    """What vLLM and SGLang have in common."""

    health = "/health"
    takes_ids = True
    dialect: Dialect | None = Dialect.XGRAMMAR
    unknown: Collection[str] = ()

    def body(
        self, request: Request, prompt: list[int], seed: int | None, most: int, grammar: Written | None
    ) -> dict[str, Any]:
        sampling = request.sampling
        body = super().body(request, prompt, seed, most, grammar)
        body |= {
            "return_token_ids": True,
            "skip_special_tokens": False,
            "top_k": sampling.top_k if sampling.top_k > 0 else -1,
            "min_p": sampling.min_p,
            "repetition_penalty": sampling.repetition_penalty,
            "min_tokens": sampling.min_tokens,
            "ignore_eos": sampling.ignore_eos,
        }
        ends = () if sampling.ignore_eos else self.vocabulary.eos_ids
        body["stop_token_ids"] = sorted({*sampling.stop_token_ids, *ends})
        return body


class Vllm(_WithIds):
    """vLLM 0.32 or newer. Its backend for grammars must be xgrammar, as it is unless the server was told otherwise."""

    kind = "vllm"

    def body(
        self, request: Request, prompt: list[int], seed: int | None, most: int, grammar: Written | None
    ) -> dict[str, Any]:
        body = super().body(request, prompt, seed, most, grammar)
        body["spaces_between_special_tokens"] = False
        if request.sampling.logprobs is not None:
            body |= {"logprobs": request.sampling.logprobs, "return_tokens_as_token_ids": True}
        if grammar is not None:
            self.hand_over(body, grammar)
        return body

    def hand_over(self, body: dict[str, Any], grammar: Written) -> None:
        body["structured_outputs"] = {"grammar": grammar.text}


class NarrowsVllm(Vllm):
    """vLLM with the narrows plug-in: it reads the grammar with narrows' own engine, whatever its backend."""

    kind = "vllm with narrows"
    dialect = Dialect.GBNF
    knows_end_tokens = True
    names_are_text = False

    def hand_over(self, body: dict[str, Any], grammar: Written) -> None:
        body["vllm_xargs"] = {"narrows_grammar": grammar.text}


class SgLang(_WithIds):
    """SGLang, whose backend for grammars must be xgrammar, its default."""

    kind = "sglang"
    unknown = ("logprobs",)

    def body(
        self, request: Request, prompt: list[int], seed: int | None, most: int, grammar: Written | None
    ) -> dict[str, Any]:
        body = super().body(request, prompt, seed, most, grammar)
        if grammar is not None:
            body["ebnf"] = grammar.text
        return body


class _Reader:
    def __init__(self, vocabulary: Vocabulary, top: int) -> None:
        self._top = top
        self._text = TextTokens(vocabulary)

    def read(self, event: dict[str, Any]) -> Piece:
        usage = event.get("usage") or {}
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        choices = event.get("choices") or ()
        if not choices:
            return Piece(cached_tokens=cached)
        choice = choices[0]
        reason = choice.get("finish_reason")
        if reason is not None and reason not in _FINISHES:
            raise EngineError(f"the upstream ended the answer: {reason}", code="upstream_failed")
        finish = _FINISHES[reason] if reason is not None else None
        tokens = choice.get("token_ids")
        if tokens is None:
            tokens = self._text.feed(choice.get("text") or "", last=finish is not None)
        tokens = list(tokens)
        last = choice.get("matched_stop")  # SGLang's stop token, which may stand apart from the others
        if finish == "stop" and type(last) is int and tokens[-1:] != [last]:
            tokens.append(last)
        return Piece(tokens, _logprobs(choice.get("logprobs"), len(tokens), self._top), finish, cached)


def _logprobs(given: dict[str, Any] | None, count: int, most: int) -> list[TokenLogprob | None]:
    """vLLM's, whose tokens are written as `token_id:5`. The token itself is always among the likely ones."""
    if not given:
        return []
    result: list[TokenLogprob | None] = []
    for name, value, top in zip(given["tokens"], given["token_logprobs"], given["top_logprobs"], strict=True):
        ranked = sorted(((_id(other), logprob) for other, logprob in (top or {}).items()), key=lambda pair: -pair[1])
        rank = 1 + sum(logprob > value for _, logprob in ranked)
        result.append(TokenLogprob(_id(name), value, rank, tuple(ranked[:most])))
    return result if len(result) == count else [None] * count


def _id(name: str) -> int:
    return int(name.removeprefix("token_id:"))
