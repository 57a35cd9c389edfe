"""The states of literal arguments, as `regions/literals.py` reads them.

| state | what comes | next state |
| --- | --- | --- |
| `KEY_OR_END` | a bare key and the `=` or `:` after it | `VALUE` |
| | a quote: a key in quotes, or the first item of a set | `IN_STRING`, then `ASSIGNMENT` |
| | a number or a word in `{`: the same | `ASSIGNMENT` |
| | `(` in `{`: the first item of a set | `ITEM_OR_END`, and read again |
| `ASSIGNMENT` | `=` or `:`, as the notation has it | `VALUE` |
| | `,` or `}`: it was the first item of a set | `COMMA_OR_END`, and read again |
| `VALUE` | a quote | `IN_STRING` |
| | `[` or `(` | `ITEM_OR_END` |
| | `{` | `KEY_OR_END` |
| | a number or a word | `COMMA_OR_END`, after the word |
| `ITEM_OR_END` | as for `VALUE` | as for `VALUE` |
| `IN_STRING` | the closing quote of a value | `COMMA_OR_END` |
| | the closing quote of a key | `ASSIGNMENT` |
| `COMMA_OR_END` | `,` in an object, or between arguments | `KEY_OR_END` |
| | `,` in an array, a tuple or a set | `ITEM_OR_END` |
| any that ends with `_OR_END` | the closing bracket of a value | `COMMA_OR_END` |
| | the closing bracket of the arguments | the call ends |
| any | anything else | the call breaks off |

A word has no state of its own, because it is not taken before it ends. `_word_size` tells how much of it was read.
"""

from __future__ import annotations

from narrows.stream.states import State

KEY_OR_END = State("a key or the end")
ASSIGNMENT = State("= or :")
VALUE = State("a value")
ITEM_OR_END = State("an item or the end")
COMMA_OR_END = State("a comma or the end")
IN_STRING = State("more of a string")

MAY_END = (KEY_OR_END, ITEM_OR_END, COMMA_OR_END)
