"""Slips of the pen: a name that is almost one of those that are known.

Almost: the same letters and digits with other capitals, hyphens or underscores (`date_time`, `anyof`), or one letter
too many, too few, wrong, or two letters swapped (`additonalProperties`, `minLenght`). Names of fewer than five letters
count only with other capitals or in the plural (`enums`), since too many words are one letter away from them. Another
digit is another name (`uuid7`, `int16`). A name that begins with something else than a letter is no slip: people write
`_format` to take a keyword out.

Cost: a microsecond or two for each letter of a name.
"""

from __future__ import annotations

from collections.abc import Iterable

_SHORTEST = 5
_LONGEST = 64


class NearMisses:
    """Of these known names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._plain = {_plain(name): name for name in self._names}
        self._shortened: dict[str, list[str]] = {}
        """Plain names, and those with one letter less -> the names that they come from."""
        for plain, name in self._plain.items():
            for short in (plain, *_with_one_less(plain)):
                self._shortened.setdefault(short, []).append(name)

    def of(self, name: str) -> str | None:
        """The known name that was meant; None for a known name, and for one that is like none of them."""
        if name in self._names or len(name) > _LONGEST or not name[:1].isalpha():
            return None
        plain = _plain(name)
        if plain in self._plain:
            return self._plain[plain]
        if len(plain) < _SHORTEST:
            return None
        if plain.endswith("s") and plain[:-1] in self._plain:
            return self._plain[plain[:-1]]
        for short in (plain, *_with_one_less(plain)):
            for meant in self._shortened.get(short, ()):
                if _is_one_slip(plain, _plain(meant)):
                    return meant
        return None


def _plain(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def _with_one_less(name: str) -> list[str]:
    return [name[:k] + name[k + 1 :] for k in range(len(name))]


def _is_one_slip(name: str, meant: str) -> bool:
    """Whether one letter too many, too few or wrong, or two that are swapped, make the one of the other."""
    if min(len(name), len(meant)) < _SHORTEST or abs(len(name) - len(meant)) > 1 or _digits(name) != _digits(meant):
        return False
    start = next((k for k, (a, b) in enumerate(zip(name, meant, strict=False)) if a != b), min(len(name), len(meant)))
    rest, rest_meant = name[start:], meant[start:]
    if len(rest) == len(rest_meant):
        is_swap = rest[:2] == rest_meant[:2][::-1] and rest[2:] == rest_meant[2:]
        return rest[1:] == rest_meant[1:] or is_swap
    longer, shorter = (rest, rest_meant) if len(rest) > len(rest_meant) else (rest_meant, rest)
    return longer[1:] == shorter


def _digits(name: str) -> str:
    return "".join([character for character in name if character.isdigit()])
