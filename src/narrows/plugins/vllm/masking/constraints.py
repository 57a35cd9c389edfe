"""The definition of a request's constraint, as vLLM carries it, and the constraint compiled from it. A constraint is
compiled once per definition and vocabulary.

Two places use this: the front end, which refuses what cannot be compiled before the engine sees it, and the process
that makes the masks. The caller's thread compiles (a thread of vLLM's pools, never an event loop). Threads that want
the same definition wait for one compilation. The memory of kept constraints is bounded, see narrows.compile_cache.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np

from narrows import Constraint, Grammar, Vocabulary
from narrows.compile_cache import CompileCache, Lease
from narrows.errors import GrammarError, InputError
from narrows.grammar.flatten import flatten
from narrows.grammar.languages import LANGUAGES, front_end
from narrows.grammar.languages.gbnf import GBNF
from narrows.grammar.languages.json_schema import JSON_SCHEMA
from narrows.grammar.languages.structural_tag import STRUCTURAL_TAG
from narrows.grammar.options import Whitespace
from narrows.limits import DEFAULT_LIMITS, Limits
from narrows.plugins.vllm import grammar_request, vocabulary
from narrows.plugins.vllm.grammar_request import JSON_OBJECT

ADDITIONAL = "NARROWS_VLLM_ADDITIONAL"
"""The environment variable for objects with `properties` and without `additionalProperties`. "declared", the default,
forbids other properties. "standard" allows them, as JSON Schema does."""


@dataclass(frozen=True, slots=True)
class Definition:
    """The source of a request's constraint. Equal definitions have equal grammars."""

    kind: str
    """A language of `narrows.grammar.languages`, or JSON_OBJECT."""
    text: str
    """The source as text (`FrontEnd.to_text`), or, as a "grammar", a text of grammar_request.py."""
    compact: bool = False
    """JSON without whitespace between its tokens."""
    additional: str = "declared"
    """As for `Grammar.from_json_schema`. Used for JSON and structural tags, and for tools whose text does not set
    it."""

    def grammar(self, limits: Limits) -> Grammar:
        """Raises `GrammarError`, `UnsupportedError`, `InputError` or `LimitError` with a pointer into the text."""
        whitespace: Whitespace = "compact" if self.compact else "bounded"
        options = {"whitespace": whitespace, "additional": self.additional}
        if self.kind == JSON_OBJECT:
            return Grammar.from_json_schema({"type": "object"}, whitespace=whitespace, limits=limits)
        if self.kind == GBNF.name and grammar_request.is_for_tools(self.text):
            return grammar_request.read(self.text, limits, self.additional).grammar(limits)
        language = front_end(self.kind)
        try:
            source = language.from_text(self.text)
            return Grammar.from_language(self.kind, source, limits=limits, **language.of_those(options))
        except GrammarError as error:
            if error.hint is None and error.code.startswith("gbnf_"):
                error.hint = (
                    "The text is read as GBNF (root ::= ...); a Lark grammar begins with a rule, as in start: ..."
                )
            raise


