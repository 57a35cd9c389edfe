"""Every name under which vLLM and SGLang register a parser is known here, for what that parser reads."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from narrows import formats
from narrows.errors import FormatError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PEERS: dict[str, dict[str, dict[str, str]]] = tomllib.loads(
    (Path(__file__).parents[1] / "cases" / "names_of_others.toml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("peer", PEERS)
def test_formats(peer: str) -> None:
    assert {name: formats.get(name).name for name in PEERS[peer]["tools"]} == PEERS[peer]["tools"]


@pytest.mark.parametrize("peer", PEERS)
def test_styles(peer: str) -> None:
    found = {name: formats.reasoning_style(name).name for name in PEERS[peer]["reasoning"]}
    assert found == PEERS[peer]["reasoning"]


@pytest.mark.parametrize("name", ["hf", "response_template"])
def test_what_a_checkpoint_declares_has_no_name(name: str) -> None:
    for get, code in ((formats.get, "format_unknown"), (formats.reasoning_style, "reasoning_unknown")):
        with pytest.raises(FormatError) as error:
            get(name)
        assert error.value.code == code
        assert "from_response_template" in (error.value.hint or "")
