"""narrows as the backend of structured outputs under the real server: three sequences per request, every one valid; what is wrong is refused before the engine sees it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from client import Answer, Client, Refused
from conftest import Note, Start
from server import NGRAM

pytestmark = pytest.mark.timeout(3600)

NARROWS = ("--structured-outputs-config.backend", "narrows")
PEOPLE = ["Ada", "Alan", "Grace", "Edsger", "Barbara", "Donald", "Frances", "Tony"]
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 1, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["math", "code", "ships"]}, "minItems": 1, "maxItems": 2},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
DATE = r"(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
WORDS = ["mathematics", "engineering", "mathematical logic", "math"]
EBNF = 'root ::= greeting ", " name "!"\ngreeting ::= "hello" | "good day"\nname ::= [A-Z] [a-z]{2,8}'


def _valid_json(schema: Any) -> Callable[[str], bool]:
    validator = jsonschema_rs.validator_for(schema)

    def check(text: str) -> bool:
        return bool(validator.is_valid(json.loads(text)))

    return check


def _matches(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text) is not None


KINDS: dict[str, tuple[dict[str, Any], Callable[[str], bool]]] = {
    "json": ({"structured_outputs": {"json": PERSON}}, _valid_json(PERSON)),
    "response_format": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}},
        _valid_json(PERSON),
    ),
    "json_object": (
        {"response_format": {"type": "json_object"}},
        lambda text: isinstance(json.loads(text), dict),
    ),
    "regex": ({"structured_outputs": {"regex": DATE}}, _matches(DATE)),
    "choice": ({"structured_outputs": {"choice": WORDS}}, lambda text: text in WORDS),
    "grammar": ({"structured_outputs": {"grammar": EBNF}}, _matches("(hello|good day), [A-Z][a-z]{2,8}!")),
}  # fmt: skip

_DEEP: Any = {"type": "string"}
for _ in range(400):
    _DEEP = {"type": "object", "properties": {"a": _DEEP}}


def _schema(schema: Any) -> dict[str, Any]:
    return {"structured_outputs": {"json": schema}}


def _object(member: Any) -> dict[str, Any]:
    return _schema({"type": "object", "properties": {"a": member}, "required": ["a"]})


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a grammar that does not read": ({"structured_outputs": {"grammar": "root ::= ("}}, "gbnf_invalid"),
    "a grammar whose rule is missing": ({"structured_outputs": {"grammar": "root ::= absent"}}, "gbnf_invalid"),
    "a pattern that does not read": ({"structured_outputs": {"regex": "(a"}}, "regex_invalid"),
    "a pattern with a back reference": ({"structured_outputs": {"regex": r"(a)\1"}}, "regex_unsupported"),
    "a pattern that nothing matches": (_object({"type": "string", "pattern": "(?=x)y"}), "unsatisfiable"),
    "lengths that exclude each other": (_object({"type": "string", "minLength": 5, "maxLength": 3}), "unsatisfiable"),
    "an array longer than any text": (_schema({"type": "array", "minItems": 10**12}), "unsatisfiable"),
    "a keyword that cannot be kept": (
        _schema({"type": "array", "contains": {"type": "string"}, "minContains": 2, "uniqueItems": True}),
        "schema_unsupported",
    ),
    "a schema that is its own definition": (
        _schema({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        "schema_invalid",
    ),
    "a reference to nowhere": (_schema({"$ref": "#/$defs/absent"}), "schema_invalid"),
    "a reference to a file": (_schema({"$ref": "file:///etc/hostname"}), "schema_unsupported"),
    "a schema of 400 levels": (_schema(_DEEP), ""),  # vLLM's own limit may come first
    "3,000 stars": ({"structured_outputs": {"regex": ".*" * 3000 + "x"}}, "limit_reached"),
    "3,000 open groups": ({"structured_outputs": {"regex": "(" * 3000 + "a" + ")" * 3000}}, "limit_reached"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_kept_is_refused_and_the_engine_lives(case: str, start_server: Start, plain_model: Path) -> None:
    client = start_server(*NARROWS, model=plain_model)
    options, code = REFUSED[case]
    with pytest.raises(Refused) as refused:
        client.complete([{"role": "user", "content": "Hello"}], max_tokens=4, **options)
    assert refused.value.status == 400
    assert code in json.dumps(refused.value.body)
    _still_answers(client)


HOSTILE = {  # and what it says, for Python's re, which would not end on the first
    "a pattern that counts to 10^12": ("((((a{0,1000}){0,1000}){0,1000}){0,1000})", "a*"),
    "nested stars": ("((((a*)*)*)*)*b", "a*b"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_hard_for_others_is_kept(case: str, start_server: Start, plain_model: Path) -> None:
    client = start_server(*NARROWS, model=plain_model)
    pattern, says = HOSTILE[case]
    (answer,) = client.complete(
        [{"role": "user", "content": "Hello"}], max_tokens=10, structured_outputs={"regex": pattern}
    )
    assert answer.finish_reason == "length" or re.fullmatch(says, answer.content)
    _still_answers(client)


ARGUMENTS = {
    "narrows_json": (json.dumps(PERSON), KINDS["json"][1]),
    "narrows_regex": (DATE, KINDS["regex"][1]),
    "narrows_choice": (WORDS, KINDS["choice"][1]),
    "narrows_grammar": (EBNF, KINDS["grammar"][1]),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_logits_processor_holds_each_of_three_sequences(name: str, start_server: Start, plain_model: Path) -> None:
    client = start_server(*NARROWS, model=plain_model)
    value, valid = ARGUMENTS[name]
    answers = client.complete(
        [{"role": "user", "content": "Who was Ada Lovelace?"}],
        n=3,
        seed=1,
        temperature=0.9,
        max_tokens=200,
        vllm_xargs={name: value},
    )
    assert [valid(answer.content) for answer in answers] == [True] * 3


def test_a_bad_argument_of_the_logits_processor_is_refused(start_server: Start, plain_model: Path) -> None:
    client = start_server(*NARROWS, model=plain_model)
    with pytest.raises(Refused, match="regex_invalid") as refused:
        client.complete([{"role": "user", "content": "Hello"}], max_tokens=4, vllm_xargs={"narrows_regex": "(a"})
    assert refused.value.status == 400
    _still_answers(client)


SPECULATION = [pytest.param((), id="per token"), pytest.param(NGRAM, id="ngram")]


@pytest.fixture(params=SPECULATION, scope="module")
def speculation(request: pytest.FixtureRequest) -> Sequence[str]:
    """Module scope: pytest then runs what needs the same server together."""
    found: Sequence[str] = request.param
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_three_sequences_are_all_valid(
    kind: str, speculation: Sequence[str], start_server: Start, plain_model: Path, note: Note
) -> None:
    client = start_server(*NARROWS, *speculation, model=plain_model)
    options, valid = KINDS[kind]

    def ask(number: int) -> list[Answer]:
        question = f"Say who {PEOPLE[number % len(PEOPLE)]} was, in the form asked for."
        method = client.stream if number % 2 else client.complete
        return method(
            [{"role": "user", "content": question}], n=3, seed=number, temperature=0.9, max_tokens=200, **options
        )

    with ThreadPoolExecutor(8) as pool:
        answers = [answer for three in pool.map(ask, range(8)) for answer in three]
    whole = [answer.content for answer in answers if answer.finish_reason == "stop"]
    wrong = [text for text in whole if not valid(text)]
    drafts = ", ngram" if speculation else ""
    note(
        f"server, {kind}{drafts}: {len(whole) - len(wrong)} valid of {len(whole)} whole texts, {len(answers) - len(whole)} cut"
    )
    # A model this small sometimes writes blanks and lists until the budget ends: such a text is not whole, and says so.
    assert all(answer.finish_reason in ("stop", "length") for answer in answers)
    assert len(whole) >= (1 if kind == "json_object" else 20)
    assert not wrong
    assert kind == "choice" or len(set(whole)) > len(whole) / 3, "the sequences are copies of each other"


def test_a_logits_processor_that_speculation_would_skip_is_refused(start_server: Start, plain_model: Path) -> None:
    client = start_server(*NARROWS, *NGRAM, model=plain_model)
    with pytest.raises(Refused, match="processor_skipped") as refused:
        client.complete([{"role": "user", "content": "Hello"}], max_tokens=4, vllm_xargs={"narrows_regex": "a+"})
    assert refused.value.status == 400
    _still_answers(client)


def _still_answers(client: Client) -> None:
    (answer,) = client.complete(
        [{"role": "user", "content": "Hello"}], max_tokens=10, structured_outputs={"choice": ["yes", "no"]}
    )
    assert answer.content in ("yes", "no")
