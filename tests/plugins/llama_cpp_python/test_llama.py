"""The real `Llama` on a small real model: every text is one of its grammar, and the one that masking by hand gives."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import numpy as np
import pytest
from llama_cpp import Llama, LlamaRAMCache, LogitsProcessorList
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

from narrows import Constraint, EngineError, Grammar, InputError, Vocabulary
from narrows.plugins.llama_cpp_python import LogitsProcessor, vocabulary_of
from narrows.plugins.llama_cpp_python.model import lost_tokens

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
ROWS = {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 9}, "minItems": 2, "maxItems": 4}
GRAMMARS = {
    "person": (Grammar.from_json_schema(PERSON, whitespace="compact"), "A person as JSON: ", PERSON),
    "rows": (Grammar.from_json_schema(ROWS), "Some numbers as JSON: ", ROWS),
    "date": (Grammar.from_regex(r"20[0-9]{2}-(0[1-9]|1[0-2])-[0-2][0-9]"), "Today is ", None),
    "sentence": (Grammar.from_regex(r"[A-Z][a-z ]{5,20}\."), "Say something about the sea. ", None),
    "choice": (Grammar.choice(["Yes", "No", "Yes and no", "Perhaps"]), "Is it late? ", None),
    "nested": (Grammar.from_gbnf('root ::= "(" (root ("," root)*)? ")" | [a-c]'), "A tree: ((a,b),c) or ", None),
    "wide": (Grammar.from_regex("[äöü€𝄞あ]{2,4}"), "Ein Wort: ", None),
    "empty": (Grammar.from_regex("x?"), "Nothing: ", None),
}
WAYS = [
    {"temperature": 0},
    {"temperature": 0.8, "seed": 1},
    {"temperature": 1.7, "seed": 2, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
    {"temperature": 0.8, "seed": 3, "repeat_penalty": 1.3, "frequency_penalty": 0.5},
    {"temperature": 1.0, "seed": 4, "mirostat_mode": 2},
    {"temperature": -1.0, "seed": 5},
]
MOST = 48


@pytest.fixture(scope="module")
def constraints(shared: Any) -> dict[str, Constraint]:
    vocabulary = vocabulary_of(shared)
    return {name: vocabulary.compile(grammar) for name, (grammar, _, _) in GRAMMARS.items()}


def say(llm: Any, name: str, processor: Any, **options: Any) -> dict[str, Any]:
    asked = {"temperature": 0, "max_tokens": MOST, **options}
    answer = llm(GRAMMARS[name][1], logits_processor=processor, **asked)
    return answer["choices"][0]


def check(choice: dict[str, Any], name: str, constraint: Constraint) -> None:
    """The text is one of the grammar, or the beginning of one where it was cut."""
    matcher = constraint.matcher()
    assert matcher.accept_bytes(choice["text"].encode()), choice
    if choice["finish_reason"] == "stop":
        assert matcher.is_accepting, choice
        schema = GRAMMARS[name][2]
        assert schema is None or jsonschema_rs.is_valid(schema, json.loads(choice["text"]))


@pytest.mark.parametrize("options", WAYS, ids=lambda options: ",".join(f"{k}={v}" for k, v in options.items()))
def test_mixed_constraints(llm: Any, constraints: dict[str, Constraint], options: dict[str, Any]) -> None:
    """Eight for each way, 48 in all, with one processor for each grammar."""
    cut = 0
    for name, constraint in constraints.items():
        choice = say(llm, name, LogitsProcessor(llm, constraint), **options)
        check(choice, name, constraint)
        cut += choice["finish_reason"] != "stop"
    assert cut <= 1  # a tree may go on


def by_hand(llm: Any, prompt: list[int], constraint: Constraint | None, most: int = MOST) -> list[int]:
    """Greedy, with the mask laid over the logits step by step."""
    llm.reset()
    llm.eval(prompt)
    matcher = constraint.matcher() if constraint is not None else None
    row = np.zeros((llm.n_vocab() + 31) // 32, np.int32)
    made: list[int] = []
    while len(made) < most:
        logits = np.ctypeslib.as_array(llm._ctx.get_logits_ith(-1), shape=(llm.n_vocab(),)).copy()
        if matcher is not None:
            matcher.fill_mask(row)
            logits[[not row[token >> 5] >> (token & 31) & 1 for token in range(len(logits))]] = -np.inf
        made.append(int(logits.argmax()))
        if matcher is not None:
            assert matcher.accept(made[-1])
            if matcher.is_finished:
                break
        llm.eval([made[-1]])
    return made


def generated(llm: Any, prompt: list[int], processor: Any, most: int = MOST) -> list[int]:
    made: list[int] = []
    ends = vocabulary_of(llm).eos_ids
    for token in llm.generate(prompt, temp=0, logits_processor=processor):
        made.append(token)
        if token in ends or len(made) == most:
            break
    return made


@pytest.mark.parametrize("name", ["person", "sentence", "rows", "wide"])
def test_greedy_is_what_masking_by_hand_gives(llm: Any, constraints: dict[str, Constraint], name: str) -> None:
    prompt = llm.tokenize(GRAMMARS[name][1].encode())
    wanted = by_hand(llm, prompt, constraints[name])
    llm.reset()
    assert generated(llm, prompt, LogitsProcessor(llm, constraints[name])) == wanted


def test_a_second_call_begins_anew(llm: Any, constraints: dict[str, Constraint]) -> None:
    """The same prompt, one that begins with it, one that goes on where the text was cut, and another one."""
    processor = LogitsProcessor(llm, constraints["person"])
    plain = say(llm, "person", processor)["text"]
    assert json.loads(plain)
    assert say(llm, "person", processor)["text"] == plain  # now the prompt is cached as a whole
    for cut in (1, 3, 6):
        prompt = llm.tokenize(GRAMMARS["person"][1].encode())
        begun = generated(llm, prompt, processor, most=cut)
        assert len(begun) == cut
        going_on = llm.create_completion([*prompt, *begun], logits_processor=processor, max_tokens=MOST, temperature=0)
        check(going_on["choices"][0], "person", constraints["person"])
        assert going_on["choices"][0]["text"].startswith("{")


def test_streamed_and_complete_texts_agree(llm: Any, constraints: dict[str, Constraint]) -> None:
    processor = LogitsProcessor(llm, constraints["person"])
    complete = say(llm, "person", processor)
    llm.reset()
    stream = llm(GRAMMARS["person"][1], logits_processor=processor, max_tokens=MOST, temperature=0, stream=True)
    assert "".join(chunk["choices"][0]["text"] for chunk in stream) == complete["text"]


def test_a_stop_text_and_a_small_budget_cut(llm: Any, constraints: dict[str, Constraint]) -> None:
    processor = LogitsProcessor(llm, constraints["person"])
    stopped = say(llm, "person", processor, stop=[","])
    assert stopped["finish_reason"] == "stop"
    assert json.loads(stopped["text"] + "}")
    cut = say(llm, "person", processor, max_tokens=4)
    assert cut["finish_reason"] == "length"
    assert constraints["person"].matcher().accept_bytes(cut["text"].encode())
    check(say(llm, "person", processor), "person", constraints["person"])


def test_a_grammar_and_a_chat(llm: Any) -> None:
    """`create_chat_completion` takes a processor, too, with llama-cpp-python's own handlers."""
    answer = llm.create_chat_completion(
        [{"role": "user", "content": "Are you there?"}],
        logits_processor=LogitsProcessor(llm, Grammar.choice(["Yes", "No"])),
        temperature=0,
    )
    assert answer["choices"][0]["message"]["content"] in ("Yes", "No")


