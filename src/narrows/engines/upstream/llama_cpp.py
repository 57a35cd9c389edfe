"""llama.cpp's server, through its own `/completion`: ids in, ids out, grammars in GBNF.

Its samplers run in narrows' order. Its grammars compare a token by its text, so the special tokens that a grammar does
not name are banned (`Server.banned`). Fields: llama.cpp's tools/server/README.md, release b11549.
"""

from __future__ import annotations

from typing import Any

from narrows.decoding.sampling import TokenLogprob
from narrows.engines.api import Request
from narrows.engines.upstream.pieces import Piece, with_lost
from narrows.engines.upstream.servers import Reader, Server
from narrows.grammar.export import Dialect, Written


class LlamaCpp(Server):
    kind = "llama.cpp"
    path = "/completion"
    dialect = Dialect.GBNF
    unknown = ("min_tokens",)

    def body(
        self, request: Request, prompt: list[int], seed: int | None, most: int, grammar: Written | None
    ) -> dict[str, Any]:
        sampling = request.sampling
        body: dict[str, Any] = {
            "prompt": prompt,
            "n_predict": most,
            "stream": True,
            "return_tokens": True,
            "cache_prompt": True,
            "samplers": ["penalties", "temperature", "min_p", "top_k", "top_p"],
            "temperature": sampling.temperature,
            "top_k": max(sampling.top_k, 0),
            "top_p": sampling.top_p,
            "min_p": sampling.min_p,
            "repeat_penalty": sampling.repetition_penalty,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
            "repeat_last_n": len(prompt) + most,
            "ignore_eos": sampling.ignore_eos,
            "logit_bias": [
                *([token, value] for token, value in sampling.logit_bias.items()),
                *([token, False] for token in self.banned(grammar)),
            ],
        }
        if seed is not None:
            body["seed"] = seed % 2**32
        if sampling.logprobs is not None:
            body |= {"n_probs": max(sampling.logprobs, 1), "post_sampling_probs": False}
        if grammar is not None:
            body["grammar"] = grammar.text
        return body

    def reader(self, request: Request) -> Reader:
        most = request.sampling.logprobs or 0

        def read(event: dict[str, Any]) -> Piece:
            tokens = with_lost(self.vocabulary, event.get("content") or "", event.get("tokens") or ())
            logprobs = _logprobs(event.get("completion_probabilities"), tokens, most)
            if not event.get("stop"):
                return Piece(tokens, logprobs)
            cached = (event.get("timings") or {}).get("cache_n") or 0
            return Piece(tokens, logprobs, "length" if event.get("stop_type") == "limit" else "stop", cached)

        return read


def _logprobs(given: list[dict[str, Any]] | None, tokens: list[int], most: int) -> list[TokenLogprob | None]:
    """Of each token, with the `most` likely ones. None for those that came without: the first tokens of a character."""
    if not given:
        return []
    result: list[TokenLogprob | None] = [None] * (len(tokens) - len(given))
    for entry in given:
        top = [(t["id"], t["logprob"]) for t in entry["top_logprobs"]]
        rank = 1 + sum(logprob > entry["logprob"] for _, logprob in top)
        result.append(TokenLogprob(entry["id"], entry["logprob"], rank, tuple(top[:most])))
    return result
