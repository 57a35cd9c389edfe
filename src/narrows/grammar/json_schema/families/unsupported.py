"""Keywords of the standard that are not enforced: refused, unless they assert nothing where they stand.

With `on_unsupported="ignore"` or `"warn"` they are left out, and that only ever allows more.
"""

from __future__ import annotations

from narrows.grammar.json_schema import facts
from narrows.grammar.json_schema.reading import Family, Reading


def _read(reading: Reading) -> None:
    value = reading.schema["unevaluatedItems"]
    reading.not_enforced("unevaluatedItems", facts.ARRAY, trivial=value is True)


FAMILY = Family(("unevaluatedItems",), _read)
