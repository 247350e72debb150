"""Keys that only one worker can read, whatever passes them on or logs them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
)

_PADDING = padding.OAEP(mgf=padding.MGF1(SHA256()), algorithm=SHA256(), label=None)


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """Variables, encrypted for one worker."""

    secret: bytes
    """The key of the text, for the private key of the worker."""
    text: bytes


def seal(keys: Mapping[str, str], public_key: bytes) -> Sealed:
    """Encrypt variables for whoever made the public key."""
    public = load_der_public_key(public_key)
    assert isinstance(public, rsa.RSAPublicKey)
    secret = Fernet.generate_key()
    text = Fernet(secret).encrypt(json.dumps(dict(keys)).encode())
    return Sealed(secret=public.encrypt(secret, _PADDING), text=text)


class Opener:
    """Makes a pair of keys, and opens what was sealed for it."""

    def __init__(self) -> None:
        self._private = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def public_key(self) -> bytes:
        """What `seal` needs; anybody may see it."""
        public = self._private.public_key()
        return public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    def open(self, sealed: Sealed) -> dict[str, str]:
        """The variables."""
        secret = self._private.decrypt(sealed.secret, _PADDING)
        return json.loads(Fernet(secret).decrypt(sealed.text))
