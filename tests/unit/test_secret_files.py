"""Secrets that lie in files, as Docker and Kubernetes hand them over."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from freki.cli.context import load_settings
from freki.infra.settings import Settings, SettingsSection
from tests.unit.refused_settings import refusal

SECRETS = {
    f"FREKI_{section}__{name}".upper()
    for section, part in Settings()
    if isinstance(part, SettingsSection)
    for name, field in type(part).model_fields.items()
    if field.annotation == SecretStr | None and (section, name) != ("vertex_reranker", "token")
}
"""Vertex AI's token has had a file of its own, which is read again and again."""

pytestmark = pytest.mark.usefixtures("folder")


def secret(variable: str) -> str:
    section, _, name = variable.removeprefix("FREKI_").lower().partition("__")
    found = getattr(getattr(load_settings(), section), name)
    assert isinstance(found, SecretStr)
    return found.get_secret_value()


@pytest.mark.parametrize("variable", sorted(SECRETS))
def test_every_secret_may_lie_in_a_file(variable: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "secret").write_text(" häsh#1 \n", encoding="utf-8")
    monkeypatch.setenv(f"{variable}_FILE", str(folder / "secret"))

    assert secret(variable) == " häsh#1 "


def test_a_section_in_a_section_reads_files_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "secret").write_text("hush", encoding="utf-8")
    monkeypatch.setenv("FREKI_KAFKA__OAUTH__CLIENT_SECRET_FILE", "secret")

    assert load_settings().kafka.oauth.client_secret == SecretStr("hush")


def test_the_file_may_be_named_in_freki_toml(folder: Path) -> None:
    (folder / "secret").write_text("\ufeffhush\r\n", encoding="utf-8")
    (folder / "freki.toml").write_text('[kafka]\npassword_file = "secret"\n', encoding="utf-8")

    assert secret("FREKI_KAFKA__PASSWORD") == "hush"


@pytest.mark.parametrize("nothing", ["", "none"])
def test_an_empty_name_counts_as_not_set(nothing: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "freki.toml").write_text('[kafka]\npassword = "hush"\n', encoding="utf-8")
    monkeypatch.setenv("FREKI_KAFKA__PASSWORD_FILE", nothing)

    assert secret("FREKI_KAFKA__PASSWORD") == "hush"


def test_a_secret_from_two_places_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "secret").write_text("hush", encoding="utf-8")
    (folder / "freki.toml").write_text('[kafka]\npassword_file = "secret"\n', encoding="utf-8")
    monkeypatch.setenv("FREKI_KAFKA__PASSWORD", "hash")

    told = refusal(capsys)

    assert told.startswith("freki: FREKI_KAFKA__PASSWORD and FREKI_KAFKA__PASSWORD_FILE are both set")
    assert "hush" not in told
    assert "hash" not in told


@pytest.mark.parametrize(
    ("content", "told"),
    [(None, "cannot be read: No such file"), (b"\n", "is empty"), (b"\xff", "is not UTF-8")],
)
def test_a_file_that_holds_no_secret_is_named_with_its_setting(
    content: bytes | None,
    told: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = folder / "secret"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("FREKI_LLM__API_KEY_FILE", str(path))

    printed = refusal(capsys)

    assert printed.startswith(f"freki: FREKI_LLM__API_KEY_FILE: {path} {told}")


def test_a_misspelt_file_is_refused_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FREKI_KAFKA__PASWORD_FILE", "secret")

    assert refusal(capsys).endswith("did you mean FREKI_KAFKA__PASSWORD_FILE?")
