"""Protection against requests to private networks."""

import asyncio
import socket
from collections.abc import Collection
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from freki.schemas.errors import Rejected, Unavailable

DEFAULT_PORTS = {"http": 80, "https": 443}
_NAT64 = IPv6Network("64:ff9b::/96")
_INSIDE = frozenset(
    {"arpa", "corp", "home", "intern", "internal", "intranet", "lan", "local", "localdomain", "localhost", "private"}
)
"""Last labels of names that only private networks know."""


class Guard:
    """Resolves hosts, and rejects addresses that are not public.

    Connect to the resolved address: another lookup might return a different one.
    """

    def __init__(self, private_hosts: Collection[str]) -> None:
        self._private = frozenset(map(_name, private_hosts))

    async def address(self, host: str, port: int) -> str:
        """Return an address of a host. Raises Rejected if any is not public, Unavailable if there is none."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise Unavailable(f"{host} is not known: {error}") from error
        addresses = [str(place[0]) for *_, place in found]
        hidden = next((address for address in addresses if not is_public(address)), None)
        if hidden is not None and _name(host) not in self._private:
            raise Rejected(f"{host} is at {hidden}, no public address; --private-host {host} allows it")
        return addresses[0]

    async def check(self, host: str, port: int) -> None:
        """Reject a host that a proxy must not be asked for: see `address`; names that are unknown here are the proxy's.

        Raises Rejected for unknown names, too, if only private networks have such.
        """
        try:
            await self.address(host, port)
        except Unavailable:
            name = _name(host)
            if name not in self._private and ("." not in name or name.rpartition(".")[2] in _INSIDE):
                raise Rejected(f"{host} is a name of private networks; --private-host {host} allows it") from None


def _name(host: str) -> str:
    return host.lower().strip("[]").rstrip(".")


def is_public(address: str) -> bool:
    """Return whether an address is globally reachable, including IPv4 addresses embedded in IPv6."""
    ip = ip_address(address.partition("%")[0])
    return all(one.is_global and not one.is_multicast for one in (ip, *_wrapped(ip)))


def _wrapped(ip: IPv4Address | IPv6Address) -> Collection[IPv4Address]:
    if isinstance(ip, IPv4Address):
        return []
    found = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())]
    with suppress(ValueError):
        found.append(IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None)
    return [one for one in found if one is not None]
