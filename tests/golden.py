"""The golden data as tests read it: real TiCDC output with the true table contents beside it."""

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


def open_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Read a JSON Lines file, whether it is stored gzipped or not."""
    zipped = path.with_name(path.name + ".gz")
    with gzip.open(zipped, "rt") if zipped.exists() else path.open() as lines:
        for line in lines:
            yield json.loads(line)


def datasets(pattern: str = "*") -> list[str]:
    """Names `workload/dataset` of the golden datasets that match a glob, sorted."""
    return sorted(
        f"{meta.parent.parent.name}/{meta.parent.name}"
        for meta in GOLDEN.glob(f"*/{pattern}/meta.json")
    )


def meta(dataset: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((GOLDEN / dataset / "meta.json").read_text())
    return content


def records(dataset: str) -> Iterator[Message]:
    """The records of a Kafka dataset, in send order."""
    for record in open_lines(GOLDEN / dataset / "records.jsonl"):
        yield Message(
            topic=record["topic"],
            partition=record["partition"],
            offset=record["offset"],
            key=_bytes(record["key_b64"]),
            value=_bytes(record["value_b64"]),
            timestamp_ms=record["timestamp_ms"],
        )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@cache
def storage_tree(dataset: str) -> dict[str, bytes]:
    """The files of a storage dataset by their path under the prefix."""
    archive = gzip.decompress((GOLDEN / dataset / "data.tar.gz").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        files = (member for member in tar if member.isfile())
        return {
            member.name.removeprefix("./").removeprefix("data/"): tar.extractfile(member).read()  # type: ignore[union-attr]
            for member in files
        }
