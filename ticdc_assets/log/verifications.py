"""What verifications found, in the lake: one row per table and run, one per row that differs.

The progress of a run is there too, until it ends: a run that was killed continues from it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.log.progress import Progress
from ticdc_assets.store.arrow import arrow_schema, make_table
from ticdc_assets.store.contracts import VERIFICATION_CONTRACTS
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.sql import quote_standard_text
from ticdc_assets.store.writer import ConcurrentCommit, LakeWriter

Verdict = Literal["equal", "differs", "skipped"]
Original = Literal["lake", "upstream"]


@dataclass(frozen=True)
class Difference:
    """A row that differs; values only where they may be shown."""

    key: str | None
    what: str
    copies: int
    columns: tuple[str, ...]
    cause: str
    lake: str | None = None
    upstream: str | None = None


@dataclass(frozen=True, kw_only=True)
class TableVerification:
    """What a run found out about a table."""

    run: str
    incarnation: str
    database: str
    table: str
    resolved_ts: int
    verdict: Verdict
    reason: str | None = None
    lake_rows: int | None = None
    upstream_rows: int | None = None
    different_rows: int = 0
    # Whether `differences` has every row that differs.
    complete: bool = True
    in_flight: int = 0
    spans: int = 0
    rows_summed: int = 0
    rows_sent: int = 0
    seconds: float = 0.0
    left_out: tuple[str, ...] = ()
    # The URI of a copy, if one was compared; `upstream_rows` are then those of the copy, and
    # `lake_rows` those of what it was compared with: the lake, or the database upstream.
    against: str | None = None
    compared_with: Original | None = None
    share: float | None = None
    bytes_read: int | None = None
    differences: tuple[Difference, ...] = field(default=(), repr=False)
    verified_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def of_lake(self) -> bool:
        """Whether it says something of the lake."""
        return self.compared_with != "upstream"

    @property
    def id(self) -> str:
        return f"{self.run}-{self.incarnation}"


class RunProgress(msgspec.Struct):
    """A run that has not ended: its id, the snapshot that it verifies, and the tables to verify."""

    run: str
    snapshot_id: int
    tables: list[str]


class TableProgress(msgspec.Struct):
    """A table whose coarse spans are being compared."""

    lead: bool
    parts: int
    spans: list[tuple[int, int]]
    # Sums are decimal texts: JSON has no integers of this size.
    upstream: list[tuple[int, int, int, str]]


class Results:
    """The three tables of the lake that hold verifications."""

    def __init__(self, location: Lake) -> None:
        self._reader = LakeReader(location)
        self._writer = LakeWriter(location)
        self.progress = Progress(location, "verification_progress", RunProgress, TableProgress)
        # Whether a run that was killed may have written a result already.
        self.may_repeat = False

    def prepare(self) -> None:
        """Create the tables, unless they exist; add columns that they lack."""
        for name, contract in VERIFICATION_CONTRACTS.items():
            columns, table = arrow_schema(contract), self._reader.find(name)
            if table is None:
                self._writer.create(name, columns, {})
                continue
            known = {known.name for known in table.schema().fields}
            for column in columns:
                if column.name not in known:
                    self._writer.add_column(table, column)

    def read_run(self, run: str) -> list["TableVerification"]:
        """Read what a run has found so far, in order, without the differences."""
        rows = map(_read_row, self._read("verifications", pc.field("run") == run))
        return sorted(rows, key=lambda found: found.verified_at)

    def is_left_of(self, run: RunProgress, tables: Sequence[str]) -> bool:
        """Whether these are the tables of a run that was killed, or what is left of them."""
        done = {found.incarnation for found in self.read_run(run.run)}
        left = [id for id in run.tables if id not in done]
        return list(tables) in (run.tables, left)

    def add(self, found: TableVerification) -> None:
        """Write a result, in place of what a killed run may have written of it."""
        rows = [
            (
                *(found.id, found.verified_at, found.database, found.table, found.resolved_ts),
                *(each.key, each.what, each.copies, list(each.columns), each.cause),
                *(each.lake, each.upstream),
            )
            for each in found.differences
        ]
        if rows:
            self._write("differences", found.id, rows)
        # Last: only with its row does the verification count.
        self._write("verifications", found.id, [_make_row(found)])

    def _write(self, name: str, id: str, rows: Iterable[Sequence[Any]]) -> None:
        table = make_table(VERIFICATION_CONTRACTS[name], rows)
        if self.may_repeat:
            self._writer.replace_where(name, "verification", [id], table)
        else:
            self._writer.append(self._reader.open(name), table)

    def read_newest(self) -> dict[str, "TableVerification"]:
        """Read the newest verification of every incarnation, without its differences."""
        return self._choose_newest(of_copies=False)

    def read_newest_of_copies(self) -> dict[str, "TableVerification"]:
        """Read the newest comparison of every incarnation in the lake with a copy, likewise."""
        return self._choose_newest(of_copies=True)

    def _choose_newest(self, *, of_copies: bool) -> dict[str, "TableVerification"]:
        found = self._read_columns("verifications")
        if found is None:
            return {}
        # An older lake compares no copies.
        if "against" in found.column_names:
            is_copy = pc.is_valid(found["against"])
            found = found.filter(is_copy if of_copies else pc.invert(is_copy))
        elif of_copies:
            return {}
        if "compared_with" in found.column_names:
            found = found.filter(
                pc.fill_null(pc.not_equal(found["compared_with"], "upstream"), True)
            )
        # Few of all that are kept are the newest: only these become objects.
        found = found.sort_by("verified_at")
        newest = {id: row for row, id in enumerate(found["incarnation"].to_pylist())}
        rows = found.take(pa.array(newest.values(), pa.int64())).to_pylist()
        return {row["incarnation"]: _read_row(row) for row in rows}

    def read_equal(self) -> dict[str, int]:
        """Read up to which ts whole incarnations were found to be equal."""
        equal: dict[str, int] = {}
        for row in self._read("verifications", pc.field("verdict") == "equal"):
            if not row["left_out"] and row.get("against") is None:
                id, ts = row["incarnation"], row["resolved_ts"]
                equal[id] = max(ts, equal.get(id, ts))
        return equal

    def remove_old(self, before: datetime) -> None:
        """Remove the results before a time, but for the newest, and newest proof, of each table."""
        opened = self._reader.find("verifications")
        if opened is None:
            return
        columns = ["verification", "incarnation", "verified_at", "verdict"]
        later = ("against", "compared_with")
        columns += [field.name for field in opened.schema().fields if field.name in later]
        rows = self._reader.read(opened, columns).sort_by("verified_at").to_pylist()
        newest: dict[object, dict[str, Any]] = {}
        for row in rows:
            place = row["incarnation"], row.get("against"), row.get("compared_with")
            newest[place] = row
            if row["verdict"] == "equal":
                newest[*place, "equal"] = row
        kept = {row["verification"] for row in newest.values() if row["verified_at"] < before}
        if not any(r["verified_at"] < before and r["verification"] not in kept for r in rows):
            return
        listed = ", ".join(map(quote_standard_text, sorted(kept)))
        is_old = f"verified_at < '{before.isoformat()}'"
        for name in ("differences", "verifications"):
            table = self._reader.find(name)
            # A verification that ends at this moment goes first: there is a next night.
            with suppress(ConcurrentCommit):
                if table is not None:
                    others = f" AND verification NOT IN ({listed})" if kept else ""
                    self._writer.delete(table, is_old + others)

    def _read(self, name: str, condition: pc.Expression | None = None) -> list[dict[str, Any]]:
        found = self._read_columns(name, condition)
        rows: list[dict[str, Any]] = [] if found is None else found.to_pylist()
        return rows

    def _read_columns(self, name: str, condition: pc.Expression | None = None) -> pa.Table | None:
        table = self._reader.find(name)
        if table is None:
            return None
        columns = [field.name for field in table.schema().fields]
        return self._reader.read(table, columns, condition)


def _make_row(found: TableVerification) -> tuple[Any, ...]:
    return (
        *(found.id, found.run, found.verified_at, found.incarnation, found.database, found.table),
        *(found.resolved_ts, found.verdict, found.reason, found.lake_rows, found.upstream_rows),
        *(found.different_rows, found.complete, found.in_flight, found.spans, found.rows_summed),
        *(found.rows_sent, round(1000 * found.seconds), list(found.left_out)),
        *(found.against, found.share, found.bytes_read, found.compared_with),
    )


def _read_row(row: dict[str, Any]) -> TableVerification:
    seconds, left_out = row["duration_ms"] / 1000, tuple(row["left_out"])
    rest = {name: row[name] for name in row if name not in ("verification", "duration_ms")}
    return TableVerification(**rest | {"seconds": seconds, "left_out": left_out})


def write_json(values: Mapping[str, str | None]) -> str:
    """Write values as JSON, whatever texts they are."""
    return json.dumps(values, ensure_ascii=False).encode(errors="backslashreplace").decode()
