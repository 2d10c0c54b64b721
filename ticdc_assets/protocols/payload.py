"""Claim checks: rows too large for a message, kept as objects in a storage beside the topic.

The message states a location; only its last path element counts, looked up in the storage the owner
declared.  Nothing is opened here: a `PayloadStore` is handed in.  No location is ever repeated in
an error, only the object's name: a storage URI may carry credentials.
"""

import hashlib
from base64 import b64decode
from typing import Protocol

import msgspec

from ticdc_assets.errors import MalformedMessage, MissingPayload


class PayloadStore(Protocol):
    """Where claim-check objects lie."""

    def fetch(self, name: str) -> bytes:
        """Return the object of that plain file name; raise KeyError or OSError if it is absent."""
        ...


class Payload(msgspec.Struct, frozen=True):
    """A claim-check object, opened: the record it stands for, compressed as records are."""

    key: bytes | None
    value: bytes
    # SHA-256 of the whole object, hexadecimal.
    digest: str


class _Wrapped(msgspec.Struct, frozen=True):
    value: str
    key: str | None = None


_decode = msgspec.json.Decoder(_Wrapped).decode


def fetch(location: str, payloads: PayloadStore | None, *, raw: bool) -> Payload:
    """Fetch the record that a claim-check location stands for.

    `raw` is the changefeed's `claim-check-raw-value`: the object is the value itself.
    """
    name = object_name(location)
    if payloads is None:
        raise MissingPayload(f"no claim-check storage is declared to hold {name!r}")
    try:
        content = payloads.fetch(name)
    except KeyError:
        raise MissingPayload(f"claim-check object {name!r} is absent") from None
    except OSError as error:
        # The error's own text may name the storage with its credentials.
        raise MissingPayload(
            f"claim-check object {name!r} cannot be read ({type(error).__name__})"
        ) from None
    digest = hashlib.sha256(content).hexdigest()
    if raw:
        return Payload(key=None, value=content, digest=digest)
    try:
        wrapped = _decode(content)
        key = None if wrapped.key is None else b64decode(wrapped.key, validate=True)
        return Payload(key=key, value=b64decode(wrapped.value, validate=True), digest=digest)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise MalformedMessage(f"claim-check object {name!r}: {error}") from None


def object_name(location: str) -> str:
    """The plain file name a claim-check location ends in."""
    path = location.split("?", 1)[0]
    name = path.rsplit("/", 1)[-1]
    if name in ("", ".", "..") or "\\" in name or not name.isprintable():
        raise MalformedMessage("the claim-check location does not end in a file name")
    return name
