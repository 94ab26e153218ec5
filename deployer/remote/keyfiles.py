"""Private key files: their public half without a passphrase, unlocking, and signatures."""

from __future__ import annotations

import base64
import binascii
import re
from pathlib import Path
from typing import Any

from deployer.remote import wire

_MAGIC = b"openssh-key-v1\0"


class KeyFailed(Exception):
    """A key file that cannot be used; the text says why, and holds nothing of it."""


class WrongPassphrase(KeyFailed):
    pass


def public_half(path: str) -> bytes | None:
    """The public key of a private key file, from its own clear part or the ``.pub`` beside it; None: not known."""
    try:
        data = Path(path).read_bytes()
    except OSError:
        return None
    match = re.search(rb"-----BEGIN OPENSSH PRIVATE KEY-----(.+?)-----END", data, re.DOTALL)
    if match:
        try:
            reader = wire.Reader(base64.b64decode(match[1]).removeprefix(_MAGIC))
            for _ in range(3):                       # cipher, key derivation, its options
                reader.string()
            reader.number()
            return reader.string()
        except (ValueError, binascii.Error):
            return None
    return public_file(path + ".pub")


def public_file(path: str) -> bytes | None:
    """The key or certificate in a ``.pub`` file; None where there is none."""
    try:
        words = Path(path).read_text(encoding="utf-8", errors="replace").split()
        return base64.b64decode(words[1], validate=True)
    except (OSError, IndexError, ValueError):
        return None


def encrypted(path: str) -> bool:
    """Whether a passphrase is needed; raises KeyFailed where the file cannot be read."""
    data = _read(path)
    match = re.search(rb"-----BEGIN OPENSSH PRIVATE KEY-----(.+?)-----END", data, re.DOTALL)
    if match:
        try:
            return wire.Reader(base64.b64decode(match[1]).removeprefix(_MAGIC)).string() != b"none"
        except (ValueError, binascii.Error):
            raise KeyFailed(f"{path} is damaged") from None
    return b"ENCRYPTED" in data


def unlock(path: str, passphrase: str | None) -> Any:
    """The private key (an object of ``cryptography``); raises KeyFailed, WrongPassphrase."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    data = _read(path)
    password = passphrase.encode() if passphrase else None
    load = serialization.load_pem_private_key
    if b"BEGIN OPENSSH PRIVATE KEY" in data:
        load = serialization.load_ssh_private_key
    try:
        return load(data, password)
    except TypeError:
        raise WrongPassphrase(f"{path} needs a passphrase") from None
    except (ValueError, UnsupportedAlgorithm) as error:
        if passphrase:
            raise WrongPassphrase(f"the passphrase of {path} is not right") from None
        raise KeyFailed(f"{path} cannot be used: {type(error).__name__}") from None


def public_blob(key: Any) -> bytes:
    """The public half of an unlocked key, as on the wire."""
    from cryptography.hazmat.primitives import serialization

    line: bytes = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return base64.b64decode(line.split()[1])


def sign(key: Any, data: bytes, algorithm: str) -> bytes:
    """The signature under ``algorithm`` (of the key, not of its certificate), as on the wire; raises KeyFailed."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    name = algorithm.partition("-cert-v01@")[0]
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return wire.string(name) + wire.string(key.sign(data))
    if isinstance(key, rsa.RSAPrivateKey):
        digest = hashes.SHA512() if name.endswith("512") else hashes.SHA256()
        return wire.string(name) + wire.string(key.sign(data, padding.PKCS1v15(), digest))
    if isinstance(key, ec.EllipticCurvePrivateKey):
        by_size = {256: hashes.SHA256(), 384: hashes.SHA384(), 521: hashes.SHA512()}
        r, s = decode_dss_signature(key.sign(data, ec.ECDSA(by_size[key.curve.key_size])))
        return wire.string(name) + wire.string(wire.mpint(r) + wire.mpint(s))
    raise KeyFailed(f"keys of the kind {name} are not supported")


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise KeyFailed(f"{path} cannot be read: {error.strerror}") from None
