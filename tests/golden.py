"""Readers of the golden data: recorded output of TiCDC, and the true table contents beside it."""

import base64
import gzip
import io
import json
import os
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ticdc_assets.protocols.message import Message

PROJECT = Path(__file__).resolve().parents[1]
GOLDEN = Path(os.environ.get("TICDC_GOLDEN", PROJECT.parent / "shared" / "golden"))
# Recorded with the code of released servers, in the same layout.
RELEASED = GOLDEN.with_name("golden_released")


def open_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON Lines file, gzipped or not."""
    zipped = path.with_name(path.name + ".gz")
    with gzip.open(zipped, "rt") if zipped.exists() else path.open() as lines:
        for line in lines:
            yield json.loads(line)


def datasets(pattern: str = "*") -> list[str]:
    """List the golden datasets that match a glob as `workload/dataset`, sorted."""
    return _list_datasets(GOLDEN, pattern)


def released_datasets(pattern: str = "*") -> list[str]:
    """List the datasets of released servers that match a glob."""
    return _list_datasets(RELEASED, pattern)


def _list_datasets(root: Path, pattern: str) -> list[str]:
    found = root.glob(f"*/{pattern}/meta.json")
    return sorted(f"{meta.parent.parent.name}/{meta.parent.name}" for meta in found)


def find_folder(name: str) -> Path:
    """Return the folder of a workload, or of a dataset."""
    workload, _, _ = name.partition("/")
    return (RELEASED if (RELEASED / workload).is_dir() else GOLDEN) / name


def meta(dataset: str) -> dict[str, Any]:
    """Read the description of a dataset."""
    content: dict[str, Any] = json.loads((find_folder(dataset) / "meta.json").read_text())
    return content


def records(dataset: str) -> Iterator[Message]:
    """Yield the records of a Kafka dataset in the order in which TiCDC sent them."""
    for record in open_lines(find_folder(dataset) / "records.jsonl"):
        yield Message(
            topic=record["topic"],
            partition=record["partition"],
            offset=record["offset"],
            key=_decode_base64(record["key_b64"]),
            value=_decode_base64(record["value_b64"]),
            timestamp_ms=record["timestamp_ms"],
        )


def _decode_base64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@cache
def storage_tree(dataset: str) -> dict[str, bytes]:
    """Read the files of a storage dataset, by their path below the sink's prefix."""
    archive = gzip.decompress((find_folder(dataset) / "data.tar.gz").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        files = (member for member in tar if member.isfile())
        return {
            member.name.removeprefix("./").removeprefix("data/"): tar.extractfile(member).read()  # type: ignore[union-attr]
            for member in files
        }
