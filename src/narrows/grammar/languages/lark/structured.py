"""`%regex {...}` in a Lark grammar, as llguidance writes it: the parts of a text (languages/substring.py).

%regex {"substring_words": "Parts of this text, cut between words."}
%regex {"substring_chars": "..."}        %regex {"substring_chunks": ["...", "..."]}
"""

from __future__ import annotations

from narrows.errors import NarrowsError
from narrows.grammar import ir
from narrows.grammar.languages.lark.tree import Embedded
from narrows.grammar.languages.substring import substring_module
from narrows.grammar.languages.text import GrammarText

_UNITS = {"substring_chars": "characters", "substring_words": "words"}
_CHUNKS = "substring_chunks"


def structured(text: GrammarText, node: Embedded) -> ir.Node:
    """The regular node of the value after `%regex`. Raises `GrammarError` (`lark_invalid`), `UnsupportedError`
    (`lark_unsupported`), and the errors of `substring_module` with the place."""
    value = node.value
    known = (*_UNITS, _CHUNKS)
    if not isinstance(value, dict) or len(value) != 1:
        text.fail("expected an object with one field after %regex", node.offset, f"There are {', '.join(known)}")
    name, content = next(iter(value.items()))
    if name not in known:
        text.unsupported(f"%regex with {str(name)[:64]!r}", node.offset, f"There are {', '.join(known)}")
    items = content if isinstance(content, list) else [content]
    if isinstance(content, list) is not (name == _CHUNKS) or not all(isinstance(item, str) for item in items):
        text.fail(f"{name} is a {'list of strings' if name == _CHUNKS else 'string'}", node.offset)
    try:
        root = substring_module(content, _UNITS.get(name, "characters"), text.work).rules["root"]
    except NarrowsError as error:
        error.line, error.column = text.place(node.offset)
        raise
    assert isinstance(root, ir.Lexeme)
    return root.item
