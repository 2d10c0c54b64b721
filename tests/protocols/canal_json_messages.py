"""Canal-JSON messages by hand, and what the decoder makes of them."""

import json
from typing import Any
from zoneinfo import ZoneInfo

from ticdc_assets.events import (
    Event,
    Quarantined,
    RowChange,
    TopicPosition,
    row_image,
)
from ticdc_assets.protocols.canal_json.decoder import CanalJsonDecoder
from ticdc_assets.protocols.message import Message

UTC = ZoneInfo("UTC")
ES = 1639633141221
TS = ES << 18 | 7


def message(**fields: Any) -> dict[str, Any]:
    """An INSERT as TiCDC writes it, with the extension; None takes a field away."""
    content = {
        "id": 0,
        "database": "test",
        "table": "t",
        "pkNames": ["id"],
        "isDdl": False,
        "type": "INSERT",
        "es": ES,
        "ts": ES + 5,
        "sql": "",
        "sqlType": {"id": 4, "v": 12},
        "mysqlType": {"id": "int", "v": "varchar"},
        "data": [{"id": "1", "v": None}],
        "old": None,
        "_tidb": {"commitTs": TS},
    } | fields
    return {name: value for name, value in content.items() if value is not ...}


def decode(content: dict[str, Any] | bytes | None, tz: str = "UTC", **settings: Any) -> list[Event]:
    value = json.dumps(content).encode() if isinstance(content, dict) else content
    decoder = CanalJsonDecoder(tz=ZoneInfo(tz), **settings)
    return list(decoder.decode(Message("topic", 3, 14, None, value)))


def row(content: dict[str, Any], tz: str = "UTC", **settings: Any) -> RowChange:
    (event,) = decode(content, tz, **settings)
    assert isinstance(event, RowChange), event
    return event


def column(mysql_type: str, text: str | None, tz: str = "UTC", sql_type: int = 12) -> str | None:
    event = row(
        message(mysqlType={"v": mysql_type}, sqlType={"v": sql_type}, data=[{"v": text}]), tz
    )
    return row_image.load(event.after or "")["v"]


def error_of(content: dict[str, Any] | bytes | None, **settings: Any) -> str:
    (event,) = decode(content, **settings)
    assert isinstance(event, Quarantined), event
    assert event.position == TopicPosition("topic", 3, 14)
    assert event.reason
    return event.error
