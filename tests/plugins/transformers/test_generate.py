"""`generate` of the real transformers on a small real model: every text is one of its constraint, whatever the batch,
the beams and the way of decoding."""

from __future__ import annotations

import os
from threading import Thread
from typing import Any

import numpy as np
import pytest

from narrows import Constraint, Content, Grammar, InputError, Reasoning, Vocabulary, formats
from narrows.engines.default_model import default_gguf
from narrows.plugins import transformers as plugin

torch = pytest.importorskip("torch", reason="make test-transformers installs torch and transformers")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate", reason="transformers needs it to read a GGUF file")

PROMPTS = ["A person as JSON:", "Say a long sentence about the sea and the sun, please.", "2 + 2 =", "Yes or no?"]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "maximum": 99, "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def loaded() -> tuple[Any, Any]:
    path = default_gguf()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    tokenizer.padding_side = "left"
    model = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    return model.eval(), tokenizer


@pytest.fixture(scope="module")
def constraints(loaded: tuple[Any, Any]) -> list[Constraint | None]:
    model, tokenizer = loaded
    vocabulary = Vocabulary.from_transformers(tokenizer, size=model.config.vocab_size)
    grammars = [
        Grammar.from_json_schema(SCHEMA, whitespace="compact"),
        Grammar.from_regex(r"[a-z ]{5,20}\."),
        Grammar.from_regex(r"-?[0-9]{1,3}"),
        Grammar.choice(["Yes", "No", "Yes and no", "Perhaps"]),
    ]
    return [vocabulary.compile(grammar) for grammar in grammars]


def generate(loaded: tuple[Any, Any], prompts: list[str], constraints: Any, **options: Any) -> list[list[int]]:
    """The tokens after the prompts, without padding."""
    model, tokenizer = loaded
    inputs = tokenizer(prompts, return_tensors="pt", padding=True)
    made = model.generate(
        **inputs,
        logits_processor=[plugin.LogitsProcessor(constraints)],
        max_new_tokens=32,
        **{"do_sample": False, **options},
    )
    rows = made[:, inputs.input_ids.shape[1] :].tolist()
    end = tokenizer.eos_token_id
    return [row[: row.index(end) + 1] if end in row else row for row in rows]


