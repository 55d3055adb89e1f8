from pathlib import Path

import pytest

from freki.infra.signing import is_signed, make_key, public_pem, read_key, read_public_key, sign
from freki.schemas.errors import Misconfigured


def test_a_key_is_its_owners_and_signs_what_others_check(tmp_path: Path) -> None:
    path, public = tmp_path / "keys" / "one.pem", tmp_path / "one.pub"
    public.write_text(public_pem(make_key(path)))
    assert path.stat().st_mode & 0o777 == 0o600
    signature = sign(read_key(path), b"message")
    key = read_public_key(public)
    assert is_signed(key, b"message", signature)
    assert not is_signed(key, b"massage", signature)
    assert not is_signed(key, b"message", "no signature")
    public.write_text(public_pem(make_key(tmp_path / "other.pem")))
    assert not is_signed(read_public_key(public), b"message", signature)


def test_what_is_no_usable_key_is_named(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    make_key(path)
    with pytest.raises(Misconfigured, match="not replaced"):
        make_key(path)
    with pytest.raises(Misconfigured, match="no public key"):
        read_public_key(path)
    path.chmod(0o640)
    with pytest.raises(Misconfigured, match="chmod 600"):
        read_key(path)
    (tmp_path / "text").write_text("text")
    (tmp_path / "text").chmod(0o600)
    with pytest.raises(Misconfigured, match="no private key"):
        read_key(tmp_path / "text")
    with pytest.raises(Misconfigured, match="cannot be read"):
        read_public_key(tmp_path / "none")
