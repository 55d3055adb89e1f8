"""Where a call comes from that a reverse proxy passes on."""

import ipaddress
from collections.abc import Sequence
from typing import Final

FORWARDED: Final = "x-forwarded-for"
"""Header, and metadata, in which proxies say who called them."""
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def client_of(peer: str, forwarded: Sequence[str], *, trusted: Sequence[Network]) -> str:
    """Return the address of the client of a call, as far as it was told by proxies that are trusted.

    peer: address at the other end of the connection; forwarded: all values of X-Forwarded-For, to which each proxy
    appends who called it. So they are read from the end, until one that no trusted proxy has written: callers may write
    any before it.
    """
    client = peer
    told = [each for value in forwarded for each in value.split(",")]
    while told and _is_trusted(client, trusted):
        address = _address(told.pop())
        if address is None:
            break
        client = str(address)
    return client


def _is_trusted(client: str, trusted: Sequence[Network]) -> bool:
    address = _address(client)
    return address is not None and any(address in network for network in trusted)


def _address(text: str) -> Address | None:
    """Return an address that may have a port: `10.0.0.1:5000`, `[2001:db8::1]:5000`; None for any other text."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
