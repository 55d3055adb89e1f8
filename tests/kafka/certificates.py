"""Certificates of a test's own authority."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

_DAY = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Files in PEM."""

    certificate: Path
    key: Path
    both: Path
    """Key and certificate in one file, as Kafka's brokers want them."""


class Authority:
    """Signs certificates for 127.0.0.1, in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = _named(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        limits = x509.BasicConstraints(ca=True, path_length=None)
        # Python 3.13 trusts no authority that does not say so.
        signs = x509.KeyUsage(
            key_cert_sign=True,
            crl_sign=True,
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = self._builder(self._name, self._key).add_extension(limits, critical=True)
        certificate = certificate.add_extension(signs, critical=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(certificate.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def pair(self, name: str, *, password: str = "") -> Pair:
        """Make a key and its certificate; with a password the key is encrypted."""
        key = ec.generate_private_key(ec.SECP256R1())
        hosts = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        certificate = self._builder(_named(name), key).add_extension(hosts, critical=False)
        found = Pair(
            certificate=self._folder / f"{name}.pem",
            key=self._folder / f"{name}.key",
            both=self._folder / f"{name}.both.pem",
        )
        signed = certificate.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        locked: KeySerializationEncryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)
        found.certificate.write_bytes(signed)
        found.key.write_bytes(secret)
        found.both.write_bytes(secret + signed)
        return found

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
