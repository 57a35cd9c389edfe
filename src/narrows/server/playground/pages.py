"""The page's files. They are read once, and sent with a policy that lets the page load and call nothing else.

A browser asks again each time whether a file has changed (`ETag`), so that a new version of narrows is seen at once.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    media_type: str
    tag: str


@cache
def _files() -> dict[str, _File]:
    """The files by name. Nothing else can be asked for."""
    found = {}
    for file in files("narrows.server.playground").joinpath("page").iterdir():
        media_type = _TYPES.get(file.name.rpartition(".")[2])
        if media_type is not None:
            content = file.read_bytes()
            tag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
            found[file.name] = _File(content, f"{media_type}; charset=utf-8", tag)
    return found


def page(request: Request, name: str) -> Response | None:
    """The file of this name. None where the page has no such file."""
    file = _files().get(name)
    if file is None:
        return None
    headers = {**HEADERS, "ETag": file.tag}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.media_type)
