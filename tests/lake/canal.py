"""Canal-JSON messages with the TiDB extension, for lakes of a few rows."""

import json
from collections.abc import Iterable
from typing import Any

from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.protocols.message import Message

FEED = changefeed_from_uri(
    "kafka://h:9092/t?protocol=canal-json&enable-tidb-extension=true", id="f"
)

_TYPES = {"id": ("int", 4), "c,d": ("json", 12)}


def row(database: str, table: str, ts: int, **values: str) -> Message:
    """Make an insert; the column `id` is an int, `c,d` is JSON, the others are texts."""
    return change("INSERT", database, table, ts, values)


def change(
    kind: str,
    database: str,
    table: str,
    ts: int,
    values: dict[str, str],
    old: dict[str, str] | None = None,
    **mysql_types: str,
) -> Message:
    """Make a row change of any kind; `old` holds the columns that an update changed."""
    stated = _TYPES | {name: (type, 4) for name, type in mysql_types.items()}
    types = {name: stated.get(name, ("varchar(20)", 12)) for name in values}
    content = {
        "type": kind,
        "pkNames": ["id"],
        "mysqlType": {name: type for name, (type, _) in types.items()},
        "sqlType": {name: code for name, (_, code) in types.items()},
        "data": [values],
        "old": None if old is None else [old],
        "_tidb": {"commitTs": ts},
    }
    return _message(database, table, content)


def ddl(database: str, table: str, ts: int, kind: str, sql: str) -> Message:
    content = {"type": kind, "isDdl": True, "sql": sql, "_tidb": {"commitTs": ts}}
    return _message(database, table, content)


def watermark(ts: int) -> Message:
    return _message("", "", {"type": "TIDB_WATERMARK", "_tidb": {"watermarkTs": ts}})


def placed(messages: Iterable[Message]) -> list[Message]:
    """Messages as they stand in a topic, one behind the other."""
    return [Message("t", 0, at, None, message.value, 1) for at, message in enumerate(messages)]


def _message(database: str, table: str, content: dict[str, Any]) -> Message:
    whole: dict[str, Any] = {
        "id": 0,
        "database": database,
        "table": table,
        "pkNames": None,
        "isDdl": False,
        "es": 0,
        "ts": 0,
        "sql": "",
        "sqlType": None,
        "mysqlType": None,
        "old": None,
        "data": None,
    }
    return Message("t", 0, 0, None, json.dumps(whole | content).encode(), 1)
