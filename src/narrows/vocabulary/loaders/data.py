"""What every loader returns, and the rules that they share: which tokens are special, which end the text, how wide a
mask is.

**Bytes.** `tokens[i]` is what token i adds to a text when it is decoded in the middle of it (a tokenizer may strip a
space at the very start). None is an id that nothing stands for: a hole, padding up to the width of the logits, a token
marked unused.

**Special tokens** have no bytes, so that no text can spell them; a grammar reaches them by name only. Special is

- what the tokenizer flags as special or control, and every end token;
- an added token that is not flagged, but was put there to mark something: it was added *beyond* the trained vocabulary
  and is bracketed (`<tool_call>`, `[TOOL_CALLS]`, `<|fim_pad|>`). Qwen3, GLM and DeepSeek ship such markers with
  `special: false`, which says only that decoding shows them;
- a trained token of reserved shape: `<|...|>`, `<unused12>`, `<pad>`, `<mask>`.

Everything else is text and stays reachable by its bytes: runs of spaces, words added by a fine-tune, and the HTML tags
that Gemma trains as single tokens (a model that writes `<b>` in a string must be able to use them). So every id decodes
to its bytes, or to its name.

**End tokens** come from the caller, else from what the model ships, else from the names that end a text in known
families.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union, cast

from narrows.arguments import ITERABLE, quoted
from narrows.errors import LimitError, VocabularyError
from narrows.limits import DEFAULT_LIMITS, Limits

EndTokens = Union[int, str, Sequence[Union[int, str]], None]
"""End tokens as a caller gives them: ids or names, one or several; None means "find them"."""

END_NAMES = frozenset(
    {
        "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
        "<turn|>", "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>", "</s>", "<eos>", "<EOT>", "_<EOT>", "[EOT]",
        "[EOS]", "<|eos|>", "<|eot|>", "<|eom|>", "<end_of_utterance>", "<｜end▁of▁sentence｜>", "<|END_OF_TURN_TOKEN|>",
        "[|endofturn|]",
        "<|end_of_turn|>",
    }
)  # fmt: skip
"""Names that end a turn or a text in the families we know; used only among special tokens, and only where no file says
better."""

_NOT_AN_END = ("<|end|>", "<|return|>")
"""The first name ends nothing where the second exists: Harmony's `<|end|>` closes a message, `<|return|>` the turn."""


@dataclass(slots=True)
class VocabularyData:
    """The facts of a vocabulary: `len(tokens) == size`; `special` maps names to ids, whose bytes are b""; `eos` is
    sorted."""

    tokens: list[bytes | None]
    special: dict[str, int]
    eos: list[int]
    size: int


def is_marker(content: str, *, flagged: bool, trained: bool) -> bool:
    """Whether an added token is special in the sense of this module. `trained`: it is part of the base vocabulary."""
    if flagged:
        return True
    first, last = content[:1], content[-1:]
    if trained:
        reserved = content.startswith("<unused") and last == ">"
        ends = content[:2], content[-2:]
        return reserved or content in ("<pad>", "<mask>") or ends in (("<|", "|>"), ("<｜", "｜>"))
    bracketed = first in tuple("<[{(|｜") and last in tuple(">]})|｜")
    return bracketed and any(c.isalnum() for c in content)


def assemble(
    texts: Mapping[int, bytes],
    special: Mapping[str, int],
    *,
    eos: EndTokens,
    shipped_eos: Iterable[int | str] = (),
    named_eos: bool = False,
    size: int | None,
    limits: Limits = DEFAULT_LIMITS,
) -> VocabularyData:
    """Put the facts of one tokenizer together. `texts` holds the bytes of ordinary tokens, `special` the names of the
    others.

    `eos` is the caller's choice; else `shipped_eos`, what the model's files say, joined with the known names if
    `named_eos`; else the known names. `size` is the width of the logits: beyond the tokenizer it pads with None; ids at
    or above it are dropped, because the model cannot produce them (Gemma 3 1B has one such token).
    """
    names = dict(special)
    by_id = {i: name for name, i in names.items()}
    last = max(max(texts, default=-1), max(names.values(), default=-1))
    width = _width(last, size, limits)

    chosen: set[int] = set()
    if eos is not None:
        for end in [eos] if isinstance(eos, (int, str)) else _several(eos):
            chosen.add(_end_id(end, names, texts, width))
    else:
        for end in shipped_eos:
            i = names.get(end) if isinstance(end, str) else end
            if i is not None and 0 <= i < width and (i in texts or i in by_id):
                chosen.add(i)
        if named_eos or not chosen:
            known = END_NAMES - {_NOT_AN_END[0]} if _NOT_AN_END[1] in names else END_NAMES
            chosen |= {i for name, i in names.items() if name in known and i < width}
    if not chosen:
        raise VocabularyError(
            "the tokenizer does not say which token ends a text",
            code="eos_missing",
            hint='Name it, as in eos="</s>" or eos=[2, 32000]',
        )
    for i in chosen - set(by_id):  # an end token written as an ordinary one: no text may spell it
        name = texts[i].decode("utf-8", "replace").strip()
        names.setdefault(name, i)
        by_id[i] = name

    tokens: list[bytes | None] = [None] * width
    for i, data in texts.items():
        if i < width:
            if len(data) > limits.token_bytes:
                raise LimitError(
                    f"token {i} has {len(data)} bytes",
                    limit="token_bytes",
                    hint="Raise Limits.token_bytes if you trust it",
                )
            tokens[i] = data
    for i in by_id:
        if i < width:
            tokens[i] = b""
    return VocabularyData(tokens, {n: i for n, i in names.items() if i < width}, sorted(chosen), width)


def _width(last: int, size: int | None, limits: Limits) -> int:
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
        raise VocabularyError(f"size must be a positive number of ids, not {quoted(size)}")
    width = last + 1 if size is None else size
    if width < 1:
        raise VocabularyError("the tokenizer has no tokens")
    if width > limits.vocabulary_tokens or last >= limits.vocabulary_tokens:
        raise LimitError(
            f"the vocabulary has {quoted(max(width, last + 1))} ids",
            limit="vocabulary_tokens",
            hint="Raise Limits.vocabulary_tokens if you trust it",
        )
    return width


def _several(eos: Any) -> Iterable[Any]:
    if not ITERABLE.fits(eos):
        raise VocabularyError(f"eos must be token ids or names, not {quoted(eos)}", code="eos_invalid")
    return cast("Iterable[Any]", eos)


def _end_id(end: int | str, names: Mapping[str, int], texts: Mapping[int, bytes], width: int) -> int:
    if isinstance(end, bool) or not isinstance(end, (int, str)):
        raise VocabularyError(f"eos must be token ids or names, not {quoted(end)}", code="eos_invalid")
    if isinstance(end, str):
        token = names.get(end)
        if token is None:
            wanted = end.encode("utf-8", "replace")
            token = next((i for i, data in texts.items() if data == wanted), None)
        if token is None:
            raise VocabularyError(
                f"no token is named {quoted(end)}",
                code="eos_invalid",
                hint="Give an id, or a name that the tokenizer has",
            )
        end = token
    if not 0 <= end < width or (end not in texts and end not in names.values()):
        raise VocabularyError(f"end token {quoted(end)} is not a token of this vocabulary", code="eos_invalid")
    return end
