"""Host names and e-mail addresses with letters beyond ASCII: the formats `idn-hostname` and `idn-email`.

Which names are valid (IDNA 2008, RFC 5890 to 5893) depends on tables of Unicode, on the characters nearby and on the
length of a label in Punycode, which no automaton counts. So the patterns here allow less. What they allow is valid:

* Letters are lower case, or have no case. They are of the category of letters, read from left to right, and are neither
  composed nor combined with others. There are no combining marks, and no characters that only some contexts allow. So
  the rules for context, direction and normalization (RFC 5892, 5893) hold whatever stands beside them.
* Labels are short enough. A label has at most 63 octets as `xn--` and Punycode (RFC 3492). Punycode writes a number for
  each character beyond ASCII. All these numbers, each plus one, make at most (M - 127)(n + 1) together, where n is the
  number of characters and M the greatest code point. A number takes more than 1, 2, 3, 4 or 5 digits only if it is at
  least 1, 35, 1,225, 26,000 or 260,000. (Each digit but the last has a threshold t from 1 to 26, and leaves at most one
  (36 - t)th of the number; the thresholds rise from 1 to 26 with one step between at most.) So 11 characters below
  U+D7A4 take at most 56 octets, and 14 characters below U+0590 at most 56 as well. With `xn--` that is 60.
* A name has at most 253 octets: four labels of at most 60, and three dots. In an address there are three labels, and at
  most 64 octets before the `@`, as 21 characters of at most three octets.

Names and addresses without such letters are those of `hostname` and `email`. Longer ones are these alone (`LONGEST`).
"""

from __future__ import annotations

import unicodedata

_FEW_OCTETS = ((0xE0, 0xF6), (0xF8, 0x17E), (0x3AC, 0x3C1), (0x3C3, 0x3CE), (0x430, 0x45F), (0x561, 0x586))
"""Lower case of Latin, Greek, Cyrillic and Armenian, with capitals between. Without the final sigma and the sharp s,
which an older standard reads as other letters."""
_MORE_OCTETS = "\u10d0-\u10f0\u0e01-\u0e2e\u3041-\u3094\u30a1-\u30fa\u3400-\u4db5\u4e00-\u9fa5\uac00-\ud7a3"
"""Georgian, Thai consonants, Hiragana, Katakana, Han and Hangul."""


def _lower_case() -> str:
    """The lower case that is not written as other letters."""
    letters = [chr(point) for low, high in _FEW_OCTETS for point in range(low, high + 1)]
    return "".join(c for c in letters if c.islower() and unicodedata.normalize("NFKC", c) == c)


_FEW = f"a-z0-9{_lower_case()}"
_ALL = _FEW + _MORE_OCTETS
_LABEL = rf"(?!..--)(?:[{_FEW}](?:[{_FEW}\-]{{0,12}}[{_FEW}])?|[{_ALL}](?:[{_ALL}\-]{{0,9}}[{_ALL}])?)"


LONGEST = {"idn-hostname": ("hostname", 4 * 14 + 3), "idn-email": ("email", 21 + 1 + 3 * 14 + 2)}
"""The format that is left of each where a string has more characters."""


def host_names(plain: str) -> str:
    """The pattern of host names; `plain`: that of the names in ASCII."""
    return rf"(?:{plain}|{_LABEL}(?:\.{_LABEL}){{0,3}})"


def addresses(plain: str) -> str:
    """The pattern of addresses; `plain`: that of the addresses in ASCII."""
    atom = rf"[A-Z!#$%&'*+/=?^_`{{|}}~\-{_ALL}]+"
    return rf"(?:{plain}|(?=[^@]{{1,21}}@){atom}(?:\.{atom})*@{_LABEL}(?:\.{_LABEL}){{0,2}})"
