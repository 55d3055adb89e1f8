"""Promises of every key service: a file, and Vault as a scripted server."""

import asyncio
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit

import pytest

from freki.infra.keys import KeyService, LocalKeys, VaultKeys, make_keys, version_of
from freki.infra.settings import EncryptionSettings
from freki.schemas.errors import Misconfigured, Unavailable
from tests.scripted_server import Reply, serving
from tests.vault_server import TOKEN, VaultServer

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def vault() -> Iterator[VaultServer]:
    with serving(VaultServer()) as server:
        yield server


def vault_settings(vault: VaultServer, tmp_path: Path) -> EncryptionSettings:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    return EncryptionSettings(keys="vault", vault_url=vault.url, vault_token_file=token)


@pytest.fixture(params=["local", "vault"])
def service(request: pytest.FixtureRequest, vault: VaultServer, tmp_path: Path) -> KeyService:
    if request.param == "local":
        return make_keys(tmp_path / "freki.keys")
    return VaultKeys(vault_settings(vault, tmp_path))


async def test_what_is_wrapped_unwraps_in_order(service: KeyService) -> None:
    secrets = [os.urandom(32) for _ in range(5)]
    wrapped = await service.wrap(secrets)
    assert len(set(wrapped)) == 5
    assert all(each.isascii() and each.isprintable() for each in wrapped)
    assert await service.unwrap(wrapped[::-1]) == secrets[::-1]
    assert await service.wrap([]) == []
    assert await service.unwrap([]) == []


async def test_old_versions_still_unwrap_and_are_rewrapped(service: KeyService) -> None:
    secrets = [os.urandom(32), os.urandom(32)]
    old = await service.wrap(secrets)
    assert list(await service.versions()) == [1]
    assert await service.rotate() == 2
    assert list(await service.versions()) == [1, 2]
    new = await service.wrap(secrets)
    assert [version_of(each) for each in (*old, *new)] == [1, 1, 2, 2]
    assert await service.unwrap([*new, *old]) == secrets * 2
    moved = await service.rewrap(old)
    assert [version_of(each) for each in moved] == [2, 2]
    assert await service.unwrap(moved) == secrets


async def test_an_altered_key_is_refused(service: KeyService) -> None:
    [wrapped] = await service.wrap([os.urandom(32)])
    last = "A" if wrapped[-6] != "A" else "B"
    with pytest.raises(Misconfigured):
        await service.unwrap([wrapped[:-6] + last + wrapped[-5:]])


async def test_a_key_of_another_service_is_refused(service: KeyService) -> None:
    with pytest.raises(Misconfigured, match="FREKI_ENCRYPTION__KEYS"):
        await service.unwrap(["other:v1:AAAA"])


async def test_a_key_file_is_its_owners_only_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "freki.keys"
    keys = make_keys(path)
    await keys.rotate()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(Misconfigured, match="not replaced"):
        make_keys(path)
    path.chmod(0o640)
    with pytest.raises(Misconfigured, match="chmod 600"):
        await keys.wrap([bytes(32)])


async def test_a_rotation_by_another_process_is_seen_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "freki.keys"
    ours = make_keys(path)
    await ours.wrap([bytes(32)])
    [theirs] = await (rotated := LocalKeys(path)).wrap([bytes(32)])
    await rotated.rotate()
    [newer] = await rotated.wrap([bytes(32)])
    assert await ours.unwrap([theirs, newer]) == [bytes(32)] * 2
    assert [version_of(each) for each in await ours.wrap([bytes(32)])] == [2]


async def test_a_rotation_through_a_link_reaches_those_who_read_the_file_itself(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    ours = make_keys(tmp_path / "there" / "freki.keys")
    (tmp_path / "link").symlink_to(tmp_path / "there" / "freki.keys")
    await (theirs := LocalKeys(tmp_path / "link")).rotate()
    assert await ours.unwrap(await theirs.wrap([bytes(32)])) == [bytes(32)]
    assert list(await ours.versions()) == [1, 2]
    assert (tmp_path / "link").is_symlink()


async def test_what_a_killed_rotation_left_stops_no_other(tmp_path: Path) -> None:
    keys = make_keys(tmp_path / "freki.keys")
    # In a container every process has the same id.
    (tmp_path / f".freki.keys.{os.getpid()}.new").write_text("{")
    assert await keys.rotate() == 2


def test_a_rotation_removes_what_killed_ones_left(tmp_path: Path) -> None:
    keys = make_keys(tmp_path / "freki.keys")
    killed = (
        "import asyncio, os, pathlib, sys; from freki.infra.keys import LocalKeys;"
        " os.fsync = lambda _: os.kill(os.getpid(), 9); asyncio.run(LocalKeys(pathlib.Path(sys.argv[1])).rotate())"
    )
    for _ in range(2):
        subprocess.run([sys.executable, "-c", killed, tmp_path / "freki.keys"], cwd=CHECKOUT, check=False)
    assert len(list(tmp_path.iterdir())) == 3
    assert asyncio.run(keys.rotate()) == 2
    assert {each.name for each in tmp_path.iterdir()} == {"freki.keys", "freki.keys.lock"}


async def test_a_rotation_that_finds_no_room_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    keys, limits = make_keys(tmp_path / "freki.keys"), getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(Misconfigured, match=r"FREKI_ENCRYPTION__KEY_FILE.*File too large"):
            await keys.rotate()
    finally:
        setrlimit(RLIMIT_FSIZE, limits)
    assert list(await keys.versions()) == [1]
    assert sorted(os.listdir(tmp_path)) == ["freki.keys", "freki.keys.lock"]  # noqa: PTH208


async def test_a_lock_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    keys = make_keys(tmp_path / "freki.keys")
    (tmp_path / "freki.keys.lock").mkdir()
    with pytest.raises(Misconfigured, match=r"FREKI_ENCRYPTION__KEY_FILE.*cannot be replaced"):
        await keys.rotate()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root rotates files of others")
async def test_a_rotated_file_keeps_its_owner(tmp_path: Path) -> None:
    keys = make_keys(tmp_path / "freki.keys")
    os.chown(tmp_path / "freki.keys", 1234, 1234)
    await keys.rotate()
    found = (tmp_path / "freki.keys").stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 1234, 0o600)


