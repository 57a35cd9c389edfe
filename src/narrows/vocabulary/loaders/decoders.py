"""The `decoder` of a tokenizer.json, compiled to one function: token text in, the bytes that it adds in the middle of a
text out.

A decoder works on the whole list of tokens; ours has one answer per token. That is exact for the steps below. What acts
only at the two ends of a text (a space stripped at the start) is left out on purpose; what looks across tokens is
refused with code `decoder_unsupported`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from narrows.errors import VocabularyError
from narrows.vocabulary.loaders import byte_level

_HEX = frozenset("0123456789abcdefABCDEF")

TextStep = Callable[[str], str]

_CLEANUP = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"),
    (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip
"""What WordPiece's `cleanup` rewrites, in this order, inside each decoded token."""


def compile_decoder(spec: Any) -> Callable[[str], bytes]:
    """The function for a decoder section. Raises VocabularyError (`decoder_unsupported`) with the section's JSON
    pointer."""
    if spec is None:
        raise _refuse(
            "/decoder", "without a decoder the tokens are joined by spaces, which no byte string per token can say"
        )
    steps: list[TextStep] = []
    last: Callable[[str], bytes] | None = None
    fused = False
    for pointer, step in _flatten(spec):
        kind = step.get("type")
        if kind == "Fuse":
            fused = True
            continue
        if kind == "Strip" and fused:
            continue  # only the two ends of the text
        if last is not None:
            raise _refuse(pointer, f"{kind!r} after the step that makes bytes looks across tokens")
        if kind == "ByteLevel":
            last = byte_level.decode
        elif kind == "ByteFallback" and not fused:
            last = byte_fallback
        else:
            steps.append(_text_step(kind, step, pointer, fused))
    return _chain(steps, last or _utf8)


def byte_fallback(token: str) -> bytes:
    """`<0xE2>` is the byte E2; any other token is its text."""
    if len(token) == 6 and token.startswith("<0x") and token[5] == ">" and set(token[3:5]) <= _HEX:
        return bytes((int(token[3:5], 16),))
    return token.encode("utf-8")


def _utf8(token: str) -> bytes:
    return token.encode("utf-8")


def _chain(steps: list[TextStep], last: Callable[[str], bytes]) -> Callable[[str], bytes]:
    if not steps:
        return last

    def decode(token: str) -> bytes:
        for step in steps:
            token = step(token)
        return last(token)

    return decode


def _flatten(spec: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """The steps in order, with nested sequences opened, by an explicit stack."""
    steps: list[tuple[str, Mapping[str, Any]]] = []
    stack: list[tuple[str, Any]] = [("/decoder", spec)]
    while stack:
        pointer, node = stack.pop()
        if not isinstance(node, Mapping):
            raise VocabularyError("a decoder must be an object", pointer=pointer)
        if node.get("type") == "Sequence":
            inner = node.get("decoders")
            if not isinstance(inner, list):
                raise VocabularyError("a Sequence needs a list of decoders", pointer=pointer)
            stack.extend((f"{pointer}/decoders/{n}", child) for n, child in reversed(list(enumerate(inner))))
        else:
            steps.append((pointer, node))
    return steps


def _text_step(kind: Any, step: Mapping[str, Any], pointer: str, fused: bool) -> TextStep:
    if kind == "Replace":
        pattern = step.get("pattern")
        old = pattern.get("String") if isinstance(pattern, Mapping) else None
        new = step.get("content")
        if not isinstance(old, str) or not isinstance(new, str) or not old:
            raise _refuse(pointer, "Replace with anything but a fixed text")
        if fused and len(old) > 1:
            raise _refuse(pointer, "Replace of several characters after Fuse looks across tokens")
        return lambda token: token.replace(old, new)
    if fused:
        raise _refuse(pointer, f"{kind!r} after Fuse looks across tokens")
    if kind == "Metaspace":
        mark = _text(step, "replacement", "▁", pointer)
        return lambda token: token.replace(mark, " ")
    if kind == "Strip":
        content, start, stop = _text(step, "content", " ", pointer), step.get("start", 0), step.get("stop", 0)
        return lambda token: _strip(token, content, start, stop)
    if kind == "BPEDecoder":
        suffix = _text(step, "suffix", "</w>", pointer)
        return lambda token: token.replace(suffix, " ")
    if kind == "WordPiece":
        prefix, cleanup = _text(step, "prefix", "##", pointer), bool(step.get("cleanup", True))
        return lambda token: _word_piece(token, prefix, cleanup)
    raise _refuse(pointer, f"decoder {kind!r}")


def _text(step: Mapping[str, Any], key: str, default: str, pointer: str) -> str:
    value = step.get(key, default)
    if not isinstance(value, str) or not value:
        raise VocabularyError(f"{key!r} must be a text", pointer=f"{pointer}/{key}")
    return value


def _strip(token: str, content: str, start: int, stop: int) -> str:
    first, end = 0, len(token)
    while first < min(start, len(token)) and token[first] == content:
        first += 1
    while end > first and len(token) - end < stop and token[end - 1] == content:
        end -= 1
    return token[first:end]


def _word_piece(token: str, prefix: str, cleanup: bool) -> str:
    token = token[len(prefix) :] if token.startswith(prefix) else " " + token
    if cleanup:
        for old, new in _CLEANUP:
            token = token.replace(old, new)
    return token


def _refuse(pointer: str, what: str) -> VocabularyError:
    return VocabularyError(f"not exact per token: {what}", code="decoder_unsupported", pointer=pointer)
