"""Keep the quarantine of decode equal to the quarantined events: rewrite it when the two differ.

When a file's content changes, the rows that apply quarantined of its old content are removed too.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.sql import quote_literal

# Two sets of quarantined inputs are equal if these aggregates are.
_FINGERPRINT = (
    "count(*) AS inputs",
    "coalesce(bit_xor(xxhash64(batch, seq, `index`, source, number)), 0) AS fingerprint",
)


def update_quarantine(
    lake: LakeSession, since: int, changed: Mapping[str, int], *, of_records: bool
) -> None:
    """Rewrite the quarantine of the batches after `since` if it differs from `events`.

    `changed` maps every path that was decoded again to the seq of its newest content: rows of its
    earlier contents are removed.
    """
    events = lake.read("events").where(f"batch > {since} AND kind = 'quarantined'")
    rewritten = f"stage = 'decode' AND batch > {since}"
    for path, seq in changed.items():
        rewritten += f" OR source = {quote_literal(path)} AND (stage = 'decode' OR seq < {seq})"
    written = lake.read("quarantine").where(rewritten)
    if _fingerprint(events) == _fingerprint(written):
        return
    rows = events.selectExpr(
        *("batch", "seq", "`index`", "'decode' AS stage", "database", "table", "commit_ts"),
        *("source", "partition", "number", "error", "statement AS reason"),
    )
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
