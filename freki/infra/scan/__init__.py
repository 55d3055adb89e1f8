"""Scanners of content for malware: ClamAV's daemon, or any command."""

from freki.infra.scan.clamd import ClamdScanner
from freki.infra.scan.command import CommandScanner
from freki.infra.settings import ScanSettings


def open_scanner(settings: ScanSettings) -> ClamdScanner | CommandScanner | None:
    """Return the scanner that the settings name; None if they name none."""
    if settings.clamd is not None:
        return ClamdScanner(settings.clamd, timeout_s=settings.timeout_s)
    if settings.command is not None:
        return CommandScanner(settings.command, timeout_s=settings.timeout_s)
    return None


__all__ = ["ClamdScanner", "CommandScanner", "open_scanner"]
