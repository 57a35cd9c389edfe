"""Values as another notation than JSON writes them, turned into JSON.

| file | what it answers |
| --- | --- |
| `dialect` | how one notation writes arguments and values |
| `constants` | what JSON writes for a number or a word such as `True` |
| `escapes` | what JSON writes for a backslash and what follows it |
| `closing_quote` | whether a quote ends a string, where the quotes inside strings are not escaped |

None of these is a region. `regions/literals.py` reads with them.
"""
