"""The metadata of a GGUF file, by name: strings, numbers and flat arrays. The tensors are not touched.

A reader of our own, because it is needed before anything else is loaded and must be quick: the `gguf` package maps
every entry and tensor to numpy objects, 2.1 s for a vocabulary of 49,152; this takes 0.1 s. Format: GGUF 2 and 3,
little-endian (ggml's docs/gguf.md). Every length is checked against the file before it is believed.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable
from typing import Any, Union

from narrows.errors import VocabularyError

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


def read(path: Union[str, os.PathLike[str]], want: Callable[[str], bool] = lambda key: True) -> dict[str, Any]:
    """The entries whose key `want` asks for. Raises VocabularyError (`file_unreadable`) with the byte offset.

    Text is UTF-8; an array of text becomes a list of `bytes`, because tokens need not be valid UTF-8.
    """
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(data, str(path)).entries(want)
    except FileNotFoundError as error:
        raise VocabularyError(f"there is no file {path}", code="file_unreadable") from error
    except (OSError, ValueError) as error:
        if isinstance(error, VocabularyError):
            raise
        raise VocabularyError(f"{path} cannot be read: {error}", code="file_unreadable") from error


class _Reader:
    def __init__(self, data: mmap.mmap, path: str) -> None:
        self.data, self.path, self.at = data, path, 0

    def entries(self, want: Callable[[str], bool]) -> dict[str, Any]:
        if self.data[:4] != b"GGUF":
            raise self.bad("not a GGUF file")
        self.at = 4
        version = self.scalar("I")
        if version not in (2, 3):
            raise self.bad(f"GGUF version {version} is not 2 or 3 (or the file is big-endian)")
        self.scalar("Q")  # tensors
        found: dict[str, Any] = {}
        for _ in range(self.scalar("Q")):
            key = self.text().decode("utf-8", "replace")
            value = self.value(self.scalar("I"), keep=want(key))
            if value is not None:
                found[key] = value
        return found

    def value(self, kind: int, keep: bool) -> Any:
        if kind == _STRING:
            raw = self.text()
            return raw.decode("utf-8", "replace") if keep else None
        if kind == _ARRAY:
            return self.array(keep)
        value = self.scalar(self.letter(kind))
        return value if keep else None

    def array(self, keep: bool) -> list[Any] | None:
        kind, count = self.scalar("I"), self.scalar("Q")
        if kind == _STRING:
            return self.texts(count, keep)
        letter = self.letter(kind)
        start = self.take(count * struct.calcsize(letter))
        return list(struct.unpack_from(f"<{count}{letter}", self.data, start)) if keep else None

    def texts(self, count: int, keep: bool) -> list[bytes] | None:
        """The hot loop: hundreds of thousands of merges are stepped over, tokens are kept."""
        data, at, end, length_at = self.data, self.at, len(self.data), struct.Struct("<Q").unpack_from
        texts: list[bytes] = []
        for _ in range(count):
            if at + 8 > end:
                raise self.bad("the file ends inside an array")
            (length,) = length_at(data, at)
            start, at = at + 8, at + 8 + length
            if at > end:
                raise self.bad("a text is longer than the file")
            if keep:
                texts.append(data[start:at])
        self.at = at
        return texts if keep else None

    def text(self) -> bytes:
        length = self.scalar("Q")
        start = self.take(length)
        return self.data[start : start + length]

    def scalar(self, letter: str) -> Any:
        start = self.take(struct.calcsize(letter))
        return struct.unpack_from("<" + letter, self.data, start)[0]

    def take(self, count: int) -> int:
        start = self.at
        if start + count > len(self.data):
            raise self.bad("the file ends inside its metadata")
        self.at = start + count
        return start

    def letter(self, kind: int) -> str:
        if kind not in _SCALARS:
            raise self.bad(f"an entry of unknown type {kind}")
        return _SCALARS[kind]

    def bad(self, what: str) -> VocabularyError:
        return VocabularyError(f"{self.path}: {what}", code="file_unreadable", offset=self.at)
