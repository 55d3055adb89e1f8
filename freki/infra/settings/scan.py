"""Settings of the scan of documents for malware."""

from typing import Self

from pydantic import Field, model_validator

from freki.infra.settings.section import SettingsSection, check_command, is_address


class ScanSettings(SettingsSection):
    """Scan of each document's content before it is parsed, by a command or by clamd; `docs/security.md` explains it."""

    command: str | None = Field(
        default=None,
        description="Command that gets each document on standard input, or as a file where it says `{path}`; exit "
        "code 0: clean, 1: found",
    )
    clamd: str | None = Field(
        default=None, description="ClamAV's daemon: host:port, or the path of its socket, such as /run/clamav/clamd.ctl"
    )
    timeout_s: float = Field(default=60.0, gt=0, description="Longest time for one document; then it is scanned again")

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if self.command is not None and self.clamd is not None:
            raise ValueError(
                "FREKI_SCAN__COMMAND and FREKI_SCAN__CLAMD are both set, and one scans: leave out the other one"
            )
        check_command("SCAN__COMMAND", self.command)
        return self

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if self.clamd is not None and not self.clamd.startswith("/") and not is_address(self.clamd):
            raise ValueError(
                f"FREKI_SCAN__CLAMD={self.clamd} is neither host:port nor the absolute path of a socket: correct it"
            )
        return self
