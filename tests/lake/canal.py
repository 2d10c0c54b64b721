"""Canal-JSON messages with the TiDB extension, by hand: for lakes of a row or two."""

import json
from collections.abc import Iterable
from typing import Any

from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.protocols.message import Message

FEED = changefeed_from_uri(
    "kafka://h:9092/t?protocol=canal-json&enable-tidb-extension=true", id="f"
)

_TYPES = {"id": ("int", 4)}


def row(database: str, table: str, ts: int, **values: str) -> Message:
    """An insert; columns are int if they are called `id`, else text."""
    return change("INSERT", database, table, ts, values)


def change(
    kind: str,
    database: str,
    table: str,
    ts: int,
    values: dict[str, str],
    old: dict[str, str] | None = None,
) -> Message:
    """A change of a row of any kind; `old` is what an update has changed."""
    types = {name: _TYPES.get(name, ("varchar(20)", 12)) for name in values}
    said = {
        "type": kind,
        "pkNames": ["id"],
        "mysqlType": {name: type for name, (type, _) in types.items()},
        "sqlType": {name: code for name, (_, code) in types.items()},
        "data": [values],
        "old": None if old is None else [old],
        "_tidb": {"commitTs": ts},
    }
    return _message(database, table, said)


def ddl(database: str, table: str, ts: int, kind: str, sql: str) -> Message:
    said = {"type": kind, "isDdl": True, "sql": sql, "_tidb": {"commitTs": ts}}
    return _message(database, table, said)


def watermark(ts: int) -> Message:
    return _message("", "", {"type": "TIDB_WATERMARK", "_tidb": {"watermarkTs": ts}})


def placed(messages: Iterable[Message]) -> list[Message]:
    """Messages as they stand in a topic, one behind the other."""
    return [Message("t", 0, at, None, message.value, 1) for at, message in enumerate(messages)]


def _message(database: str, table: str, said: dict[str, Any]) -> Message:
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
    return Message("t", 0, 0, None, json.dumps(whole | said).encode(), 1)
