"""The formats of strings, each as an ECMA-262 pattern. What each means exactly is in docs/json_schema.md.

Cost: a format is lowered once per process.
"""

from __future__ import annotations

from functools import lru_cache

from narrows.grammar import ir, json_text, regex, utf8
from narrows.grammar.json_schema.spelling import international
from narrows.grammar.json_schema.spelling.lengths import Measured

_LEAP = "(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = (
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)"
)
_OFFSET = "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_TIME = (
    f"(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]+)?{_OFFSET}|23:59:60(?:[.][0-9]+)?(?:[Zz]|[+-]00:00))"
)
_IPV4 = r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_H = "[0-9A-Fa-f]{1,4}"
_LAST = f"(?:{_H}:{_H}|{_IPV4})"
_IPV6 = (
    f"(?:(?:{_H}:){{6}}{_LAST}|::(?:{_H}:){{5}}{_LAST}|(?:{_H})?::(?:{_H}:){{4}}{_LAST}"
    f"|(?:(?:{_H}:){{0,1}}{_H})?::(?:{_H}:){{3}}{_LAST}|(?:(?:{_H}:){{0,2}}{_H})?::(?:{_H}:){{2}}{_LAST}"
    f"|(?:(?:{_H}:){{0,3}}{_H})?::{_H}:{_LAST}|(?:(?:{_H}:){{0,4}}{_H})?::{_LAST}"
    f"|(?:(?:{_H}:){{0,5}}{_H})?::{_H}|(?:(?:{_H}:){{0,6}}{_H})?::)"
)
_A, _X = "[A-Za-z0-9]", "[A-Za-z0-9-]"
_LABEL = f"{_A}(?:{_X}(?:{_A}(?:{_X}{{0,59}}{_A})?|-{_A}(?:{_X}{{0,58}}{_A})?)|{_A})?"
"""At most 63 characters, and no `--` as the third and fourth: that is for names in Punycode (RFC 5891), of which only
some are valid, and which no automaton can tell."""
_HOSTNAME = rf"{_LABEL}(?:\.{_LABEL})*"
_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_EMAIL = rf"(?=[^@]{{1,64}}@){_ATOM}(?:\.{_ATOM})*@{_HOSTNAME}"
_UNRESERVED = r"A-Za-z0-9\-._~"
_SUB = "!$&'()*+,;="
_ESCAPED = "%[0-9A-Fa-f]{2}"
_BEYOND_ASCII = "\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    f"{chr(plane << 16 | (0x1000 if plane == 14 else 0))}-{chr(plane << 16 | 0xFFFD)}" for plane in range(1, 15)
)
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"


def _references(unreserved: str, in_query: str = "") -> tuple[str, str]:
    """The patterns of addresses and of relative references (RFC 3986 and 3987). `unreserved`: what may stand anywhere,
    `in_query`: what else may stand in a query, both for a class of characters."""
    pchar = f"(?:[{unreserved}{_SUB}:@]|{_ESCAPED})"
    host = rf"\[(?:{_IPV6}|[Vv][0-9A-Fa-f]+\.[{_UNRESERVED}{_SUB}:]+)\]|(?:[{unreserved}{_SUB}]|{_ESCAPED})*"
    authority = f"(?:(?:[{unreserved}{_SUB}:]|{_ESCAPED})*@)?(?:{host})(?::[0-9]*)?"
    suffix = rf"(?:\?(?:{pchar}|[/?{in_query}])*)?(?:#(?:{pchar}|[/?])*)?"
    path = f"//{authority}(?:/{pchar}*)*|/(?:{pchar}+(?:/{pchar}*)*)?"
    first = f"(?:[{unreserved}{_SUB}@]|{_ESCAPED})+"
    return (
        rf"[A-Za-z][A-Za-z0-9+.\-]*:(?:{path}|{pchar}+(?:/{pchar}*)*|)" + suffix,
        f"(?:{path}|{first}(?:/{pchar}*)*|)" + suffix,
    )


_URI, _RELATIVE = _references(_UNRESERVED)
_IRI, _RELATIVE_IRI = _references(_UNRESERVED + _BEYOND_ASCII, _PRIVATE)
_VARIABLE = rf"(?:[A-Za-z0-9_]|{_ESCAPED})(?:\.?(?:[A-Za-z0-9_]|{_ESCAPED}))*(?::[1-9][0-9]{{0,3}}|\*)?"
_URI_TEMPLATE = (
    rf"(?:[!#$&-;=?-\[\]_a-z~{_BEYOND_ASCII}{_PRIVATE}]|{_ESCAPED}"
    rf"|\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
)
_DAY_TIME = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"

_UUID_OF = "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-%d[0-9A-Fa-f]{3}-[89ABab][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}"
_BASE64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"


