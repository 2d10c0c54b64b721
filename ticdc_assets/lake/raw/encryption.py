"""Encrypt the records of topics in `raw`, so that nobody reads values there without the key.

A field is AES-256-GCM: a mark, the salt of the key, the nonce, and what the cipher returns.  Each
commit has a key of its own, made of the declared one and a random salt, so that no nonce is used
twice however many records a lake takes in.  Records without the mark are plain: of before the
setting.
"""

import hmac
import secrets
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.changefeed.privacy import Privacy
from ticdc_assets.errors import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

# No protocol's message begins so.
_MARK = b"\x00ticdc-raw\x01"
_SALT_BYTES = 16
_NONCE_BYTES = 12
_KEY = len(_MARK) + _SALT_BYTES
_BEGIN = _KEY + _NONCE_BYTES
_SETTING = "changefeed.privacy"

Convert = Callable[[bytes | None], bytes | None]


def make_encryption(feed: Changefeed) -> Convert:
    """Return the function that makes of a field of a record what `raw` has; for one commit."""
    if feed.privacy is None or feed.privacy.raw == "plain":
        return _keep
    salt = secrets.token_bytes(_SALT_BYTES)
    cipher = _make_cipher(feed.privacy.read_key(), salt)
    fields = 0

    def encrypt(field: bytes | None) -> bytes | None:
        nonlocal fields
        if field is None:
            return None
        fields += 1
        nonce = fields.to_bytes(_NONCE_BYTES, "big")
        return _MARK + salt + nonce + cipher.encrypt(nonce, field, None)

    return encrypt


def make_decryption(feed: Changefeed) -> Convert:
    """Return the function that makes the field of a record of what `raw` has.

    Where records are stored plain, anybody who writes to the topic may send one with the mark: what
    is not encrypted stays as it is, and no decoder knows it.
    """
    privacy = feed.privacy

    @lru_cache(maxsize=64)
    def find_cipher(privacy: Privacy, salt: bytes) -> "AESGCM":
        return _make_cipher(privacy.read_key(), salt)

    def decrypt(field: bytes | None) -> bytes | None:
        if field is None or not field.startswith(_MARK):
            return field
        if privacy is None or privacy.key_env is None:
            return field
        cipher = find_cipher(privacy, field[len(_MARK) : _KEY])
        from cryptography.exceptions import InvalidTag

        try:
            return cipher.decrypt(field[_KEY:_BEGIN], field[_BEGIN:], None)
        except (InvalidTag, ValueError):
            if privacy.raw == "plain":
                return field
            reason = (
                f"the key in {privacy.key_env} is not the one that records in raw are encrypted"
                " with, or a record is damaged: restore that key"
            )
            raise ConfigError(reason, setting=f"{_SETTING}.key-env") from None

    return decrypt


def _keep(field: bytes | None) -> bytes | None:
    return field


def _make_cipher(key: bytes, salt: bytes) -> "AESGCM":
    # Importing it takes a while, and only lakes with encrypted records need it.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(hmac.digest(key, b"ticdc-assets raw" + salt, "sha256"))