def check(rows: list[list[int]], constraints: list[Constraint | None]) -> None:
    """Each row is a text of its constraint that has ended, or the beginning of one."""
    each = len(rows) // len(constraints)
    for index, row in enumerate(rows):
        constraint = constraints[index // each]
        if constraint is not None:
            matcher = constraint.matcher()
            assert matcher.accepts(row) == len(row), row
            matcher.replay(row)
            assert matcher.is_finished or len(row) == 32


WAYS = [
    {},
    {"do_sample": True, "temperature": 1.5},
    {"do_sample": True, "top_p": 0.9, "top_k": 20, "num_return_sequences": 3},
    {"num_beams": 4, "num_return_sequences": 3},
    {"num_beams": 3, "do_sample": True},
]


@pytest.mark.parametrize("options", WAYS, ids=lambda options: ",".join(options) or "greedy")
def test_batches_of_different_constraints(
    loaded: tuple[Any, Any], constraints: list[Constraint | None], options: dict[str, Any]
) -> None:
    torch.manual_seed(1)
    mixed = [*constraints, None, *constraints[:3]]
    check(generate(loaded, [*PROMPTS, *PROMPTS], mixed, **options), mixed)


def test_a_batch_says_what_each_prompt_says_alone(
    loaded: tuple[Any, Any], constraints: list[Constraint | None]
) -> None:
    together = generate(loaded, PROMPTS, constraints)
    assert together == [
        generate(loaded, [prompt], constraint)[0] for prompt, constraint in zip(PROMPTS, constraints, strict=True)
    ]


@pytest.mark.parametrize("which", range(4))
def test_a_seed_says_what_a_loop_by_hand_says(
    loaded: tuple[Any, Any], constraints: list[Constraint | None], which: int
) -> None:
    """Sampling from the masked scores, token by token."""
    model, tokenizer = loaded
    constraint = constraints[which]
    assert constraint is not None
    for seed in range(3):
        torch.manual_seed(seed)
        [made] = generate(loaded, [PROMPTS[which]], constraint, do_sample=True, top_k=0)
        torch.manual_seed(seed)
        ids = tokenizer([PROMPTS[which]], return_tensors="pt").input_ids
        matcher = constraint.matcher()
        row = np.zeros((1, (constraint.vocabulary.size + 31) // 32), np.int32)
        by_hand: list[int] = []
        with torch.no_grad():
            while len(by_hand) < 32 and not matcher.is_finished:
                matcher.fill_mask(row[0])
                allowed = np.unpackbits(row.view(np.uint8), axis=1, bitorder="little")[:, : constraint.vocabulary.size]
                scores = (
                    model(ids, use_cache=False)
                    .logits[:, -1]
                    .float()
                    .masked_fill(torch.from_numpy(allowed) == 0, -torch.inf)
                )
                token = torch.multinomial(torch.softmax(scores, -1), 1)
                ids = torch.cat([ids, token], 1)
                by_hand.append(int(token))
                assert matcher.accept(by_hand[-1])
        assert by_hand == made


GENERATIONS = int(os.environ.get("NARROWS_GENERATIONS", "24"))


def test_many_generations(loaded: tuple[Any, Any], constraints: list[Constraint | None]) -> None:
    """Batches of eight with mixed constraints: sampled, three for each prompt, and with four beams. NARROWS_GENERATIONS
    texts in all."""
    made = turn = 0
    while made < GENERATIONS:
        torch.manual_seed(turn)
        order = [(place * 3 + turn) % 5 for place in range(8)]
        mixed = [[*constraints, None][which] for which in order]
        prompts = [PROMPTS[(which + turn) % 4] for which in order]
        ways: list[dict[str, Any]] = [
            {"do_sample": True, "temperature": 1.3},
            {"do_sample": True, "num_return_sequences": 3, "top_p": 0.95},
            {"num_beams": 4, "num_return_sequences": 3},
        ]
        rows = generate(loaded, prompts, mixed, **ways[turn % 3])
        check(rows, mixed)
        made += len(rows)
        turn += 1


@pytest.mark.parametrize("way", ["prompt_lookup_num_tokens", "assistant_model"])
def test_drafts_change_nothing(loaded: tuple[Any, Any], constraints: list[Constraint | None], way: str) -> None:
    value = 4 if way == "prompt_lookup_num_tokens" else loaded[0]
    prompt = 'A person as JSON: {"name":"Ada","age":36} Another person as JSON:'
    plain = generate(loaded, [prompt], constraints[0])
    assert generate(loaded, [prompt], constraints[0], **{way: value}) == plain
    check(plain, constraints[:1])


def test_the_same_processor_for_another_call(loaded: tuple[Any, Any], constraints: list[Constraint | None]) -> None:
    model, tokenizer = loaded
    processor = plugin.LogitsProcessor(constraints[3])
    texts = []
    for prompt in (*PROMPTS[2:], "Yes or no?"):
        inputs = tokenizer([prompt], return_tensors="pt")
        made = model.generate(**inputs, logits_processor=[processor], max_new_tokens=8, do_sample=False)
        texts.append(tokenizer.decode(made[0, inputs.input_ids.shape[1] :], skip_special_tokens=True))
    assert set(texts) <= {"Yes", "No", "Yes and no", "Perhaps"}


@pytest.mark.parametrize("width", [0, 1, 40])
def test_scores_that_are_wider_or_narrower(constraints: list[Constraint | None], width: int) -> None:
    assert constraints[3] is not None
    size = constraints[3].vocabulary.size
    scores = torch.zeros(1, size + width)
    out = plugin.LogitsProcessor(constraints[3])(torch.tensor([[5, 6]]), scores)
    assert out.shape == scores.shape
    assert not torch.isfinite(out[:, size:]).any()
    assert 0 < int(torch.isfinite(out).sum()) < 20
    assert not torch.isinf(scores).any()


def test_events_while_it_generates(loaded: tuple[Any, Any]) -> None:
    model, tokenizer = loaded
    vocabulary = Vocabulary.from_transformers(tokenizer, size=model.config.vocab_size)
    constraint = vocabulary.compile(Grammar.from_regex("<think>\n[a-z ]{1,9}\n</think>\n\n(yes|no)"))
    streamer = plugin.EventStreamer(formats.get("hermes_json").parser(vocab=vocabulary), timeout=120)
    inputs = tokenizer(["Well?"], return_tensors="pt")
    options = {"logits_processor": [plugin.LogitsProcessor(constraint)], "max_new_tokens": 40, "streamer": streamer}
    thread = Thread(target=model.generate, kwargs={**inputs, **options})
    thread.start()
    events = list(streamer)
    thread.join()
    reasoning = "".join(event.text for event in events if isinstance(event, Reasoning))
    content = "".join(event.text for event in events if isinstance(event, Content))
    assert reasoning.strip()
    assert content.strip() in ("yes", "no")


def test_what_cannot_be(constraints: list[Constraint | None]) -> None:
    other = Vocabulary([b"a", b""], special={"<end>": 1}, eos=[1]).compile(Grammar.from_regex("a"))
    for wrong in ([], [constraints[0], other]):
        with pytest.raises(InputError) as caught:
            plugin.LogitsProcessor(wrong)
        assert caught.value.code == "rows_invalid"
    with pytest.raises(InputError):
        plugin.EventStreamer(formats.get("hermes_json").parser()).put(torch.zeros(2, 3))
