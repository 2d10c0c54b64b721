"""What decode refused, in the quarantine: made again from `events` whenever the two differ.

What apply refused of a file goes with its contents, when it has other ones.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.sql import quote_literal

# Two sets of refusals are the same if these are.
_FINGERPRINT = (
    "count(*) AS refused",
    "coalesce(bit_xor(xxhash64(batch, seq, `index`, source, number)), 0) AS fingerprint",
)


def keep_quarantine(
    lake: LakeSession, since: int, changed: Mapping[str, int], *, of_records: bool
) -> None:
    """Let the quarantine hold all refusals of the batches after `since`.

    `changed` are paths that were decoded again since, and the seq of their newest contents: earlier
    refusals of them no longer count.
    """
    events = lake.read("events").where(f"batch > {since} AND kind = 'quarantined'")
    made_again = f"stage = 'decode' AND batch > {since}"
    for path, seq in changed.items():
        made_again += f" OR source = {quote_literal(path)} AND (stage = 'decode' OR seq < {seq})"
    written = lake.read("quarantine").where(made_again)
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
    writer.option("replaceWhere", made_again).save(lake.path("quarantine"))


def _fingerprint(rows: DataFrame) -> tuple[int, int]:
    row = rows.selectExpr(*_FINGERPRINT).collect()[0]
    return row["refused"], row["fingerprint"]
