"""The true table contents recorded with the golden data, and a strict comparison with them."""

import json
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from typing import Any

from msgspec import Struct

from tests.golden import find_folder, open_lines

Row = dict[str, str | None]
Name = tuple[str, str]


class TrueTable(Struct, frozen=True):
    """A table as dumped from TiDB at one ts, without its virtual columns."""

    database: str
    table: str
    columns: tuple[dict[str, Any], ...]
    primary_key: tuple[str, ...]
    unique_keys: tuple[tuple[str, ...], ...]
    rows: tuple[tuple[str | None, ...], ...]
    # Names of the virtual columns, which TiCDC never sends.
    virtual: tuple[str, ...]

    @property
    def name(self) -> Name:
        return self.database, self.table

    @property
    def has_key(self) -> bool:
        """Whether TiCDC replicates the table without force-replicate."""
        nullable = {c["name"]: c["nullable"] for c in self.columns}
        return bool(self.primary_key) or any(
            not any(nullable[name] for name in key) for key in self.unique_keys
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c["name"] for c in self.columns)

    def strict_rows(self) -> Counter[tuple[object, ...]]:
        """Return the table's own rows in the form of `strict`."""
        return self.strict(dict(zip(self.names, row, strict=True)) for row in self.rows)

    def strict(self, rows: Iterable[Row]) -> Counter[tuple[object, ...]]:
        """Count rows in a form that compares strictly: exact texts, float bits, JSON values."""
        forms = [(c["name"], _FORMS.get(c["data_type"], str)) for c in self.columns]
        return Counter(
            tuple(
                "absent" if name not in row else None if (text := row[name]) is None else form(text)
                for name, form in forms
            )
            for row in rows
        )


def _float32(text: str) -> bytes:
    return struct.pack("<f", float(text))


def _float64(text: str) -> bytes:
    return struct.pack("<d", float(text))


def _json_value(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)


_FORMS = {"float": _float32, "double": _float64, "json": _json_value}


@cache
def truth(workload: str) -> dict[int, dict[Name, TrueTable]]:
    """Read the true tables of a workload, by the ts of the dump and by name."""
    points: dict[int, dict[Name, TrueTable]] = defaultdict(dict)
    for mark in open_lines(find_folder(workload) / "watermarks.jsonl"):
        if mark.get("dump"):
            points[mark["ts"]] = {}
    for line in open_lines(find_folder(workload) / "truth.jsonl"):
        kept = [i for i, c in enumerate(line["columns"]) if c.get("generated") != "VIRTUAL"]
        table = TrueTable(
            database=line["schema"],
            table=line["table"],
            columns=tuple(line["columns"][i] for i in kept),
            primary_key=tuple(line["primary_key"]),
            unique_keys=tuple(tuple(key) for key in line["unique_keys"]),
            rows=tuple(tuple(row[i] for i in kept) for row in line["rows"]),
            virtual=tuple(c["name"] for c in line["columns"] if c.get("generated") == "VIRTUAL"),
        )
        points[line["at_ts"]][table.name] = table
    return dict(points)
