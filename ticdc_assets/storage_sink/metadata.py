"""The `metadata` file of a storage-sink folder: its checkpoint.

The folder is complete, schema files included, up to this commit ts.
"""

from msgspec import DecodeError, Struct, field, json

from ticdc_assets.errors import MalformedMessage


class _Metadata(Struct, frozen=True):
    checkpoint_ts: int = field(name="checkpoint-ts")


_decode = json.Decoder(_Metadata).decode


def read_metadata(data: bytes) -> int:
    """Read the checkpoint ts; raise `MalformedMessage` for an incomplete file."""
    try:
        checkpoint = _decode(data).checkpoint_ts
    except (DecodeError, RecursionError) as error:
        raise MalformedMessage(f"metadata: {error}") from None
    if not 0 <= checkpoint < 1 << 63:
        raise MalformedMessage(f"metadata: {checkpoint} is not a TSO")
    return checkpoint
