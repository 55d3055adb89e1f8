"""Settings of the audit log."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from freki.infra.settings.section import SettingsSection


class AuditSettings(SettingsSection):
    """Record of who was given what, and of what changed; `docs/security.md` explains it."""

    enabled: bool = Field(
        default=False, description="Write who asked, what was given, refused and changed to files and the topic `audit`"
    )
    key_file: Path | None = Field(
        default=None, description="Private key that signs the log, made by `freki audit keys make`; needed with the log"
    )
    directory: Path | None = Field(
        default=None, description="Where the files lie; none: `audit` in FREKI_LOCAL__STATE_DIR"
    )
    plain_text: bool = Field(
        default=False, description="Write the text of queries too; false: a keyed hash, which tells equal ones only"
    )
    when_unwritable: Literal["refuse", "buffer"] = Field(
        default="refuse",
        description="While the topic takes no entries: `refuse` answers nothing and changes nothing; `buffer` goes on "
        "until FREKI_AUDIT__BUFFER_MB wait in the file. Without its file both refuse",
    )
    buffer_mb: float = Field(default=64.0, gt=0, description="Maximum backlog for the topic in the file of a process")
    anchor_entries: int = Field(default=1000, ge=1, description="A signature after so many entries")
    anchor_s: float = Field(default=60.0, gt=0, description="A signature after so long, where there are new entries")
    retention_days: int = Field(
        default=365, ge=1, le=36_500, description="How long entries are kept, on the topic and in files"
    )

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        if self.enabled and self.key_file is None:
            raise ValueError(
                "FREKI_AUDIT__ENABLED needs a key that signs the log: make one with `freki audit keys make FILE` and "
                "set FREKI_AUDIT__KEY_FILE=FILE"
            )
        return self
