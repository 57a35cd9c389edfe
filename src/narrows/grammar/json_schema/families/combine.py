"""`anyOf`, `oneOf`, `allOf`. Each is a list of schemas; what they mean together with their siblings is worked out in
normal.py.

`oneOf` is `anyOf` where no value satisfies two branches. disjoint.py proves that, or the keyword is refused.
"""

from __future__ import annotations

from narrows.grammar.json_schema.reading import Family, Reading


def _read(reading: Reading) -> None:
    if "anyOf" in reading.schema:
        reading.add_choice(reading.schemas("anyOf"))
    if "oneOf" in reading.schema:
        reading.add_choice(reading.schemas("oneOf"), exclusive=True)
    if "allOf" in reading.schema:
        reading.add_also(*reading.schemas("allOf"))


FAMILY = Family(("anyOf", "oneOf", "allOf"), _read)
