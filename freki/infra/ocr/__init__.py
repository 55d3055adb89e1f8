"""Recognition of text in pictures of pages: by a command, such as ocrmypdf, or by a service."""

from freki.infra.ocr.command import CommandOcr
from freki.infra.ocr.service import ServiceOcr
from freki.infra.settings import OcrSettings


def open_ocr(settings: OcrSettings) -> CommandOcr | ServiceOcr | None:
    """Return the recogniser that the settings name; None if they name none."""
    if settings.command is not None:
        return CommandOcr(settings.command, timeout_s=settings.timeout_s, at_once=settings.at_once)
    return None if settings.url is None else ServiceOcr(settings)


__all__ = ["CommandOcr", "ServiceOcr", "open_ocr"]
