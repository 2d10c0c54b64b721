"""Creating the lake's Delta tables by their contracts."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from ticdc_assets.lake.store.contracts import CONTRACTS, LAYOUT, RAW_FILES, RAW_RECORDS, STATISTICS
from ticdc_assets.lake.store.lake import LakeSession
from ticdc_assets.lake.store.sql import delta_table, quote_identifier


def has_tables(lake: LakeSession) -> bool:
    """Return whether all of the lake's own tables exist: `create_tables` creates `applied` last."""
    try:
        lake.read("applied").schema  # noqa: B018
    except AnalysisException:
        return False
    return True


def create_tables(lake: LakeSession) -> None:
    """Create the lake's own tables that do not exist yet."""
    if has_tables(lake):
        return
    raw = RAW_FILES if lake.feed.transport == "storage" else RAW_RECORDS
    contracts = {"raw": raw, **CONTRACTS}

    def create(name: str) -> None:
        properties = {"delta.checkpointInterval": "20"}
        if name in STATISTICS:
            properties["delta.dataSkippingStatsColumns"] = ",".join(STATISTICS[name])
        layout = LAYOUT.get(name, ())
        create_table(lake.spark, lake.path(name), contracts[name], layout, properties)

    # `applied` comes last: once it exists, all tables do.
    *others, last = contracts
    with ThreadPoolExecutor() as pool:
        list(pool.map(create, others))
    create(last)


def create_table(
    spark: SparkSession,
    path: str,
    columns: str,
    layout: Sequence[str],
    properties: Mapping[str, str],
) -> None:
    """Create a Delta table at a path, clustered by `layout`, unless one exists there."""
    clustered = f"CLUSTER BY ({', '.join(map(quote_identifier, layout))})" if layout else ""
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    table = delta_table(path)
    # Delta finds the clause by counting characters and replaces it by counting UTF-16 units: behind
    # a character of two units it would take other text for the clause.
    at_once = max(table + columns) <= "\uffff"
    try:
        spark.sql(
            f"CREATE TABLE {table} ({columns}) USING delta {clustered if at_once else ''} "
            f"TBLPROPERTIES ({listed})"
        )
    except AnalysisException as error:
        if error.getCondition() != "TABLE_OR_VIEW_ALREADY_EXISTS":
            raise
        # Either the table exists, or a run was killed before its first commit and left an empty
        # `_delta_log`.  SQL takes that for a table; a DataFrame write creates one there.
        empty = spark.createDataFrame([], columns)
        empty.write.format("delta").mode("ignore").options(**properties).save(path)
        at_once = False
    if clustered and not at_once:
        spark.sql(f"ALTER TABLE {table} {clustered}")
