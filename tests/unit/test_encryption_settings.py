"""What changes with the settings of encryption."""

from pathlib import Path

from freki.infra.settings import EncryptionSettings, Settings
from freki.streams.wire.from_settings import fingerprints_of, generation_of, rows_version


def test_documents_that_were_made_plain_are_those_made_with_other_settings() -> None:
    plain = Settings()
    encrypted = Settings(encryption=EncryptionSettings(keys="local", key_file=Path("freki.keys")))
    assert rows_version(plain) != rows_version(encrypted)
    assert not fingerprints_of(plain) & fingerprints_of(encrypted)
    # The generation stays: its plain rows are read on.
    assert generation_of(plain, embedder="e", dim=1) == generation_of(encrypted, embedder="e", dim=1)
