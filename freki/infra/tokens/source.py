"""The token of those who ask from here."""

from pathlib import Path

from freki.infra.token_sources import token_of_file
from freki.schemas.errors import Misconfigured


class TokenFile:
    """A file that something keeps a fresh token in; it is read for each query."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self) -> str:
        """Return the token. Raises Misconfigured if there is none."""
        token = token_of_file("FREKI_AUTH__TOKEN_FILE", self._path)
        if not token:
            raise Misconfigured(f"FREKI_AUTH__TOKEN_FILE={self._path} is empty: nothing has put a token there yet")
        return token
