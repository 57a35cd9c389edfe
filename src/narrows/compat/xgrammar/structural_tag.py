"""Structural tags as Pydantic models, under xgrammar's names. `model_dump_json` writes what
`Grammar.from_structural_tag` reads; docs/grammars.md says what each format means, and which narrows refuses.

Unlike xgrammar's, the models refuse fields that they do not know.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field

from narrows.compat.xgrammar.exception import WrongTypeError
from narrows.compat.xgrammar.grammar import tags_and_triggers

_Bound = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Token = Union[int, str]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ConstStringFormat(_Model):
    """Exactly this text."""

    type: Literal["const_string"] = "const_string"
    value: str


class JSONSchemaFormat(_Model):
    """A value that a JSON Schema allows."""

    type: Literal["json_schema"] = "json_schema"
    json_schema: bool | dict[str, Any]
    style: str = "json"
    any_order: bool = False
    max_whitespace_cnt: int | None = None
    excludes: list[str] = []


class QwenXMLParameterFormat(_Model):
    """The parameters of a call in Qwen's XML."""

    type: Literal["qwen_xml_parameter"] = "qwen_xml_parameter"
    json_schema: bool | dict[str, Any]


class AnyTextFormat(_Model):
    """Any text without the excluded strings, up to a bound."""

    type: Literal["any_text"] = "any_text"
    excludes: list[str] = []
    max_tokens: _Bound | None = None
    max_chars: _Bound | None = None


class GrammarFormat(_Model):
    """A text of a grammar in xgrammar's EBNF."""

    type: Literal["grammar"] = "grammar"
    grammar: str


class RegexFormat(_Model):
    """A text that matches as a whole."""

    type: Literal["regex"] = "regex"
    pattern: str


class TokenFormat(_Model):
    """One token, by its id or its text."""

    type: Literal["token"] = "token"
    token: _Token


class ExcludeTokenFormat(_Model):
    """Any one token but these."""

    type: Literal["exclude_token"] = "exclude_token"
    exclude_tokens: list[_Token] = []


class AnyTokensFormat(_Model):
    """Any tokens but these, up to a bound."""

    type: Literal["any_tokens"] = "any_tokens"
    exclude_tokens: list[_Token] = []
    max_tokens: _Bound | None = None


class SequenceFormat(_Model):
    """One after the other."""

    type: Literal["sequence"] = "sequence"
    elements: list[Format]


class OrFormat(_Model):
    """Any one of them."""

    type: Literal["or"] = "or"
    elements: list[Format]


class OptionalFormat(_Model):
    """The content, or nothing."""

    type: Literal["optional"] = "optional"
    content: Format


class PlusFormat(_Model):
    """The content, once or more often."""

    type: Literal["plus"] = "plus"
    content: Format


class StarFormat(_Model):
    """The content, as often as you like."""

    type: Literal["star"] = "star"
    content: Format


class RepeatFormat(_Model):
    """The content, `min` to `max` times."""

    type: Literal["repeat"] = "repeat"
    min: int
    max: int
    content: Format


class TagFormat(_Model):
    """The content between a beginning and an end."""

    type: Literal["tag"] = "tag"
    begin: str | TokenFormat
    content: Format
    end: str | list[str] | TokenFormat


class TriggeredTagsFormat(_Model):
    """Free text, which a trigger takes into a tag."""

    type: Literal["triggered_tags"] = "triggered_tags"
    triggers: list[str]
    tags: list[TagFormat]
    at_least_one: bool = False
    stop_after_first: bool = False
    excludes: list[str] = []


class TokenTriggeredTagsFormat(_Model):
    """Free tokens, of which a trigger leads into a tag."""

    type: Literal["token_triggered_tags"] = "token_triggered_tags"
    trigger_tokens: list[_Token]
    tags: list[TagFormat]
    exclude_tokens: list[_Token] = []
    at_least_one: bool = False
    stop_after_first: bool = False


class TagsWithSeparatorFormat(_Model):
    """Tags with a separator between them."""

    type: Literal["tags_with_separator"] = "tags_with_separator"
    tags: list[TagFormat]
    separator: str
    at_least_one: bool = False
    stop_after_first: bool = False


class DispatchFormat(_Model):
    """Free text, which a pattern takes into a format."""

    type: Literal["dispatch"] = "dispatch"
    rules: list[tuple[str, Format]]
    loop: bool = True
    excludes: list[str] = []


class TokenDispatchFormat(_Model):
    """Free tokens, of which one leads into a format."""

    type: Literal["token_dispatch"] = "token_dispatch"
    rules: list[tuple[_Token, Format]]
    loop: bool = True
    exclude_tokens: list[_Token] = []


Format = Annotated[
    Union[
        AnyTextFormat,
        AnyTokensFormat,
        ConstStringFormat,
        DispatchFormat,
        ExcludeTokenFormat,
        GrammarFormat,
        JSONSchemaFormat,
        OptionalFormat,
        OrFormat,
        PlusFormat,
        QwenXMLParameterFormat,
        RegexFormat,
        RepeatFormat,
        SequenceFormat,
        StarFormat,
        TagFormat,
        TagsWithSeparatorFormat,
        TokenDispatchFormat,
        TokenFormat,
        TokenTriggeredTagsFormat,
        TriggeredTagsFormat,
    ],
    Field(discriminator="type"),
]
"""Any of the formats."""


class StructuralTagItem(_Model):
    """A tag of the older form. `schema`: JSON text, a dict or a Pydantic model."""

    begin: str
    schema_: str | type[BaseModel] | dict[str, Any] = Field(alias="schema")
    end: str


class StructuralTag(_Model):
    """A whole structural tag."""

    type: Literal["structural_tag"] = "structural_tag"
    format: Format

    @staticmethod
    def from_legacy_structural_tag(tags: list[StructuralTagItem], triggers: list[str]) -> StructuralTag:
        """The older form: free text with these tags."""
        return StructuralTag.model_validate(tags_and_triggers(tags, triggers))

    @staticmethod
    def from_json(json_str: str | dict[str, Any]) -> StructuralTag:
        """From JSON text or a dict. Raises Pydantic's ValidationError, and WrongTypeError for another type."""
        if isinstance(json_str, str):
            return StructuralTag.model_validate_json(json_str)
        if isinstance(json_str, dict):
            return StructuralTag.model_validate(json_str)
        raise WrongTypeError("a structural tag is JSON text or a dict", pointer="/json_str")


for _model in (
    SequenceFormat,
    OrFormat,
    OptionalFormat,
    PlusFormat,
    StarFormat,
    RepeatFormat,
    TagFormat,
    TriggeredTagsFormat,
    TokenTriggeredTagsFormat,
    TagsWithSeparatorFormat,
    DispatchFormat,
    TokenDispatchFormat,
):
    _model.model_rebuild()
