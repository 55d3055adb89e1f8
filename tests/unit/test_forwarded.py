"""Where a call comes from that reverse proxies pass on."""

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.api.forwarded import client_of

PROXIES = (ip_network("127.0.0.1"), ip_network("10.0.0.0/24"), ip_network("2001:db8:ffff::/48"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("127.0.0.1", [], "127.0.0.1"),
        ("127.0.0.1", ["203.0.113.7"], "203.0.113.7"),
        ("::ffff:127.0.0.1", ["203.0.113.7"], "203.0.113.7"),
        ("127.0.0.1", ["203.0.113.7:5000"], "203.0.113.7"),
        ("127.0.0.1", ["[2001:db8::1]:5000"], "2001:db8::1"),
        ("127.0.0.1", ["2001:DB8::1"], "2001:db8::1"),
        ("127.0.0.1", ["198.51.100.9, 203.0.113.7"], "203.0.113.7"),
        ("127.0.0.1", ["198.51.100.9", "203.0.113.7"], "203.0.113.7"),
        ("127.0.0.1", ["203.0.113.7, 10.0.0.9 ,2001:db8:ffff::1"], "203.0.113.7"),
        ("127.0.0.1", ["10.0.0.8, 10.0.0.9"], "10.0.0.8"),
        ("127.0.0.1", ["203.0.113.7, anybody, 10.0.0.9"], "10.0.0.9"),
        ("127.0.0.1", [""], "127.0.0.1"),
        ("127.0.0.1", ["unknown"], "127.0.0.1"),
        ("203.0.113.7", ["198.51.100.9"], "203.0.113.7"),
        ("unknown", ["198.51.100.9"], "unknown"),
    ],
)
def test_the_client_is_the_last_one_that_a_trusted_proxy_has_written(
    peer: str, forwarded: list[str], client: str
) -> None:
    assert client_of(peer, forwarded, trusted=PROXIES) == client


HEADERS = st.lists(st.sampled_from(["10.0.0.9", "198.51.100.9", "::1", "unknown", "", "a, b"]))


@given(written=HEADERS)
def test_no_caller_chooses_its_own_address(written: list[str]) -> None:
    assert client_of("127.0.0.1", [*written, "203.0.113.7"], trusted=PROXIES) == "203.0.113.7"
    assert client_of("203.0.113.7", written, trusted=PROXIES) == "203.0.113.7"
    assert client_of("127.0.0.1", written, trusted=()) == "127.0.0.1"