def test_with_logit_bias(llm: Any, constraints: dict[str, Constraint]) -> None:
    processor = LogitsProcessor(llm, constraints["choice"])
    bias = {llm.tokenize(b"Perhaps", add_bos=False)[0]: 50.0}
    assert say(llm, "choice", processor, logit_bias=bias)["text"] == "Perhaps"
    # As a list it is lost together with the bias, which the page says. Where this fails, the page can be shorter.
    lost = say(llm, "choice", LogitsProcessorList([processor]), logit_bias=bias)["text"]
    assert lost not in ("Yes", "No", "Yes and no", "Perhaps")


def test_as_the_last_of_a_list(llm: Any, constraints: dict[str, Constraint]) -> None:
    seen = []

    def look(ids: Any, logits: Any) -> Any:
        seen.append(len(ids))
        return logits * 2

    processors = LogitsProcessorList([look, LogitsProcessor(llm, constraints["person"])])
    check(say(llm, "person", processors, temperature=0.7), "person", constraints["person"])
    assert seen == list(range(seen[0], seen[0] + len(seen)))


def test_a_cache_of_states(llm: Any, constraints: dict[str, Constraint]) -> None:
    processor = LogitsProcessor(llm, constraints["person"])
    llm.set_cache(LlamaRAMCache())
    try:
        texts = {say(llm, name, processor if name == "person" else None)["text"] for name in ["person", "date"] * 2}
    finally:
        llm.set_cache(None)
    assert sum(text.startswith("{") for text in texts) == 1