async def test_a_version_that_is_not_here_yet_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "freki.keys"
    ours = make_keys(path)
    before = path.read_bytes()
    await ours.rotate()
    [newer] = await ours.wrap([bytes(32)])
    path.write_bytes(before)
    with pytest.raises(Unavailable, match="version 2"):
        await ours.unwrap([newer])


async def test_another_file_with_the_same_version_is_told(tmp_path: Path) -> None:
    [wrapped] = await make_keys(tmp_path / "a").wrap([bytes(32)])
    with pytest.raises(Misconfigured, match="put that file back"):
        await make_keys(tmp_path / "b").unwrap([wrapped])


@pytest.mark.parametrize("content", ["", "{}", '{"keys": {}}', '{"format": 1, "keys": {"1": {"key": "AAAA"}}}', "[]"])
async def test_a_file_that_is_none_is_told(content: str, tmp_path: Path) -> None:
    path = tmp_path / "freki.keys"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(Misconfigured, match="freki keys make"):
        await LocalKeys(path).versions()


async def test_vault_gets_one_call_per_batch_and_its_token(vault: VaultServer, tmp_path: Path) -> None:
    service = VaultKeys(vault_settings(vault, tmp_path))
    wrapped = await service.wrap([os.urandom(32) for _ in range(100)])
    await service.unwrap(wrapped)
    assert vault.operations == ["encrypt/freki", "decrypt/freki"]


async def test_vault_that_is_away_is_retried_and_a_refusal_names_the_settings(
    vault: VaultServer, tmp_path: Path
) -> None:
    service = VaultKeys(vault_settings(vault, tmp_path))
    vault.status = 503
    with pytest.raises(Unavailable):
        await service.wrap([bytes(32)])
    vault.status = 403
    with pytest.raises(Misconfigured, match=r"permission denied.*FREKI_ENCRYPTION__VAULT") as refused:
        await service.wrap([bytes(32)])
    assert TOKEN not in str(refused.value)
    vault.status, vault.dead = 200, True
    with pytest.raises(Unavailable):
        await service.versions()


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b"<html>Maintenance</html>"),
        Reply(b"[" * 100_000),
        Reply([]),
        Reply({"data": None}),
        Reply({"data": {"batch_results": [{}]}}),
        Reply({"data": {"batch_results": [{"ciphertext": "vault:v1:\u00e4", "plaintext": "\u00e4"}]}}),
        Reply({"data": {"batch_results": [{"ciphertext": "AAAA", "plaintext": "AAAA"}]}}),
        Reply({"data": {"batch_results": [{"ciphertext": ["AAAA"], "plaintext": ["AAAA"]}]}}),
        Reply({"data": {"latest_version": 0, "min_decryption_version": 0}}),
        Reply(b"", status=302, headers={"Location": "https://login.example.org/"}),
        Reply({"errors": []}, status=307, headers={"Location": "https://active.example.org/v1/transit/"}),
        Reply({"errors": ["too large"]}, status=413),
    ],
)
async def test_no_answer_of_vault_is_held_against_a_document(reply: Reply, vault: VaultServer, tmp_path: Path) -> None:
    service = VaultKeys(vault_settings(vault, tmp_path))
    wrapped = await service.wrap([bytes(32)])
    vault.script = lambda _: reply

    for call in (service.wrap([bytes(32)]), service.unwrap(wrapped), service.rewrap(wrapped), service.versions()):
        with pytest.raises(Misconfigured, match="FREKI_ENCRYPTION__VAULT") as refused:
            await call
        assert "AAAA" not in f"{refused.value}{refused.value.__cause__}"


async def test_a_version_that_vault_no_longer_decrypts_is_told(vault: VaultServer, tmp_path: Path) -> None:
    service = VaultKeys(vault_settings(vault, tmp_path))
    old = await service.wrap([bytes(32)])
    await service.rotate()
    vault.least = 2
    assert list(await service.versions()) == [2]
    with pytest.raises(Misconfigured):
        await service.unwrap(old)


def test_settings_that_lack_something_say_what() -> None:
    for given, said in (
        ({"keys": "local"}, "FREKI_ENCRYPTION__KEY_FILE"),
        (
            {"key_file": "freki.keys"},
            "FREKI_ENCRYPTION__KEY_FILE alone encrypts nothing: set FREKI_ENCRYPTION__KEYS=local",
        ),
        ({"vault_url": "https://vault.example.org"}, "FREKI_ENCRYPTION__KEYS=vault, or to none"),
        ({"keys": "vault"}, "FREKI_ENCRYPTION__VAULT_URL"),
        ({"keys": "vault", "vault_url": "http://vault.example.org", "vault_token_file": "t"}, "use https"),
    ):
        with pytest.raises(ValueError, match=said):
            EncryptionSettings.model_validate(given)


def test_the_file_says_its_format(tmp_path: Path) -> None:
    make_keys(tmp_path / "freki.keys")
    assert json.loads((tmp_path / "freki.keys").read_text())["format"] == 1
