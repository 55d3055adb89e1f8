"""The token of those who ask from here."""

from pathlib import Path

from freki.schemas.errors import Misconfigured


class TokenFile:
    """A file that something keeps a fresh token in; it is read for each query."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self) -> str:
        """Return the token. Raises Misconfigured if there is none."""
        try:
            token = self._path.expanduser().read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text of a token"
            raise Misconfigured(f"FREKI_AUTH__TOKEN_FILE={self._path} cannot be read: {reason}") from error
        if not token:
            raise Misconfigured(f"FREKI_AUTH__TOKEN_FILE={self._path} is empty: nothing has put a token there yet")
        return token
