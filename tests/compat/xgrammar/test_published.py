"""What xgrammar's README and pages show (quick start, engine integration, Hugging Face transformers, structural tags), written anew and run
with a real small model and its tokenizer."""

from __future__ import annotations

import json
from typing import Any

import pytest

import narrows.compat.xgrammar as xgr
from narrows.engines.default_model import default_gguf

torch = pytest.importorskip("torch", reason="make test-transformers installs torch and transformers")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate", reason="transformers needs it to read a GGUF file")
pydantic = pytest.importorskip("pydantic")


@pytest.fixture(scope="module")
def loaded() -> tuple[Any, Any]:
    path = default_gguf()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    tokenizer.padding_side = "left"
    model = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    return model.eval(), tokenizer


@pytest.fixture(scope="module")
def compiler(loaded: tuple[Any, Any]) -> xgr.GrammarCompiler:
    model, tokenizer = loaded
    info = xgr.TokenizerInfo.from_huggingface(tokenizer, vocab_size=model.config.vocab_size)
    return xgr.GrammarCompiler(info, max_threads=8)


class Person(pydantic.BaseModel):  # type: ignore[misc, name-defined]
    name: str = pydantic.Field(max_length=10)
    age: int = pydantic.Field(ge=0, le=120)


CALL = {
    "type": "tag",
    "begin": "<function=get_weather>",
    "content": {
        "type": "json_schema",
        "json_schema": {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"]},
    },
    "end": "</function>",
}


def texts(loaded: tuple[Any, Any], prompts: list[str], compiled: Any, **options: Any) -> list[str]:
    model, tokenizer = loaded
    inputs = tokenizer(prompts, return_tensors="pt", padding=True)
    processor = xgr.contrib.hf.LogitsProcessor(compiled)
    made = model.generate(**inputs, logits_processor=[processor], max_new_tokens=60, **{"do_sample": False, **options})
    return [tokenizer.decode(row, skip_special_tokens=True) for row in made[:, inputs.input_ids.shape[1] :]]


def test_the_quick_start(loaded: tuple[Any, Any], compiler: xgr.GrammarCompiler) -> None:
    compiled = compiler.compile_json_schema(Person, any_whitespace=False)
    (text,) = texts(loaded, ["Introduce yourself as JSON:"], compiled)
    assert Person.model_validate_json(text)
    (text,) = texts(loaded, ["Yes or no?"], compiler.compile_regex("(yes|no)!"))
    assert text in ("yes!", "no!")
    (text,) = texts(loaded, ["1 + 1 ="], compiler.compile_grammar('root ::= [0-9]{1,3} " apples"'))
    assert text.endswith(" apples")
    compiler.compile_builtin_json_grammar()


@pytest.mark.parametrize("options", [{}, {"do_sample": True, "temperature": 1.5}], ids=["greedy", "sampled"])
def test_a_batch_with_a_grammar_for_each_prompt(
    loaded: tuple[Any, Any], compiler: xgr.GrammarCompiler, options: Any
) -> None:
    torch.manual_seed(1)
    compiled = [
        compiler.compile_json_schema(Person, any_whitespace=False, separators=(",", ":")),
        compiler.compile_regex("[0-9]{2}"),
        compiler.compile_grammar('root ::= "a" | "b"'),
    ]
    person, number, letter = texts(loaded, ["A person:", "2 + 2 =", "Say a long letter:"], compiled, **options)
    assert Person.model_validate_json(person)
    assert len(number) == 2
    assert number.isdigit()
    assert letter in ("a", "b")


def test_the_loop_of_an_engine(loaded: tuple[Any, Any], compiler: xgr.GrammarCompiler) -> None:
    _, tokenizer = loaded
    size = compiler.compile_regex("a").tokenizer_info.vocab_size
    matcher = xgr.GrammarMatcher(compiler.compile_json_schema(Person, any_whitespace=False))
    bitmask = xgr.allocate_token_bitmask(1, size)
    assert (bitmask.shape, bitmask.dtype) == (xgr.get_bitmask_shape(1, size), xgr.bitmask_dtype)
    torch.manual_seed(2)
    for _ in range(2):
        tokens: list[int] = []
        while not matcher.is_terminated():
            logits = torch.randn(size)
            logits[[tokenizer.eos_token_id, *tokenizer('"0123456789').input_ids]] += 8  # so that it comes to an end
            matcher.fill_next_token_bitmask(bitmask)
            xgr.apply_token_bitmask_inplace(logits, bitmask.to(logits.device))
            token = int(torch.multinomial(torch.softmax(logits, 0), 1))
            assert matcher.accept_token(token)
            tokens.append(token)
        assert Person.model_validate_json(tokenizer.decode(tokens[:-1]))
        matcher.reset()


def test_the_loop_of_an_engine_with_a_batch(compiler: xgr.GrammarCompiler) -> None:
    compiled = compiler.compile_builtin_json_grammar()
    size = compiled.tokenizer_info.vocab_size
    matchers = [xgr.GrammarMatcher(compiled) for _ in range(3)]
    bitmask = xgr.allocate_token_bitmask(4, size)
    for row, matcher in enumerate(matchers):
        matcher.accept_string("[" * row + ("1" if row else ""))
        assert matcher.fill_next_token_bitmask(bitmask, row)
    together = xgr.allocate_token_bitmask(4, size)
    xgr.BatchGrammarMatcher(max_threads=2).batch_fill_next_token_bitmask(matchers, together)
    assert torch.equal(bitmask, together)
    logits = torch.zeros(4, size)
    xgr.apply_token_bitmask_inplace(logits, bitmask, indices=[0, 2])
    refused = torch.isinf(logits)
    assert refused[0].any()
    assert refused[2].any()
    assert not refused[[1, 3]].any()
    assert refused[2].nonzero().flatten().tolist() == xgr.testing._get_masked_tokens_from_bitmask(bitmask, size, 2)
    xgr.reset_token_bitmask(bitmask)
    assert (bitmask == -1).all()


def test_jumping_forward(loaded: tuple[Any, Any], compiler: xgr.GrammarCompiler) -> None:
    _, tokenizer = loaded
    matcher = xgr.GrammarMatcher(compiler.compile_json_schema(Person, any_whitespace=False))
    assert matcher.find_jump_forward_string() == '{"name": "'
    for token in tokenizer('{"name": "').input_ids:
        assert matcher.accept_token(token)
    matcher.rollback(1)
    assert matcher.find_jump_forward_string()


def test_structural_tags(loaded: tuple[Any, Any], compiler: xgr.GrammarCompiler) -> None:
    tag = {
        "type": "structural_tag",
        "format": {
            "type": "triggered_tags",
            "triggers": ["<function="],
            "tags": [CALL],
            "at_least_one": True,
            "stop_after_first": True,
        },
    }
    for given in (tag, json.dumps(tag), xgr.StructuralTag.from_json(tag)):
        (text,) = texts(loaded, ["The weather in Oslo:"], compiler.compile_structural_tag(given))
        assert text.startswith(CALL["begin"])
        assert text.endswith(CALL["end"])
        assert json.loads(text[len(CALL["begin"]) : -len(CALL["end"])])["city"] in ("Rome", "Oslo")
    item = xgr.StructuralTagItem(begin=CALL["begin"], schema=CALL["content"]["json_schema"], end=CALL["end"])
    matcher = xgr.GrammarMatcher(compiler.compile_structural_tag([item], ["<function="]))
    assert matcher.accept_string('I look. <function=get_weather>{"city": "Rome"}</function> and')
    assert matcher.is_completed()
    assert not matcher.accept_string('<function=get_weather>{"city": "Paris"}')


def test_a_text_that_does_not_fit_is_noticed(compiler: xgr.GrammarCompiler) -> None:
    processor = xgr.contrib.hf.LogitsProcessor(compiler.compile_regex("a"))
    size = processor.full_vocab_size
    processor(torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, size))
    with pytest.raises(xgr.CompatError) as caught:
        processor(torch.full((1, 2), 100), torch.zeros(1, size))
    assert caught.value.code == "token_rejected"
    for wrong in (
        lambda: xgr.contrib.hf.LogitsProcessor([]),
        lambda: processor(torch.zeros(2, 1), torch.zeros(2, size)),
    ):
        with pytest.raises(xgr.CompatError):
            wrong()


def test_bytes_of_tokens_are_those_of_xgrammar(loaded: tuple[Any, Any]) -> None:
    theirs = pytest.importorskip("xgrammar", reason="make test-transformers installs xgrammar, to compare with")
    model, tokenizer = loaded
    for options in (
        {},
        {"vocab_size": model.config.vocab_size + 7},
        {"stop_token_ids": [3, 2]},
        {"vocab_size": 1000, "stop_token_ids": 2},
    ):
        mine, other = (x.TokenizerInfo.from_huggingface(tokenizer, **options) for x in (xgr, theirs))
        assert mine.dump_metadata() == other.dump_metadata()
        assert mine.decoded_vocab == other.decoded_vocab
        assert mine.special_token_ids == other.special_token_ids