def _regex() -> str:
    """Regular expressions that every dialect reads alike. Groups lie in groups twice at most: no automaton counts
    brackets."""
    letter, special = r"[^\\^$.*+?()\[\]{}|]", r"\\[dDsSwWfnrtv^$\\.*+?()\[\]{}|/]"
    character = r"\\x[0-9A-Fa-f]{2}|\\u(?:[0-9A-CEFa-cef][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2})"
    spans = "a-z|A-Z|0-9|a-f|A-F|1-9|a-zA-Z0-9"
    item = rf"[^\\\]\[^&~|-]|{special}|{character}|{spans}"
    inner = rf"{letter}|{special}|{character}|\.|\[\^?(?:{item})(?:{item})*-?\]"
    counts = r"[0-9]{1,3},?|0,[0-9]{1,3}|1,[1-9][0-9]{0,2}|[2-9],[1-9][0-9]{1,2}|" + "|".join(
        f"{least},[{least}-9]" for least in range(2, 10)
    )
    times = rf"(?:(?:[*+?]|\{{(?:{counts})\}})\??)?"
    term = rf"(?:{inner}){times}|[\^$]|\\[bB]"
    for _ in range(2):
        group = rf"(?:{term})*(?:\|(?:{term})*)*"
        term = rf"(?:{inner}|\((?:\?:)?{group}\)){times}|\(\?[=!]{group}\)|[\^$]|\\[bB]"
    return rf"(?:{term})*(?:\|(?:{term})*)*"


PATTERNS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}[Tt]{_TIME}",
    "duration": (
        f"P(?:[0-9]+W|{_DAY_TIME}|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:{_DAY_TIME})?)"
    ),
    "uuid": "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}",
    **{f"uuid{version}": _UUID_OF % version for version in (1, 3, 4, 5, 6, 7, 8)},
    "byte": _BASE64,
    "base64": _BASE64,
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "hostname": _HOSTNAME,
    "idn-hostname": international.host_names(_HOSTNAME),
    "email": _EMAIL,
    "idn-email": international.addresses(_EMAIL),
    "uri": _URI,
    "uri-reference": f"(?:{_URI}|{_RELATIVE})",
    "uri-template": _URI_TEMPLATE,
    "iri": _IRI,
    "iri-reference": f"(?:{_IRI}|{_RELATIVE_IRI})",
    "json-pointer": "(?:/(?:[^~/]|~[01])*)*",
    "regex": _regex(),
    "relative-json-pointer": "(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)",
}
_ANY = r"[\s\S]*"
_ANY_TIME = rf"(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:[.][0-9]+)?{_OFFSET}"
PARTS = {
    "time": ("second 60 only as 23:59:60 at offset zero", _ANY_TIME),
    "date-time": ("second 60 only as 23:59:60 at offset zero", f"{_DATE}[Tt]{_ANY_TIME}"),
    "hostname": ("no names in Punycode", "[A-Za-z0-9.-]+"),
    "idn-hostname": ("of names with letters beyond ASCII, those that are sure", _ANY),
    "email": ("no quoted local parts, no address literals, no names in Punycode", f"{_ANY}@{_ANY}"),
    "idn-email": ("of names with letters beyond ASCII, those that are sure", f"{_ANY}@{_ANY}"),
    "regex": ("what ECMA-262 and Python read alike, with groups in groups twice at most", _ANY),
}
"""The formats of which `PATTERNS` has only a part: which, and a pattern that has all strings of the format, and more.
Where a format must not hold, what must not be is all of them."""
_LENGTHS = {"hostname": 253, "idn-hostname": 253, "email": 254, "idn-email": 254}


@lru_cache(maxsize=256)
def format_body(name: str, escapes: json_text.Escapes) -> ir.Node:
    """The format's strings, as a regular node over the characters between the quotes."""
    node = regex.search_node(
        f"^(?:{PATTERNS[name]})$", dialect="ecma", encode=lambda ranges: json_text.char(ranges, escapes)
    )
    longest = _LENGTHS.get(name)
    return node if longest is None else ir.And((node, ir.Repeat(json_text.char(utf8.ANY, escapes), 1, longest)))


@lru_cache(maxsize=64)
def format_surely(name: str, escapes: json_text.Escapes) -> ir.Node:
    """The same, and all that may be a string of the format, for its negation."""
    if name not in PARTS:
        return format_body(name, escapes)
    return regex.search_node(
        f"^(?:{PARTS[name][1]})$", dialect="ecma", encode=lambda ranges: json_text.char(ranges, escapes)
    )


@lru_cache(maxsize=64)
def format_lengths(name: str) -> tuple[int, int | None]:
    """The least and the greatest length of the format's strings; None: without end."""
    measured = Measured(regex.parse(f"^(?:{PATTERNS[name]})$", "ecma"))
    return measured.least, _LENGTHS.get(name, measured.greatest)
