"""Envelopes: what is sealed opens again, with its own key, in its own place, unaltered; nothing else does."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.keys import Cipher, make_keys, version_of
from freki.infra.keys.envelope import (
    Damaged,
    DataKey,
    from_text,
    is_sealed,
    key_name,
    new_secret,
    place_of,
    renamed,
    seal,
    to_text,
    unseal,
)

KEY = DataKey(b"key-1", new_secret())
values = st.binary(max_size=2000) | st.text().map(lambda text: text.encode(errors="replace") * 9)
names = st.lists(st.text(max_size=20), max_size=4)


@given(value=values, place=names, compress=st.booleans(), name=st.binary(max_size=300))
def test_what_is_sealed_opens_again(value: bytes, place: list[str], compress: bool, name: bytes) -> None:  # noqa: FBT001
    key = DataKey(name, KEY.secret)
    envelope = seal(value, key, place_of(*place), compress=compress)
    assert key_name(envelope) == name
    assert unseal(envelope, key.secret, place_of(*place)) == value
    text = to_text(envelope)
    assert text.isascii()
    assert is_sealed(text)
    assert from_text(text) == envelope


@given(value=values, at=st.integers(0, 10_000), bit=st.integers(0, 7), compress=st.booleans())
def test_no_altered_bit_goes_unnoticed(value: bytes, at: int, bit: int, compress: bool) -> None:  # noqa: FBT001
    envelope = bytearray(seal(value, KEY, b"here", compress=compress))
    envelope[at % len(envelope)] ^= 1 << bit
    with pytest.raises(Damaged):
        unseal(bytes(envelope), KEY.secret, b"here")


@given(value=values, cut=st.integers(1, 3000))
def test_a_cut_envelope_is_damaged(value: bytes, cut: int) -> None:
    with pytest.raises(Damaged):
        unseal(seal(value, KEY, b"here")[:-cut], KEY.secret, b"here")


@given(value=values, here=names, there=names)
def test_a_value_opens_in_its_own_place_only(value: bytes, here: list[str], there: list[str]) -> None:
    envelope = seal(value, KEY, place_of(*here))
    if here != there:
        with pytest.raises(Damaged):
            unseal(envelope, KEY.secret, place_of(*there))


@given(value=values)
def test_another_key_opens_nothing(value: bytes) -> None:
    with pytest.raises(Damaged):
        unseal(seal(value, KEY, b""), new_secret(), b"")


@given(value=st.binary(min_size=40, max_size=400))
def test_equal_values_look_different_and_show_nothing_of_themselves(value: bytes) -> None:
    first, second = seal(value, KEY, b""), seal(value, KEY, b"")
    assert first != second
    assert value not in first


@given(value=values)
def test_a_renamed_envelope_has_the_same_value(value: bytes) -> None:
    envelope = renamed(seal(value, KEY, b"here", compress=True), KEY, b"other", b"here")
    assert key_name(envelope) == b"other"
    assert unseal(envelope, KEY.secret, b"here") == value


async def test_a_cipher_reads_what_it_wrote_what_is_plain_and_what_older_versions_wrapped(tmp_path: Path) -> None:
    now = [0.0]
    keys = make_keys(tmp_path / "keys")
    cipher = Cipher(keys, cache_s=10, clock=lambda: now[0])
    values = [(b"a", b"one"), (b"b", os.urandom(5000)), (b"c", b"")]
    old = await cipher.seal(values)
    await keys.rotate()
    same = await cipher.seal(values)
    now[0] = 11.0
    new = await cipher.seal(values)
    assert [version_of(key_name(each[0]).decode()) for each in (old, same, new)] == [1, 1, 2]

    def placed(envelopes: list[bytes]) -> list[tuple[bytes, bytes]]:
        return [(place, each) for (place, _), each in zip(values, envelopes, strict=True)]

    other = Cipher(keys, cache_s=10)
    for envelopes in (old, same, new):
        assert await other.unseal(placed(envelopes)) == [value for _, value in values]
    assert await other.unseal(values) == [value for _, value in values]
    with pytest.raises(Damaged):
        await other.unseal([(b"b", old[0])])

    moved = await other.rewrapped([*placed(old), *placed(new), (b"p", b"plain")])
    assert moved[3:6] == [None] * 3
    rewritten = [each for each in (*moved[:3], moved[6]) if each is not None]
    assert len(rewritten) == 4
    assert {version_of(key_name(each).decode()) for each in rewritten} == {2}
    assert await other.unseal(placed(rewritten[:3])) == [value for _, value in values]
    assert await other.unseal([(b"p", rewritten[3])]) == [b"plain"]
