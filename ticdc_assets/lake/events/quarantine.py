"""Keep the quarantine of decode equal to the quarantined events: rewrite it when the two differ.

When a file's content changes, the rows that apply quarantined of its old content are removed too.
Few rows are compared and written in this process.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_assets.store.arrow import arrow_schema
from ticdc_assets.store.contracts import QUARANTINE
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.small_tables import can_hold
from ticdc_assets.store.sql import quote_identifier, quote_literal
from ticdc_assets.store.writer import LakeWriter

# What distinguishes quarantined inputs.
_IDENTITY = ["batch", "seq", "index", "source", "number"]
# What tells whether a row of the quarantine is concerned.
_PLACE = ["stage", "batch", "seq", "source"]
# Two sets of quarantined inputs are equal if these aggregates are.
_FINGERPRINT = (
    "count(*) AS inputs",
    f"coalesce(bit_xor(xxhash64({', '.join(map(quote_identifier, _IDENTITY))})), 0) AS fingerprint",
)
# The columns of the quarantine that `events` has too, and the column of `events` for the reason.
_SAME = (
    *("batch", "seq", "index", "database", "table", "commit_ts"),
    *("source", "partition", "number", "error"),
)
_REASON = "statement"


def update_quarantine(
    lake: LakeSession, since: int, changed: Mapping[str, int], *, of_records: bool
) -> None:
    """Rewrite the quarantine of the batches after `since` if it differs from `events`.

    `changed` maps every path that was decoded again to the seq of its newest content: rows of its
    earlier contents are removed.
    """
    reader = LakeReader(lake.location)
    events, stored = reader.open("events"), reader.open("quarantine")
    raw = reader.open("raw") if of_records else None
    of_new = [table for table in (events, raw) if table is not None]
    if can_hold(reader, stored) and all(can_hold(reader, t, {"batch": since}) for t in of_new):
        _update_few(reader, events, stored, raw, since, changed)
    else:
        _update_many(lake, since, changed, of_records=of_records)


# Parameters: the tables, and what of them is concerned.
def _update_few(
    reader: LakeReader,
    events: DeltaTable,
    stored: DeltaTable,
    raw: DeltaTable | None,
    since: int,
    changed: Mapping[str, int],
) -> None:
    is_new = pc.field("batch") > since
    is_quarantined = is_new & (pc.field("kind") == "quarantined")
    found = reader.read(events, [*_SAME, _REASON], is_quarantined)
    columns = arrow_schema(QUARANTINE)
    present = reader.read(stored, columns.names)
    is_kept = pa.array(
        [_is_kept(row, since, changed) for row in present.select(_PLACE).to_pylist()], pa.bool_()
    )
    written = present.filter(pc.invert(is_kept))
    if _identify(found) == _identify(written):
        return
    values: dict[tuple[int, int], bytes] = {}
    if raw is not None:
        is_needed = is_new & pc.field("seq").isin(found["seq"].unique())
        for row in reader.read(raw, ["batch", "seq", "value"], is_needed).to_pylist():
            values[row["batch"], row["seq"]] = row["value"]
    places = zip(found["batch"].to_pylist(), found["seq"].to_pylist(), strict=True)
    new = found.rename_columns(
        ["reason" if name == _REASON else name for name in found.column_names]
    )
    new = new.append_column("stage", pa.array(["decode"] * len(new), pa.string()))
    new = new.append_column("raw", pa.array([values.get(place) for place in places], pa.binary()))
    rows = pa.concat_tables([present.filter(is_kept), new.select(columns.names)])
    LakeWriter(reader.location).rewrite(stored, rows)


def _is_kept(row: Mapping[str, Any], since: int, changed: Mapping[str, int]) -> bool:
    """Whether a row of the quarantine is of other input, or of another stage's."""
    newest = changed.get(row["source"])
    if row["stage"] == "decode":
        return row["batch"] <= since and newest is None
    return newest is None or row["seq"] >= newest


def _identify(rows: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in rows.select(_IDENTITY).to_pylist())


def _update_many(
    lake: LakeSession, since: int, changed: Mapping[str, int], *, of_records: bool
) -> None:
    events = lake.read("events").where(f"batch > {since} AND kind = 'quarantined'")
    rewritten = f"stage = 'decode' AND batch > {since}"
    for path, seq in changed.items():
        rewritten += f" OR source = {quote_literal(path)} AND (stage = 'decode' OR seq < {seq})"
    written = lake.read("quarantine").where(rewritten)
    if _fingerprint(events) == _fingerprint(written):
        return
    rows = events.select(*_SAME, F.col(_REASON).alias("reason"), F.lit("decode").alias("stage"))
    if of_records:
        raw = lake.read("raw").where(f"batch > {since}")
        rows = F.broadcast(rows).join(
            raw.selectExpr("batch", "seq", "value AS raw"), ["batch", "seq"]
        )
    else:
        rows = rows.withColumn("raw", F.lit(None).cast("binary"))
    rows = rows.coalesce(1)
    writer = rows.write.format("delta").mode("overwrite")
    writer.option("replaceWhere", rewritten).save(lake.path("quarantine"))


def _fingerprint(rows: DataFrame) -> tuple[int, int]:
    row = rows.selectExpr(*_FINGERPRINT).collect()[0]
    return row["inputs"], row["fingerprint"]
