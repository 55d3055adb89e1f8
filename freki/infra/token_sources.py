"""Tokens from where a setting says: a file that another program keeps fresh, or a command. Both block."""

import shlex
import subprocess
from pathlib import Path

from freki.schemas.errors import Misconfigured, Unavailable


def token_of_file(setting: str, path: Path) -> str:
    """Return what a file holds, perhaps nothing yet. Raises Misconfigured, naming the setting, if it cannot be read."""
    try:
        return path.expanduser().read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text of a token"
        raise Misconfigured(f"{setting}={path} cannot be read: {reason}") from error


def token_of_command(setting: str, command: str, *, timeout_s: float, timeout: str = "") -> str:
    """Return what a command prints; timeout: the setting of the longest wait, if there is one.

    Raises Misconfigured if it cannot be run, Unavailable if it prints no token.
    """
    # Its arguments may be secret.
    named = f"{setting}={command.partition(' ')[0]}"
    try:
        done = subprocess.run(  # noqa: S603 - whoever sets it may run what they like
            shlex.split(command), check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout_s
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{named} printed no token within {timeout and f'{timeout}='}{timeout_s:g} s") from error
    except (OSError, ValueError) as error:
        raise Misconfigured(f"{named} cannot be run: {error}") from error
    token = done.stdout.decode("ascii", errors="replace").strip()
    if done.returncode or not token:
        said = done.stderr.decode(errors="replace").strip()[-200:]
        raise Unavailable(f"{named} ended with {done.returncode} and no token: {said}")
    return token
