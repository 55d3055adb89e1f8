"""Settings of the recognition of text in scans."""

from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from freki.infra.settings.section import SecretFile, ServerUrl, SettingsSection, check_command


class OcrSettings(SettingsSection):
    """Recognition of text in scanned PDFs and pictures, by a command or a service; `docs/formats.md` explains it."""

    command: str | None = Field(
        default=None,
        description="Command that reads a scan from `{path}` or standard input and writes a PDF or text to `{output}` "
        "or standard output, such as `ocrmypdf --skip-text --image-dpi 300 -l deu+eng {path} {output}`; none: scans "
        "are rejected",
    )
    url: ServerUrl | None = Field(
        default=None, description="Or a service that gets the scan as a request and answers so"
    )
    method: Literal["POST", "PUT"] = Field(default="POST", description="Method of that request; Apache Tika's is PUT")
    token: SecretStr | None = Field(default=None, description="Bearer token of the service")
    token_file: SecretFile = Field(default=None, description="File that holds it")
    # With `ParsingSettings.timeout_s` twice it is less than the hour after which a batch counts as stalled.
    timeout_s: float = Field(
        default=300.0, gt=0, le=2_700, description="Longest time for one scan; then it counts as without text"
    )
    at_once: int = Field(default=1, ge=1, le=64, description="Scans that are read side by side, by each worker")

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if self.command is not None and self.url is not None:
            raise ValueError(
                "FREKI_OCR__COMMAND and FREKI_OCR__URL are both set, and one reads scans: leave out the other"
            )
        check_command("OCR__COMMAND", self.command)
        return self
