"""`anyOf`, `oneOf`, `allOf`, `not`, `if`/`then`/`else`, `dependentSchemas`, and the schemas of draft 7's
`dependencies`.

Each becomes schemas that hold as well, or a choice of schemas. normal.py works out what they mean together with what
stands beside them. negation.py says what a negation means.

`oneOf` is `anyOf` where no value satisfies two branches. disjoint.py finds those that overlap, and excludes one from
the other.
"""

from __future__ import annotations

from narrows.grammar.json_schema.document import Site
from narrows.grammar.json_schema.facts import OBJECT, Case, Facts, Members
from narrows.grammar.json_schema.reading import Family, Reading
from narrows.grammar.json_schema.report import Status

_ALONE = Status("exact", "asserts nothing without its partners")


def _read(reading: Reading) -> None:
    schema = reading.schema
    if "anyOf" in schema:
        reading.add_choice(reading.schemas("anyOf"))
    if "oneOf" in schema:
        reading.add_choice(reading.schemas("oneOf"), exclusive=True)
    if "allOf" in schema:
        reading.add_also(*reading.schemas("allOf"))
    if "not" in schema:
        reading.add_also(reading.document.negation(reading.schema_at("not", schema=schema["not"])))
    if "if" in schema or "then" in schema or "else" in schema:
        _read_condition(reading)
    if "dependentSchemas" in schema:
        read_dependent(reading, "dependentSchemas")


def _read_condition(reading: Reading) -> None:
    """One holds: the condition and `then`, or not the condition, and `else`."""
    parts = {
        keyword: reading.schema_at(keyword, schema=reading.schema[keyword])
        for keyword in ("if", "then", "else")
        if keyword in reading.schema
    }
    if "if" not in parts or len(parts) == 1:
        for keyword in parts:
            reading.reporter.note(reading.at(keyword), _ALONE)
        if "if" in parts:
            reading.add_perhaps(parts["if"])
        return
    document, where = reading.document, reading.at("if")
    condition = parts["if"]
    held, other = [condition], [document.negation(condition)]
    negation: list[Case] = []
    if "then" in parts:
        held.append(parts["then"])
        negation.append(((condition,), (parts["then"],)))
    if "else" in parts:
        other.append(parts["else"])
        negation.append(((), (condition, parts["else"])))
    branches = tuple([document.derived(where, Facts(also=tuple(sites))) for sites in (held, other)])
    reading.add_apart(branches, *negation)


def read_dependent(reading: Reading, keyword: str) -> None:
    """The key is not there, or it is, and the schema holds."""
    for key, schema in reading.mapping(keyword).items():
        if keyword == "dependencies" and isinstance(schema, (list, tuple)):
            continue  # presence.py reads these
        site = reading.schema_at(keyword, key, schema=schema)
        if schema is True or schema == {}:
            continue
        without = Members({key: Site(site.pointer, False)}, evaluates=False)
        present = Members(required=(key,), required_at=site.pointer)
        document, where = reading.document, site.pointer
        has = document.derived(where, Facts(types=OBJECT, members=(present,)))
        either = (document.derived(where, Facts(members=(without,))), document.derived(where, Facts(also=(has, site))))
        reading.add_apart(either, ((has,), (site,)))


FAMILY = Family(("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "dependentSchemas"), _read)
