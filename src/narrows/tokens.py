"""The interfaces of a vocabulary, which `narrows.Vocabulary` implements. This module imports nothing of narrows but the
compiled core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from narrows._core import Vocabulary as CoreVocabulary


class TokenVocabulary(Protocol):
    """The vocabulary that a stream parser needs to read token ids."""

    @property
    def size(self) -> int: ...
    @property
    def special(self) -> Mapping[str, int]: ...
    @property
    def eos_ids(self) -> Any: ...
    def token_bytes(self, token: int) -> bytes | None: ...


class CompiledVocabulary(TokenVocabulary, Protocol):
    """The vocabulary that a constraint was compiled for."""

    _core: CoreVocabulary

    def token_bytes(self, token: int) -> bytes: ...
    def compile(self, grammar: Any, limits: Any = ...) -> Any: ...