class Constraints:
    """The constraints of one vocabulary, in a `narrows.compile_cache.CompileCache`. Thread-safe."""

    def __init__(self, vocabulary: Vocabulary, limits: Limits = DEFAULT_LIMITS) -> None:
        self.vocabulary = vocabulary
        self._limits = limits
        self._kept: CompileCache[Definition, Constraint] = CompileCache(lambda constraint: constraint.bytes, limits)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def bytes_held(self) -> int:
        """Bytes of the kept constraints and of the texts that they were made from."""
        return self._kept.bytes_held

    def lease(self, definition: Definition) -> Lease[Constraint]:
        """The compiled constraint, in use while the lease lives. Its first mask has been made once, within the limits.
        Blocks while the constraint is compiled. Raises what compiling raises."""
        return self._kept.get(definition, lambda: self._compile(definition), len(definition.text))

    def get(self, definition: Definition) -> Constraint:
        """The constraint without a lease, to check that the definition can be compiled."""
        return self.lease(definition).value

    def _compile(self, definition: Definition) -> Constraint:
        grammar = definition.grammar(self._limits)
        arrays = flatten(grammar.module, self.vocabulary.facts, self._limits, grammar.work)
        constraint = self.vocabulary.assemble(arrays, self._limits)  # the grammar's Python objects need not be kept
        # The first mask is needed anyway. If it exceeds a limit, the error should come before the answer begins.
        row = np.zeros((self.vocabulary.size + 31) // 32, dtype=np.int32)
        constraint.matcher().fill_mask(row)
        if not row.any():
            raise GrammarError("no token of this model can begin an allowed text", code="not_spellable")
        return constraint


_shared_lock = threading.Lock()
_shared: OrderedDict[int, Constraints] = OrderedDict()


def of_model(tokenizer: Any, model_config: Any, size: int | None = None) -> Constraints:
    """The constraints of the model that vLLM serves, shared in this process (vocabulary.py)."""
    vocab = vocabulary.of_model(tokenizer, model_config, size)
    with _shared_lock:
        # The entry holds the vocabulary, so that no other object gets the same id.
        shared = _shared.setdefault(id(vocab), Constraints(vocab))
        _shared.move_to_end(id(vocab))
        while len(_shared) > vocabulary.KEPT:
            _shared.popitem(last=False)
    return shared


def reading(extra_args: dict[str, Any] | None = None) -> str:
    """The value of `additional` for objects without `additionalProperties`: the request's `narrows_additional`, else
    the environment variable, else "declared".

    Raises `InputError` code `extra_args_invalid` or `environment_invalid`.
    """
    additional = extra_args.get(ADDITIONAL_ARG) if extra_args is not None else None
    if additional is not None:
        if additional not in ("standard", "declared"):
            raise _invalid(f'{ADDITIONAL_ARG} must be "standard" or "declared"', ADDITIONAL_ARG)
        return str(additional)
    default = os.environ.get(ADDITIONAL) or "declared"
    if default not in ("standard", "declared"):
        raise InputError(f'{ADDITIONAL} must be "standard" or "declared", not {default!r}', code="environment_invalid")
    return default


def of_json(text: str, compact: bool = False, additional: str | None = None) -> Definition:
    """The definition of a schema. The text may also be one of `grammar_request.for_schema`."""
    if grammar_request.is_schema(text):
        text, additional = grammar_request.read_schema(text)
    return Definition("json", text, compact, additional or reading())


def of_structured_outputs(params: Any, compact: bool = False, additional: str | None = None) -> Definition | None:
    """The definition in `vllm.sampling_params.StructuredOutputsParams`. None if it has none.

    `additional`: the value that the request or the engine's flag sets, if any."""
    if params.json is not None:
        text = params.json if isinstance(params.json, str) else json.dumps(params.json)
        return of_json(text, compact, additional)
    if params.json_object:
        return Definition("json_object", "", compact)
    if params.regex is not None:
        return Definition("regex", params.regex)
    if params.choice is not None:
        return Definition("choice", json.dumps(params.choice))
    if params.grammar is not None:
        return of_grammar(params.grammar)
    if params.structural_tag is not None:
        return of_structural_tag(params.structural_tag, compact, additional)
    return None


def of_structural_tag(text: str, compact: bool = False, additional: str | None = None) -> Definition:
    """The definition of a structural tag's JSON text. The text may also be one of `grammar_request.for_schema`."""
    if grammar_request.is_schema(text):
        text, additional = grammar_request.read_schema(text)
    return Definition(STRUCTURAL_TAG.name, text, compact, additional or reading())


def of_grammar(text: str) -> Definition:
    """The definition of a grammar's text. The text may also be one of `grammar_request.for_tools`."""
    return (
        Definition("grammar", text, additional=reading())
        if grammar_request.is_for_tools(text)
        else Definition("grammar", text)
    )


PREFIX = "narrows_"
"""Prefix of narrows' names in `SamplingParams.extra_args` (`vllm_xargs` over HTTP). The name of a language follows:
narrows_json, narrows_regex ..."""
ADDITIONAL_ARG = "narrows_additional"
"""The name in extra_args of `additional` for all schemas of the request: "standard" or "declared"."""


def of_extra_args(extra_args: dict[str, Any] | None) -> Definition | None:
    """The definition in a request's extra arguments. None if there is none.

    Raises `InputError` code `extra_args_invalid` for an unknown name with narrows' prefix, for more than one
    constraint, or for a value of another type.
    """
    names = [name for name in extra_args or () if isinstance(name, str) and name.startswith(PREFIX)]
    if not names or extra_args is None:
        return None
    known = (*(PREFIX + language for language in LANGUAGES), ADDITIONAL_ARG)
    for name in names:
        if name not in known:
            raise _invalid(f"there is no {name}", name, f"Known: {', '.join(known)}")
    additional = reading(extra_args)
    names = [name for name in names if name != ADDITIONAL_ARG]
    if not names:
        return None
    if len(names) > 1:
        raise _invalid(f"{names[0]} and {names[1]} exclude each other", names[1], "Send one of them")
    name, value = names[0], extra_args[names[0]]
    language = LANGUAGES[name.removeprefix(PREFIX)]
    if language.written_as_json:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise _invalid(f"{name} must be a list of strings", name)
        return Definition(language.name, language.to_text(value))
    if language not in (JSON_SCHEMA, STRUCTURAL_TAG):
        if not isinstance(value, str):
            raise _invalid(f"{name} must be a string", name)
        return Definition(language.name, value)
    if not isinstance(value, (str, dict)):  # a dict is only possible if the engine is called from Python
        raise _invalid(f"{name} must be a string", name, "Send it as its JSON text")
    return Definition(language.name, language.to_text(value), additional=additional)


def _invalid(message: str, name: str, hint: str | None = None) -> InputError:
    return InputError(message, code="extra_args_invalid", pointer=f"/vllm_xargs/{name}", hint=hint)
