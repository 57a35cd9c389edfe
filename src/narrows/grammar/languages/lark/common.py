"""The modules that a Lark grammar can import, written anew: the names and languages of those that come with Lark."""

from __future__ import annotations

COMMON = r"""
DIGIT: "0".."9"
HEXDIGIT: DIGIT | "a".."f" | "A".."F"
INT: DIGIT+
SIGNED_INT: ("+" | "-")? INT
DECIMAL: INT "." INT? | "." INT
_EXP: ("e" | "E") SIGNED_INT
FLOAT: INT _EXP | DECIMAL _EXP?
SIGNED_FLOAT: ("+" | "-")? FLOAT
NUMBER: FLOAT | INT
SIGNED_NUMBER: ("+" | "-")? NUMBER

_STRING_INNER: /.*?/
_STRING_ESC_INNER: _STRING_INNER /(?<!\\)(\\\\)*?/
ESCAPED_STRING: "\"" _STRING_ESC_INNER "\""

LCASE_LETTER: "a".."z"
UCASE_LETTER: "A".."Z"
LETTER: LCASE_LETTER | UCASE_LETTER
WORD: LETTER+
CNAME: ("_" | LETTER) ("_" | LETTER | DIGIT)*

WS_INLINE: (" " | "\t")+
WS: /[ \t\f\r\n]/+
CR: "\r"
LF: "\n"
NEWLINE: (CR? LF)+

SH_COMMENT: /#[^\n]*/
CPP_COMMENT: /\/\/[^\n]*/
C_COMMENT: "/*" /(.|\n)*?/ "*/"
SQL_COMMENT: /--[^\n]*/
"""

MODULES = {"common": COMMON}
