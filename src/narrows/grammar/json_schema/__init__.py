"""JSON Schema to the intermediate form: exactly the values that the schema allows, in a stated spelling, or a refusal.

    report.py       what became of each keyword, and the errors
    identifiers.py  places by name, and what the drafts differ in
    document.py     the schema as a document: limits, pointers, references
    facts.py        the normal form: what is asserted of each JSON type
    equality.py     when two values are equal
    spelling/       how JSON is written: spelling lengths digits multiples
    narrowing.py    which branches the facts leave
    enumerations.py branches that only list values
    normal.py       conjunctions and alternatives of facts
    goals.py        schemas that hold together, and the questions about them
    one_spelling.py values that are written in one way, so that equal ones are equal texts
    heads.py        what items are compared by that have no regular form
    reading.py      what a keyword family is, and what it is given to read
    rules.py        the rules in the making, which a family's `lower` is given
    check.py        whether a literal value satisfies a goal
    declared.py     which keys additional="declared" leaves
    disjoint.py     when oneOf is anyOf
    families/       the keyword families, a file each: types values strings formats numbers arrays objects combine ...
    keywords.py     the registry of the families, a line each
    lower.py        goals to rules
    view.py         types and places, for those who read or write text by a schema
    python_types.py a Python type as a schema, by Pydantic

Each imports only what stands above it.

docs/json_schema.md says for each keyword what is enforced. Cost: some 100 to 300 us for the schema of a tool, linear in
what is reached: about 50 us for each sub-schema, a microsecond for each option of an enum. All of it is counted
(`Limits.reading_work`): what grows faster than the schema, such as alternatives that multiply, ends there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from narrows.grammar import ir
from narrows.grammar.json_schema import keywords
from narrows.grammar.json_schema.document import Document
from narrows.grammar.json_schema.lower import Lowering
from narrows.grammar.json_schema.report import Reporter, Status
from narrows.grammar.json_schema.spelling.spelling import Spelling, spelling
from narrows.grammar.options import OnUnsupported
from narrows.grammar.work import Work
from narrows.limits import DEFAULT_LIMITS, Limits

__all__ = ["SchemaResult", "SchemaRules", "Status", "json_value_rules", "schema_module", "schema_rules"]

Schema = Mapping[str, Any] | bool | str | bytes


@dataclass(frozen=True, slots=True)
class SchemaResult:
    """A schema as a module of its own. `report`: JSON pointer of each keyword that was reached -> its status."""

    module: ir.Module
    report: dict[str, Status]


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """A schema as rules that can lie in one module with others. `start` matches one value, without whitespace around
    it."""

    rules: dict[str, ir.Node]
    start: str
    report: dict[str, Status]
    sources: dict[str, str]
    places: dict[int, str] = field(default_factory=dict)

    @property
    def node(self) -> ir.Ref:
        return ir.Ref(self.start)


def schema_module(
    schema: Schema,
    *,
    whitespace: str = "bounded",
    key_order: str = "declared",
    escapes: str = "all",
    on_unsupported: str = "error",
    additional: str = "standard",
    resources: Mapping[str, Any] | None = None,
    limits: Limits | Work = DEFAULT_LIMITS,
) -> SchemaResult:
    """The values of a JSON Schema (an object, a boolean, or its JSON text) as a module whose root is one value.

    whitespace: "bounded" | "compact" | "any" | "json.dumps" (spelling.py); key_order: "declared" | "any"; escapes:
    "all" | "minimal" (json_text.py); on_unsupported: "error" | "warn" | "ignore" for keywords that are not enforced
    exactly; additional: "standard" | "declared" for the keys that `properties` does not name (declared.py); resources:
    other documents to which the schema may refer, by their absolute URIs.

    Raises GrammarError `schema_invalid` (no schema), `unsatisfiable` (no value satisfies it), UnsupportedError
    `schema_unsupported`, each with the JSON pointer, and LimitError (reading_work, schema_bytes, schema_depth,
    schema_branches, number_digits, ir_nodes). `limits`: the work that a caller shares among several schemas, too. Cost:
    see the package.
    """
    rules = schema_rules(
        schema,
        whitespace=whitespace,
        key_order=key_order,
        escapes=escapes,
        on_unsupported=on_unsupported,
        additional=additional,
        resources=resources,
        limits=limits,
    )
    return SchemaResult(ir.Module(rules.rules, rules.start, rules.sources, rules.places, marked=True), rules.report)


def schema_rules(
    schema: Schema,
    prefix: str = "",
    *,
    whitespace: str = "bounded",
    key_order: str = "declared",
    escapes: str = "all",
    on_unsupported: str = "error",
    additional: str = "standard",
    resources: Mapping[str, Any] | None = None,
    limits: Limits | Work = DEFAULT_LIMITS,
    spelled: Spelling | None = None,
    for_tool: bool = False,
) -> SchemaRules:
    """Like `schema_module`, as rules whose names start with `prefix`, to lie in one module with those of other schemas.

    The rules for any JSON value (`json/...`) are the same for equal spellings and come along, so that `{**a.rules,
    **b.rules}` is right for two schemas with different prefixes. `spelled`: another notation than JSON.
    `for_tool`: the schema is that of a tool's arguments. So the value is an object whatever the schema says, and types
    may have the names of other languages (families/types.py).
    """
    spelled = spelled or spelling(whitespace, escapes, key_order)
    reporter = Reporter(cast(OnUnsupported, on_unsupported))
    work = Work.of(limits)
    document = Document(schema, work, resources=resources, foreign_types=for_tool)
    lowering = Lowering(document, spelled, reporter, work, prefix, additional)
    if for_tool:
        lowering.hold_to_objects()
    start = lowering.run()
    rules = {**lowering.rules, **spelled.any_rules()}
    return SchemaRules(rules, start, keywords.report(document, reporter), lowering.sources, lowering.places)


def json_value_rules(*, whitespace: str = "bounded", escapes: str = "all") -> SchemaRules:
    """Any JSON value: what the schema `true` gives."""
    spelled = spelling(whitespace, escapes)
    return SchemaRules(dict(spelled.any_rules()), spelled.value.name, {}, {})
