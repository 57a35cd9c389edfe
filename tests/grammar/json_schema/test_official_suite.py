"""The official test suite, all drafts, with its optional formats. No invalid instance is accepted. What is refused, and
which valid instance is not accepted, is listed with its reason in official.toml: neither list may grow unseen, and what
is not refused any more leaves it."""

from __future__ import annotations

import json
from typing import Any

import official_suite
import pytest
from official_suite import DRAFTS, Group
from schema_cases import CASES, tomllib
from test_schema_engine import VOCABULARY

import narrows
from narrows.errors import NarrowsError

KNOWN: dict[str, Any] = tomllib.loads((CASES / "official.toml").read_text(encoding="utf-8"))
FOLDERS = ("", "optional/format")


def spellings(value: Any) -> set[bytes]:
    texts = (json.dumps(value), json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    return {text.encode("utf-8", "surrogatepass") for text in texts}


def outcome(group: Group, resources: dict[str, Any], key_order: str) -> tuple[str, list[str], list[str]]:
    """(Why the schema is refused, the invalid instances that are accepted, the valid ones that are not)."""
    try:
        grammar = narrows.Grammar.from_json_schema(group.schema, resources=resources, key_order=key_order)
        constraint = VOCABULARY.compile(grammar)
    except NarrowsError as error:
        nothing_is_valid = not any(test["valid"] for test in group.tests)
        return ("" if error.code == "unsatisfiable" and nothing_is_valid else error.code), [], []

    def accepts(text: bytes) -> bool:
        matcher = constraint.matcher()
        return matcher.accept_bytes(text) and matcher.is_accepting

    found: dict[bool, list[str]] = {True: [], False: []}
    for test in group.tests:
        if any(accepts(text) for text in spellings(test["data"])) is not test["valid"]:
            found[test["valid"]].append(f"{group.name}: {test['description']}")
    return "", found[False], found[True]


@pytest.mark.parametrize("key_order", ["any", "declared"])
@pytest.mark.parametrize("under", FOLDERS, ids=lambda under: under or "required")
@pytest.mark.parametrize("draft", DRAFTS)
def test_the_suite(draft: str, under: str, key_order: str) -> None:
    try:
        resources = official_suite.remotes(draft)
    except official_suite.UnreachableError as error:
        pytest.skip(str(error))
    refused: dict[str, str] = {}
    accepted: list[str] = []
    not_accepted: list[str] = []
    for group in official_suite.groups(draft, under):
        code, wrong, missing = outcome(group, resources, key_order)
        refused.update({group.name: code} if code else {})
        accepted += wrong
        not_accepted += missing
    assert accepted == []
    known = KNOWN.get(draft, {}).get(under or "required", {})
    assert sorted(refused) == sorted(name for names in known.get("refused", {}).values() for name in names)
    if key_order == "any":  # the order of keys is no reason
        assert sorted(not_accepted) == sorted(name for names in known.get("spelled", {}).values() for name in names)
