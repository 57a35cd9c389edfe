"""Makes `--grammar-backend narrows` known to SGLang, by its registration functions and one hook.

The hook is around the function that looks at drafts (speculative decoding). It tells a grammar that the tokens which it
now accepts are drafts: an error there must not end the server (grammar.py).
"""

from __future__ import annotations

from typing import Any

NAME = "narrows"
_TRAVERSAL = "sglang.srt.speculative.spec_utils.traverse_tree"
_GRAMMAR = 3
"""Its argument that is the grammar."""


def install() -> None:
    """In this process. What SGLang lacks is named in its log, and nothing is registered then."""
    from narrows.plugins.sglang.compat import logger

    try:
        from sglang.srt.arg_groups.choices import GRAMMAR_BACKEND_CHOICES
        from sglang.srt.constrained import reasoner_grammar_backend
        from sglang.srt.constrained.base_grammar_backend import BaseGrammarObject, register_grammar_backend
        from sglang.srt.plugins.hook_registry import HookRegistry, HookType
        from sglang.srt.server_args import add_grammar_backend_choices
    except ImportError as error:
        logger.error("the grammar backend narrows is not registered: %s", error)
        return
    lacking = [
        name
        for owner, name in (
            (BaseGrammarObject, "fill_vocab_mask_batched"),
            (BaseGrammarObject, "maybe_init_reasoning"),
            (reasoner_grammar_backend.ReasonerGrammarBackend, "_make_grammar_object"),
            (reasoner_grammar_backend.ReasonerGrammarObject, "_is_generation"),
        )
        if not hasattr(owner, name)
    ]
    if lacking:
        logger.error("the grammar backend narrows is not registered: this SGLang has no %s", ", ".join(lacking))
        return
    register_grammar_backend(NAME, _make)
    if NAME not in GRAMMAR_BACKEND_CHOICES:
        add_grammar_backend_choices([NAME])
        HookRegistry.register(_TRAVERSAL, _traverse, HookType.AROUND)


def _make(server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Any) -> Any:
    from narrows.plugins.sglang.masking.backend import backend_for

    return backend_for(server_args, tokenizer, vocab_size, eos_token_ids)


def _traverse(original: Any, *args: Any, **kwargs: Any) -> Any:
    from narrows.plugins.sglang.masking.grammar import Grammar

    grammar = kwargs.get("grammar", args[_GRAMMAR] if len(args) > _GRAMMAR else None)
    grammar = grammar if isinstance(grammar, Grammar) else getattr(grammar, "grammar", None)
    if not isinstance(grammar, Grammar):
        return original(*args, **kwargs)
    with grammar.ahead():
        return original(*args, **kwargs)
