"""Claim checks: rows too large for a message, stored as objects in external storage.

The message states a location; only its last path element counts, as the name of an object in the
storage that the owner declared.  This module opens nothing: callers pass a `PayloadStore`.  Errors
name the object, never its location: a storage URI may hold credentials.
"""

import hashlib
from base64 import b64decode
from typing import Protocol

import msgspec

from ticdc_assets.errors import MalformedMessage, MissingPayload


class PayloadStore(Protocol):
    """The storage of claim-check objects."""

    def fetch(self, name: str) -> bytes:
        """Return the object with this file name; raise KeyError or OSError if there is none."""
        ...


class Payload(msgspec.Struct, frozen=True):
    """The record in a claim-check object, compressed as records are."""

    key: bytes | None
    value: bytes
    # SHA-256 of the whole object, hexadecimal.
    digest: str


class _Wrapped(msgspec.Struct, frozen=True):
    value: str
    key: str | None = None


_decode = msgspec.json.Decoder(_Wrapped).decode


def fetch(location: str, payloads: PayloadStore | None, *, raw: bool) -> Payload:
    """Fetch the record that a claim-check location refers to.

    With `raw`, the changefeed's `claim-check-raw-value`, the object is the value itself.
    """
    name = object_name(location)
    if payloads is None:
        raise MissingPayload(
            f"claim-check object {name!r}: the changefeed declares no claim-check-storage"
        )
    try:
        content = payloads.fetch(name)
    except KeyError:
        raise MissingPayload(f"claim-check object {name!r} is absent") from None
    except OSError as error:
        # The text of the error may name the storage with its credentials.
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
    """Return the file name at the end of a claim-check location."""
    path = location.split("?", 1)[0]
    name = path.rsplit("/", 1)[-1]
    if name in ("", ".", "..") or "\\" in name or not name.isprintable():
        raise MalformedMessage("the claim-check location does not end in a file name")
    return name
