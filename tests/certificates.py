"""Certificates of servers on loopback."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.servers import HOST
from tests.sql_server import USER


def make_certificates(folder: Path, server: str) -> None:
    """Write `ca.pem`, what it signed for a server, and `other-ca.pem`, which signed nothing.

    `client.pem` and `client-key.pem` are of a client that is named as the declared user; so are
    `other.pem` and `other-key.pem`, which another authority signed, and `locked-key.pem` is the
    client's key with a password.
    """
    ca_key, ca = _make_authority("ticdc-assets tests")
    other_key, other = _make_authority("somebody else")
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HOST))]
    certificate = (
        _start_certificate(server, key)
        .issuer_name(ca.subject)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / f"{server}.pem").write_bytes(
        private + certificate.public_bytes(pem) + ca.public_bytes(pem)
    )
    (folder / "ca.pem").write_bytes(ca.public_bytes(pem))
    (folder / "other-ca.pem").write_bytes(other.public_bytes(pem))
    for name, authority, signer in (("client", ca, ca_key), ("other", other, other_key)):
        own = ec.generate_private_key(ec.SECP256R1())
        signed = _start_certificate(USER, own).issuer_name(authority.subject)
        (folder / f"{name}.pem").write_bytes(signed.sign(signer, hashes.SHA256()).public_bytes(pem))
        write_key(folder / f"{name}-key.pem", own, serialization.NoEncryption())
        if name == "client":
            locked = serialization.BestAvailableEncryption(b"locked")
            write_key(folder / "locked-key.pem", own, locked)


def write_key(
    file: Path,
    key: ec.EllipticCurvePrivateKey,
    encryption: serialization.KeySerializationEncryption,
) -> None:
    """Write a private key, which only its owner may read."""
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    file.write_bytes(key.private_bytes(pem, form, encryption))
    file.chmod(0o600)


def _make_authority(name: str) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    is_authority = x509.BasicConstraints(ca=True, path_length=None)
    builder = _start_certificate(name, key).issuer_name(issuer)
    return key, builder.add_extension(is_authority, critical=True).sign(key, hashes.SHA256())


def _start_certificate(name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
