"""Inside llama-cpp-python: a logits processor and a chat handler. See docs/llama_cpp_python.md.

Both are loaded when they are first used. The logits processor needs numpy alone beside llama-cpp-python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from narrows.plugins.llama_cpp_python.chat_handler import ChatHandler
    from narrows.plugins.llama_cpp_python.logits_processor import LogitsProcessor
    from narrows.plugins.llama_cpp_python.model import vocabulary_of

__all__ = ["ChatHandler", "LogitsProcessor", "vocabulary_of"]


def __getattr__(name: str) -> Any:
    if name == "ChatHandler":
        from narrows.plugins.llama_cpp_python import chat_handler

        return chat_handler.ChatHandler
    if name == "LogitsProcessor":
        from narrows.plugins.llama_cpp_python import logits_processor

        return logits_processor.LogitsProcessor
    if name == "vocabulary_of":
        from narrows.plugins.llama_cpp_python import model

        return model.vocabulary_of
    raise AttributeError(name)
