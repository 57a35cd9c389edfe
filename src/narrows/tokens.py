"""What others need to know of a vocabulary: `narrows.Vocabulary` has it. Nothing here imports anything of ours but the
compiled core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from narrows._core import Vocabulary as CoreVocabulary


class TokenVocabulary(Protocol):
    """What a stream parser needs to be fed token ids."""

    @property
    def size(self) -> int: ...
    @property
    def special(self) -> Mapping[str, int]: ...
    @property
    def eos_ids(self) -> Any: ...
    def token_bytes(self, token: int) -> bytes | None: ...


class CompiledVocabulary(TokenVocabulary, Protocol):
    """What a constraint needs of the vocabulary that it was compiled for."""

    _core: CoreVocabulary

    def token_bytes(self, token: int) -> bytes: ...
