"""The options of the languages, as types: a type checker finds a name that is none. At run time it is an error."""

from __future__ import annotations

from typing import Literal

Whitespace = Literal["bounded", "compact", "any", "json.dumps"]
"""Between the tokens of JSON. bounded: at most one newline and 64 spaces and tabs at each place. compact: none. any: as
much as one likes. json.dumps: one space after each comma and colon, as Python writes it."""

KeyOrder = Literal["declared", "any"]
"""declared: keys in the order of `properties`. any: every order."""

Escapes = Literal["all", "minimal"]
"""How a character of a JSON string may be written. all: in every way that JSON has. minimal: with an escape only where
JSON needs one."""

OnUnsupported = Literal["error", "warn", "ignore"]
"""What a keyword does that is not enforced exactly. error: it is refused. warn: it is left out, with a warning. ignore:
it is left out. The report names it in any case."""

OnUnsupportedOfTools = Literal["error", "warn", "ignore", "by_tool"]
"""by_tool: a tool with `strict` refuses such a keyword. In others it is left out."""

Additional = Literal["standard", "declared"]
"""Keys that `properties` does not name, where `additionalProperties` does not say. standard: any, as JSON Schema has
it. declared: none."""

Dialect = Literal["python", "ecma", "rust"]
"""Whose regular expression it is: of `re`, of JavaScript, or of Rust's crate `regex`."""

Notation = Literal["xgrammar", "w3c", "iso", "bnf", "yacc"]
"""Of EBNF: docs/grammars.md has an example of each."""

Lexer = Literal["all", "greedy"]
"""How a text is cut into Lark's terminals. all: every way counts. greedy: as llguidance cuts it."""

SubstringUnit = Literal["characters", "words", "lines"]
"""Where a text may be cut to quote it."""

Untyped = Literal["auto", "string", "json"]
"""What an argument written as bare text is where no schema says. json: what it says as JSON, if it is JSON. auto: as
the format has it."""
