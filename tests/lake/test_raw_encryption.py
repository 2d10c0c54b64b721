"""Records of topics in `raw`, encrypted: decrypted here as the docstring states it."""

import dataclasses
import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.lake.canal import FEED
from ticdc_assets.changefeed.privacy import read_privacy
from ticdc_assets.errors import ConfigError
from ticdc_assets.lake.raw.encryption import make_decryption, make_encryption

KEY = "a key of these tests that is long enough"
ENTRY = {"tables": ["*.*"], "keep": ["*"]}
PRIVACY = read_privacy(
    {"key-env": "RAW_KEY", "raw": "encrypted", "table": [ENTRY]}, has_records=True
)
ENCRYPTED = dataclasses.replace(FEED, privacy=PRIVACY)
MARK = b"\x00ticdc-raw\x01"
FIELDS = [b"", b"a value", b"a value", bytes(range(256)) * 50]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAW_KEY", KEY)


def test_fields_are_encrypted_as_stated_and_come_back() -> None:
    ciphers = set()
    for _ in range(2):
        encrypt = make_encryption(ENCRYPTED)
        for field in FIELDS:
            stored = encrypt(field) or b""
            mark, salt, nonce, content = stored[:11], stored[11:27], stored[27:39], stored[39:]
            key = hmac.new(KEY.encode(), b"ticdc-assets raw" + salt, hashlib.sha256).digest()
            assert (mark, AESGCM(key).decrypt(nonce, content, None)) == (MARK, field)
            assert make_decryption(ENCRYPTED)(stored) == field
            ciphers.add((salt, nonce))
    assert len(ciphers) == 2 * len(FIELDS)
    assert encrypt(None) is make_decryption(ENCRYPTED)(None) is None


def test_plain_records_stay_readable_and_damaged_ones_are_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored = make_encryption(ENCRYPTED)(b"a value") or b""
    assert make_encryption(FEED)(b"a value") == b"a value" == make_decryption(ENCRYPTED)(b"a value")
    for broken in (stored[:-1], stored[:30], stored[:-1] + bytes([stored[-1] ^ 1])):
        with pytest.raises(ConfigError, match="is not the one that records in raw"):
            make_decryption(ENCRYPTED)(broken)
    plain = dataclasses.replace(FEED, privacy=dataclasses.replace(PRIVACY, raw="plain"))
    assert make_decryption(plain)(stored) == b"a value"
    for sent in (MARK, MARK + b"a message that somebody sent, with the mark of an encrypted one"):
        assert make_decryption(FEED)(sent) == make_decryption(plain)(sent) == sent
    monkeypatch.setenv("RAW_KEY", KEY.upper())
    with pytest.raises(ConfigError, match="is not the one that records in raw"):
        make_decryption(ENCRYPTED)(stored)
