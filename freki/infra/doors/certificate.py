"""The certificate of the doors."""

import ssl

from freki.infra.settings import ServeSettings
from freki.schemas.errors import Misconfigured


def load_certificate(settings: ServeSettings) -> tuple[bytes, bytes] | None:
    """Return private key and certificate in PEM; None without TLS. Raises Misconfigured if they cannot be used."""
    if settings.cert_file is None or settings.key_file is None:
        return None
    try:
        # OpenSSL would ask for the password of an encrypted key on the terminal.
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            settings.cert_file, settings.key_file, lambda: ""
        )
        return settings.key_file.read_bytes(), settings.cert_file.read_bytes()
    except OSError as error:
        raise Misconfigured(
            f"FREKI_SERVE__CERT_FILE={settings.cert_file} with FREKI_SERVE__KEY_FILE={settings.key_file} cannot be "
            f"used: {error}; name a readable certificate and its key without a password, both in PEM"
        ) from error
