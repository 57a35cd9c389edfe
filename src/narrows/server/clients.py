"""Which client sent a request. What clients share is shared out by this name.

A client is an API key, where the server has several; with one key or none, all clients would be the same. Otherwise it
is the address that the request comes from. An IPv6 address counts as its site's network (/64), since one machine may
use all of that. Behind a proxy the address is the proxy's, unless uvicorn trusts its `X-Forwarded-For`. It does so on
the same machine.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

from narrows.server.keys import key_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from narrows.server.settings import Settings


def client_of(request: Request, settings: Settings) -> str:
    """A name for the client, to be compared. It may hold the API key, so never log it."""
    if len(settings.api_keys) > 1:  # the key was checked before
        return "key " + (key_of(request.headers.raw) or b"").decode("latin-1")
    host = request.client.host if request.client is not None else ""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:  # a Unix socket, or a test's client
        return host
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or IPv6Address(int(address) >> 64 << 64))
    return host
