"""What the tests of `decode` and `replay` read: recorded datasets, and dumps made of a few rows."""

import json
from pathlib import Path
from typing import Any

from tests.golden import GOLDEN, find_folder, meta, storage_tree
from tests.truth import TrueTable, truth

PLAIN = "lifecycle/simple-json"
FOLDER = "lifecycle/storage-csv-full"


def sink_uri(dataset: str) -> str:
    """The sink URI of a Kafka dataset, for its dump."""
    folder = GOLDEN / dataset
    name = "records.jsonl.gz" if (folder / "records.jsonl.gz").exists() else "records.jsonl"
    return f"dump://{folder}/{name}?{meta(dataset)['sink-uri'].partition('?')[2]}"


def declare(path: Path, *datasets: str, **others: str) -> Path:
    """Write declarations of datasets, with their names as ids, and of other sink URIs."""
    entries = [(id, uri, "") for id, uri in others.items()]
    for name in datasets:
        # The recorded servers do not mix up columns.
        config = f'server-version = "9.0.0"\nconfig = "{GOLDEN / name / "changefeed.toml"}"\n'
        entries.append((name.rpartition("/")[2], sink_uri(name), config))
    path.write_text(
        "".join(f'[[changefeed]]\nid = "{id}"\nsink-uri = "{uri}"\n{c}' for id, uri, c in entries)
    )
    return path


def unpacked(dataset: str, folder: Path) -> Path:
    """Unpack a storage dataset; return the file that declares it."""
    for path, content in storage_tree(dataset).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    parameters = meta(dataset)["sink-uri"].partition("?")[2]
    uri = f"file://{str(folder).replace(' ', '%20')}?{parameters}"
    feeds = folder.parent / "folder.toml"
    config = find_folder(dataset) / "changefeed.toml"
    feeds.write_text(f'[[changefeed]]\nid = "f"\nsink-uri = "{uri}"\nconfig = "{config}"\n')
    return feeds


def canal_row(database: str, table: str, ts: int, **more: Any) -> dict[str, Any]:
    return {
        "id": 0,
        "database": database,
        "table": table,
        "pkNames": ["id"],
        "isDdl": False,
        "type": "INSERT",
        "es": 0,
        "ts": 0,
        "sql": "",
        "sqlType": {"id": 4},
        "mysqlType": {"id": "int"},
        "old": None,
        "data": [{"id": "1"}],
        "_tidb": {"commitTs": ts},
        **more,
    }


def canal_watermark(ts: int) -> dict[str, Any]:
    watermark = {"type": "TIDB_WATERMARK", "data": None, "_tidb": {"watermarkTs": ts}}
    return canal_row("", "", 0) | watermark


def dump_of(folder: Path, *messages: str | dict[str, Any]) -> str:
    """Dump messages the way kcat does; return the sink URI."""
    lines = [
        {"topic": "t", "partition": 0, "offset": i, "ts": 1, "key": None, "payload": m}
        for i, m in enumerate(m if isinstance(m, str) else json.dumps(m) for m in messages)
    ]
    (folder / "kcat.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return f"dump://{folder}/kcat.jsonl?protocol=canal-json&enable-tidb-extension=true"


def points(dataset: str) -> list[int]:
    return sorted(truth(dataset.split("/")[0]))


def replicated(dataset: str, ts: int) -> dict[tuple[str, str], TrueTable]:
    tables = truth(dataset.split("/")[0])[ts]
    left_out = meta(dataset).get("filtered_out", [])
    return {n: t for n, t in tables.items() if t.has_key and ".".join(n) not in left_out}


def table_lines(out: bytes) -> list[dict[str, str | None]]:
    """Rows as printed: a JSON object on each line, sorted by their text."""
    assert not out or out.endswith(b"\n")
    lines = out.split(b"\n")[:-1]
    assert lines == sorted(lines)
    return [json.loads(line) for line in lines]
