"""The certificate of the APIs."""

import asyncio
import ssl
from typing import Final

import structlog

from freki.infra.settings import ServeSettings
from freki.schemas.errors import Misconfigured
from freki.schemas.names import record

CHECK_INTERVAL_S: Final = 10.0
"""Interval of looks whether the files have changed, in seconds."""
_log = structlog.get_logger(__name__)


@record
class LoadedPair:
    """A certificate with its private key."""

    context: ssl.SSLContext
    pem: tuple[bytes, bytes]
    """Private key, and certificate."""


class Certificate:
    """Certificate and private key of the APIs; once their files have changed, new connections get what they hold."""

    def __init__(self, settings: ServeSettings, pair: LoadedPair) -> None:
        self._settings = settings
        self._pair = pair
        self._problem = ""
        self.context = pair.context
        """Of a server: it gives each connection the certificate of the time."""
        self.context.sni_callback = self._choose

    @property
    def pem(self) -> tuple[bytes, bytes]:
        """Private key, and certificate."""
        return self._pair.pem

    async def follow(self) -> None:
        """Look at the files again and again, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Take over what the files hold; what cannot be used is logged, and the certificate before stays."""
        try:
            pem = _read(self._settings)
            if pem is not None and pem != self.pem:
                self._pair = _loaded(self._settings, pem)
                _log.info("the certificate was replaced", cert_file=str(self._settings.cert_file))
            self._problem = ""
        except Misconfigured as error:
            if str(error) != self._problem:
                self._problem = str(error)
                _log.error("a new certificate cannot be used, the one before stays", reason=self._problem)

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._pair.context


def open_certificate(settings: ServeSettings) -> Certificate | None:
    """Return the certificate of the settings; None without TLS. Raises Misconfigured if it cannot be used."""
    pem = _read(settings)
    return None if pem is None else Certificate(settings, _loaded(settings, pem))


def _read(settings: ServeSettings) -> tuple[bytes, bytes] | None:
    if settings.cert_file is None or settings.key_file is None:
        return None
    try:
        return settings.key_file.read_bytes(), settings.cert_file.read_bytes()
    except OSError as error:
        raise _unusable(settings, error) from error


def _loaded(settings: ServeSettings, pem: tuple[bytes, bytes]) -> LoadedPair:
    """Return what the files hold, if it is still `pem`: they may be replaced one after the other meanwhile."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # OpenSSL would ask for the password of an encrypted key on the terminal.
        context.load_cert_chain(str(settings.cert_file), str(settings.key_file), lambda: "")
    except OSError as error:
        raise _unusable(settings, error) from error
    if _read(settings) != pem:
        raise _unusable(settings, "they are being replaced")
    return LoadedPair(context=context, pem=pem)


def _unusable(settings: ServeSettings, error: OSError | str) -> Misconfigured:
    return Misconfigured(
        f"FREKI_SERVE__CERT_FILE={settings.cert_file} with FREKI_SERVE__KEY_FILE={settings.key_file} cannot be "
        f"used: {error}; name a readable certificate and its key without a password, both in PEM"
    )
