"""The regions of a transcript: each file reads one kind of place. `machine.Region` says what a region does.

| file | region | what it reads |
| --- | --- | --- |
| `text` | `Text` | content or reasoning, until a marker |
| `layout` | `Layout` | the newlines around a marker |
| `repeated_opener` | `RepeatedOpener` | an opener of reasoning that comes twice |
| `late_closer` | `LateCloser` | the closer of reasoning or content, after a call in it |
| `marker_as_text` | `MarkerAsText` | a marker that is part of the content |
| `name` | `Name` | a name between markers |
| `expect` | `Expect` | whitespace, then one of a few markers |
| `either` | `Either` | one marker, if it comes next |
| `second` | `Second` | nothing: the character after the next decides which region reads |
| `attributes` | `Attributes` | a tag's attributes: ` name="f" type="string">` |
| `message_head` | `MessageHead` | a message's head: `<|channel|>commentary to=f <|message|>` |
| `json_call` | `CallObject` | a call as one object: `{"name": "f", "arguments": {...}}` |
| `json_array` | `CallArray` | several such objects |
| `json_arguments` | `JsonArguments` | an arguments object whose call's name stands outside it |
| `json_content` | `JsonContent`, `EndOfObject` | content that is a JSON value, and the object around it |
| `literals` | `LiteralArguments` | arguments as literals: `city='Paris', days=3)` |
| `call_list` | `CallList` | the separators between such calls, and their end |
| `xml_value` | `Value` | a parameter's value as bare text, until its closing tag |
| `xml_nested` | `Elements` | arguments as nested elements |
| `parameters` | `EndOfCall` | nothing: it ends the arguments whose parameters `Parameters` wrote |
| `raw_arguments` | `RawArguments` | the rest of a call that has broken off |

These files help them:

| file | what it holds |
| --- | --- |
| `enter_only` | the base class of regions that read nothing |
| `later` | stands for a region that is made when it is entered |
| `values` | the JSON value of bare text |
| `python_value` | the JSON of a value as Python writes it, read with `LiteralArguments` |

A region imports files of `stream`, and other regions. Nothing that regions import may import a region, type hints
included.
"""
