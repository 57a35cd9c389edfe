"""Values in another notation than JSON, turned into JSON.

| file | what it answers |
| --- | --- |
| `dialect` | how one notation writes arguments and values |
| `constants` | the JSON of a number or a word such as `True` |
| `escapes` | the JSON of a backslash and the characters after it |
| `states` | what may come next in the arguments |
| `runs` | the text that the core may read by itself |
| `closing_quote` | whether a quote ends a string, where the quotes inside strings are not escaped |

None of these is a region. `regions/literals.py` uses them.
"""