@pytest.mark.parametrize("name", ["person", "sentence", "nested"])
def test_drafts_change_nothing(model_path: str, constraints: dict[str, Constraint], name: str) -> None:
    options = {"n_ctx": 512, "n_threads": 1, "n_threads_batch": 1, "verbose": False, "logits_all": True}
    draft = LlamaPromptLookupDecoding(num_pred_tokens=6)
    drafting = Llama(model_path, draft_model=draft, **options)
    asked: list[int] = []
    drafting.draft_model = lambda ids: asked.append(len(ids)) or draft(ids)  # type: ignore[func-returns-value]
    prompt = drafting.tokenize((GRAMMARS[name][1] + ' {"name":"Ada","age":36} ' + GRAMMARS[name][1]).encode())
    processor = LogitsProcessor(drafting, constraints[name])
    for most in (MOST, 5, MOST):
        made = generated(drafting, prompt, processor, most)
        assert constraints[name].matcher().accepts(made) == len(made)
    drafting.draft_model = None
    drafting.reset()
    assert generated(drafting, prompt, processor) == made
    assert asked


def spoiling(at: int, token: int) -> Any:
    """A processor that leaves one token at one step."""
    steps = []

    def spoil(ids: Any, logits: Any) -> Any:
        steps.append(1)
        if len(steps) == at:
            logits[:] = -np.inf
            logits[token] = 0
        return logits

    return spoil


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_takes_away_an_allowed_token_ends_the_text(
    llm: Any, constraints: dict[str, Constraint], capfd: pytest.CaptureFixture[str]
) -> None:
    processor = LogitsProcessor(llm, constraints["person"])
    wrong = llm.tokenize(b" wrong", add_bos=False)[0]
    choice = say(llm, "person", [processor, spoiling(3, wrong)])
    assert choice["finish_reason"] == "stop"
    assert choice["text"].endswith(" wrong")
    assert processor.error is not None
    assert processor.error.code == "tokens_disagree"
    with pytest.raises(EngineError):
        say(
            llm,
            "person",
            [processor, spoiling(3, wrong)],
            stopping_criteria=processor.check,
        )
    check(say(llm, "person", processor), "person", constraints["person"])
    assert processor.error is None


def test_two_generators_of_one_llama(llm: Any, constraints: dict[str, Constraint]) -> None:
    """llama-cpp-python cannot do that: they share one cache and one sampler. A text that is spoilt is ended."""
    processors = [LogitsProcessor(llm, constraints[name]) for name in ("person", "sentence")]
    prompts = [llm.tokenize(GRAMMARS[name][1].encode()) for name in ("person", "sentence")]
    made: list[list[int]] = [[], []]
    tokens = [
        llm.generate(prompt, temp=0, logits_processor=[processor.apply])
        for prompt, processor in zip(prompts, processors, strict=True)
    ]
    for _ in range(4):
        for place in (0, 1):
            made[place].append(next(tokens[place]))
    assert any(processor.error is not None for processor in processors)


def test_a_constraint_for_another_model(llm: Any) -> None:
    other = Vocabulary([b"a", b""], special={"<end>": 1}, eos=[1]).compile(Grammar.from_regex("a"))
    with pytest.raises(InputError) as caught:
        LogitsProcessor(llm, other)
    assert caught.value.code == "vocabulary_mismatch"


def test_the_vocabulary_is_that_of_the_model(llm: Any) -> None:
    vocabulary = vocabulary_of(llm)
    assert vocabulary is vocabulary_of(llm)
    assert vocabulary.size == llm.n_vocab()
    lost = lost_tokens(llm, vocabulary)
    assert lost
    for token in range(vocabulary.size):
        if token not in vocabulary.special.values() and token not in lost:
            assert vocabulary.token_bytes(token) == llm.detokenize([token])


def test_tokens_that_llama_cpp_python_cannot_show_are_not_written(llm: Any) -> None:
    """A token of 64 characters would be missing in the text."""
    grammar = Grammar.from_regex("#{64}( {64}-{32})?")
    assert len(say(llm, "empty", LogitsProcessor(llm, grammar), max_tokens=160)["text"]) in (64, 160)
    processor = LogitsProcessor(llm, grammar, readable=False)
    lacks = say(llm, "empty", [processor, favour(lost_tokens(llm, vocabulary_of(llm)))])["text"]
    assert len(lacks) < 64


def favour(tokens: tuple[int, ...]) -> Any:
    def add(ids: Any, logits: Any) -> Any:
        logits[list(tokens)] += 100
        return logits

    return add
