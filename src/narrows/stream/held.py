"""Text that is held back, kept in the pieces in which it came."""

from __future__ import annotations

_PIECES = 1024


class Held:
    """Appending takes constant time, whatever the length. The memory is that of the text and of the last thousand
    pieces."""

    __slots__ = ("_chunks", "_pieces", "size")

    def __init__(self, text: str = "") -> None:
        self._chunks: list[str] = [text] if text else []
        self._pieces: list[str] = []
        self.size = len(text)
        """The number of characters."""

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self.size += len(piece)
        if len(self._pieces) == _PIECES:
            self._chunks.append("".join(self._pieces))
            self._pieces.clear()

    @property
    def text(self) -> str:
        return "".join([*self._chunks, *self._pieces])
