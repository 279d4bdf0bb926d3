"""Certificates of a small authority of one's own: for a broker, and for clients that show who they are."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from afl_stream.broker.ports import HOST

_DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates, and writes each with its key into a folder, as PEM."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("authority of a test")
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        certificate = (self._builder("authority of a test", self._key).add_extension(constraints, critical=True)).sign(
            self._key, hashes.SHA256()
        )
        self.path = folder / "authority.pem"
        self.path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def identity(self, name: str) -> Path:
        """Return a file with the key and the certificate of this name, good for connections to this machine."""
        key = ec.generate_private_key(ec.SECP256R1())
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
        certificate = self._builder(name, key).add_extension(here, critical=False).sign(self._key, hashes.SHA256())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path = self._folder / f"{name}.pem"
        path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
        return path

    def _builder(self, name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return x509.CertificateBuilder(
            issuer_name=self._name,
            subject_name=_named(name),
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - _DAY,
            not_valid_after=now + _DAY,
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
