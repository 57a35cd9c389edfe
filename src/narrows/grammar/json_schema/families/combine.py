"""`anyOf`, `oneOf`, `allOf`. Each is a list of schemas; what they mean together with their siblings is worked out in normal.py.

`oneOf` is `anyOf` where no value satisfies two branches. disjoint.py proves that, or the keyword is refused.
"""

from __future__ import annotations

from narrows.grammar.json_schema.reading import Reading

KEYWORDS = ("anyOf", "oneOf", "allOf")


def read(reading: Reading) -> None:
    if "anyOf" in reading.schema:
        reading.facts.choices += (reading.schemas("anyOf"),)
    if "oneOf" in reading.schema:
        reading.facts.exclusive = (len(reading.facts.choices),)
        reading.facts.choices += (reading.schemas("oneOf"),)
    if "allOf" in reading.schema:
        reading.facts.also += reading.schemas("allOf")
