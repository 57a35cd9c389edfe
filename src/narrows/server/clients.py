"""Who asks: what is shared out between clients goes by this.

By its API key, where the server has several: with one key, or none, everyone would be the same. Else by the address
that it connects from, an IPv6 address by the network of its site (/64), of which one machine may use all. Behind a
proxy that is the proxy's, unless uvicorn trusts its `X-Forwarded-For`, as it does on the same machine.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request

    from narrows.server.settings import Settings


def client_of(request: Request, settings: Settings) -> str:
    """A name for the client; it is for comparison, and no log."""
    if len(settings.api_keys) > 1:  # the key was checked before
        return "key " + request.headers.get("authorization", "").partition(" ")[2].strip()
    host = request.client.host if request.client is not None else ""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:  # a socket in the file system, or a test's client
        return host
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or IPv6Address(int(address) >> 64 << 64))
    return host
