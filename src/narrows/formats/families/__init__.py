"""Families of wire formats: what a `[[call]]` table of a format's TOML file may say, and what it means.

A family is a file with a subclass of `Shape` (base.py). Its fields are the keys of the table. Its methods give what
begins a call (openers.py), the regions that read a call (build.py), the grammar of a call and the text of a call. A new
format of a known family is a TOML file. A new family is a file here, and a line in `FAMILIES`.
"""

from __future__ import annotations

from narrows.formats.families.base import Shape
from narrows.formats.families.json_answer import JsonAnswerShape
from narrows.formats.families.json_arguments import JsonArgumentsShape
from narrows.formats.families.json_array import JsonArrayShape
from narrows.formats.families.json_messages import JsonMessagesShape
from narrows.formats.families.json_object import JsonObjectShape
from narrows.formats.families.line_calls import LineCallsShape
from narrows.formats.families.literal_calls import LiteralCallsShape
from narrows.formats.families.xml_addressed import XmlAddressedShape
from narrows.formats.families.xml_attributes import XmlAttributesShape
from narrows.formats.families.xml_message import XmlMessageShape
from narrows.formats.families.xml_nested import XmlNestedShape
from narrows.formats.families.xml_parameters import XmlParametersShape

FAMILIES: dict[str, type[Shape]] = {
    "json_object": JsonObjectShape,
    "json_array": JsonArrayShape,
    "json_arguments": JsonArgumentsShape,
    "json_messages": JsonMessagesShape,
    "json_answer": JsonAnswerShape,
    "xml_attributes": XmlAttributesShape,
    "xml_nested": XmlNestedShape,
    "xml_addressed": XmlAddressedShape,
    "xml_message": XmlMessageShape,
    "xml_parameters": XmlParametersShape,
    "literal_calls": LiteralCallsShape,
    "line_calls": LineCallsShape,
}

__all__ = ["FAMILIES", "Shape"]
