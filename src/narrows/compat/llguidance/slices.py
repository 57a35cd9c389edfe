"""The regular expressions that llguidance computes ahead. narrows has nothing that they would change."""

from __future__ import annotations

_PLAIN = r'[^"\\\x00-\x1F\x7F]'
GENERAL = (r"[\x20\x0A\x0D\x09]+", _PLAIN + "{1,10}", _PLAIN + "{1,30}", _PLAIN + "+")
JSON = GENERAL
