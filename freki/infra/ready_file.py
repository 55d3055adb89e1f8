"""The file by which a process tells its supervisor that it is ready."""

from contextlib import suppress
from pathlib import Path

from freki.schemas.errors import Misconfigured


def write_ready_file(path: Path, text: str) -> None:
    """Create the file. Raises Misconfigured, naming the setting, where it cannot be written; then there is none."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        # A full disk leaves an empty one, by which the process would count as ready.
        with suppress(OSError):
            path.unlink()
        raise Misconfigured(f"cannot write FREKI_READY_FILE={path}: {error.strerror}") from error
