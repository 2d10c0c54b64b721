"""The golden datasets as changefeeds: how they are declared, and what cannot be had from them."""

from collections import Counter
from dataclasses import replace
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec

from tests.golden import find_folder, meta, open_lines, storage_tree
from tests.truth import Name, TrueTable, truth
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.events import Quarantined, TableSchema
from ticdc_assets.protocols.message import Message
from ticdc_assets.reference.replay import ModelReplay
from ticdc_assets.reference.row_lines import encode_rows
from ticdc_assets.resources.dump import read_dump
from ticdc_assets.resources.storage import open_claim_check_folder
from ticdc_assets.schema.types.mysql_type import parse_type
from ticdc_assets.stream.reading import read_folder_events, read_topic_events

# That of the sessions which ran the recorded workloads.
DDL_TIME_ZONE = ZoneInfo("UTC")
# What cannot be had from the data, by its nature: which datasets, what is allowed to differ, why.
END_STATE_ONLY = "only the last truth point can be compared"
ROWS_REPORTED = "rows reported as incomplete are absent"
PAUSED_REPORTED = "tables reported as paused differ"
APPROXIMATE_REPORTED = "values are reported as approximate"
QUARANTINED_REPORTED = "rows are reported as quarantined"
DROPPED_REMAIN = "tables of dropped databases remain"
EARLIER_ROWS = "rows committed before the start are absent"
PARTITIONED_DIFFER = "partitioned tables differ"
UNUSABLE = "not replayed"
BY_NATURE = [
    ("*canal-json", END_STATE_ONLY, "milliseconds only, no watermarks"),
    ("*/canal-json-content-compatible", END_STATE_ONLY, "the same"),
    ("*storage-csv-default", END_STATE_ONLY, "rows have no commit ts"),
    ("*/storage-canal-json-day", END_STATE_ONLY, "rows have milliseconds only"),
    ("*/storage-canal-json-no-ext", END_STATE_ONLY, "the same"),
    ("*/*-handle-key-only", ROWS_REPORTED, "large rows are in the stream by their key only"),
    ("*/*-bootstrap-*", EARLIER_ROWS, "the changefeed starts in the middle"),
    (
        "lifecycle/*-bootstrap-*",
        PAUSED_REPORTED,
        "partitions defined before the start are dropped and exchanged: nothing defines them",
    ),
    (
        "*/storage-csv-raw-change",
        PAUSED_REPORTED,
        "an update that changes a key, without old values: the old key is not in the stream",
    ),
    (
        "types/storage-csv-force-replicate",
        PAUSED_REPORTED,
        "an update in a table without a key, without old values",
    ),
    (
        "*/*-table-id-path",
        DROPPED_REMAIN,
        "the server writes no database-level DDL in this layout",
    ),
    (
        "lifecycle/simple-avro*",
        QUARANTINED_REPORTED,
        "a server bug: values of a copied table are under wrong names until it is truncated",
    ),
    (
        "random_1/storage-canal-json-day",
        PARTITIONED_DIFFER,
        "without partition directories the classic server overwrote files of other partitions",
    ),
    (
        "v*_*/*",
        APPROXIMATE_REPORTED,
        "columns added with CURRENT_TIMESTAMP as default; an hour repeated by the server's zone",
    ),
    ("random_1/simple-json-unpatched", UNUSABLE, "a server bug: values under wrong names"),
]


def allowed(dataset: str) -> set[str]:
    return {rule for pattern, rule, _ in BY_NATURE if matches(dataset, pattern)}


def matches(dataset: str, pattern: str) -> bool:
    """`*canal-json` is the plain protocol of either generation, in a topic."""
    if pattern == "*canal-json":
        return dataset.split("/")[1] in ("canal-json", "newarch-canal-json")
    return fnmatch(dataset, pattern)


def feed_of(dataset: str) -> Changefeed:
    """The changefeed of a dataset as its owner would declare it."""
    about = meta(dataset)
    _, _, parameters = about["sink-uri"].partition("?")
    folder = find_folder(dataset)
    if "files" in about:
        uri = f"file:///data?{parameters}"
    else:
        zipped = (folder / "records.jsonl.gz").exists()
        uri = f"dump://{folder}/records.jsonl{'.gz' * zipped}?{parameters}"
    claims = folder / "claim-check"
    feed = changefeed_from_uri(
        uri,
        config=folder / "changefeed.toml",
        tz=about["timezone"],
        claim_check_storage=str(claims) if claims.exists() else None,
    )
    return replace(feed, ddl_time_zone=DDL_TIME_ZONE)


def replayed(dataset: str, declared: Changefeed | None = None) -> ModelReplay:
    """All events of a dataset, taken in."""
    feed = declared or feed_of(dataset)
    replay = ModelReplay(feed)
    if feed.transport == "storage":
        tree = storage_tree(dataset)
        replay.add(read_folder_events(feed, tree, tree.__getitem__))
    else:
        replay.add(read_topic_events(feed, messages(feed), open_claim_check_folder(feed)))
    return replay


def messages(feed: Changefeed) -> list[Message]:
    records = list(read_dump(Path(feed.location)))
    assert not [record for record in records if isinstance(record, Quarantined)]
    return records  # type: ignore[return-value]


def replicated(dataset: str, tables: dict[Name, TrueTable]) -> dict[Name, TrueTable]:
    """The tables of a truth point that this dataset replicates."""
    filtered = meta(dataset).get("filtered_out", [])
    return {
        name: table
        for name, table in tables.items()
        if (table.has_key or "force-replicate" in dataset) and ".".join(name) not in filtered
    }


def list_untold(dataset: str) -> set[Name]:
    """List the tables that a dataset sends, but of whose rows the data do not tell everything."""
    names = (name.split(".", 1) for name in meta(dataset).get("not_in_stream", []))
    return {(database, table) for database, table in names}


def difference(
    ours: Counter[tuple[object, ...]], theirs: Counter[tuple[object, ...]]
) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """Rows that only one side has, a few of each."""
    return list((ours - theirs).elements())[:3], list((theirs - ours).elements())[:3]


def schema_difference(ours: TableSchema, true: TrueTable, *, from_start: bool) -> list[str]:
    """What of a table's columns and keys is not as TiDB states it; unknown facts do not count."""
    names = tuple(c.name for c in ours.columns if c.generated != "virtual")
    expected = true.names
    if not from_start:
        # A bootstrap does not mark virtual columns, and the classic server sorts it by column id.
        names = tuple(sorted(set(names) - set(true.virtual)))
        expected = tuple(sorted(expected))
    wrong = [] if names == expected else [f"columns {names}, not {expected}"]
    for column in true.columns:
        known = ours.column(column["name"])
        if known is None:
            continue
        theirs = parse_type(column["mysql_type"])
        for fact in ("name", "unsigned", "length", "decimals", "elements"):
            one, other = getattr(known.type, fact), getattr(theirs, fact)
            if one is not None and other is not None and one != other:
                wrong.append(f"{column['name']}: {fact} {one!r}, not {other!r}")
        # Rows alone state no NOT NULL.
        is_unknown = ours.origin == "inferred" and known.nullable
        if known.nullable != column["nullable"] and not is_unknown:
            wrong.append(f"{column['name']}: nullable {known.nullable}")
    primary = next((i.columns for i in ours.indexes if i.primary), ())
    if true.primary_key and primary != true.primary_key:
        wrong.append(f"primary key {primary}, not {true.primary_key}")
    return wrong


def in_dropped_databases(workload: str) -> set[Name]:
    """Tables that stood in a database which the workload drops."""
    history = list(open_lines(find_folder(workload) / "ddl_history.jsonl"))
    dropped = {ddl["schema"] for ddl in history if ddl["type"] == "drop schema"}
    points = truth(workload).values()
    created = {(ddl["schema"], ddl["table"]) for ddl in history}
    return {name for name in created.union(*points) if name[0] in dropped}


def keys(true: TrueTable, rows: Counter[tuple[object, ...]]) -> set[tuple[object, ...]]:
    key = true.primary_key or min(true.unique_keys, key=len)
    places = [true.names.index(name) for name in key]
    return {tuple(row[i] for i in places) for row in rows}


def keys_before_the_start(dataset: str, true: TrueTable) -> set[tuple[object, ...]]:
    """Keys of a table's rows at the start of a changefeed, from the dataset that has them all."""
    rows = rows_before(f"{dataset.split('/')[0]}/simple-json", meta(dataset)["changefeed_start_ts"])
    return keys(true, true.strict(rows.get(true.name, [])))


@cache
def rows_before(dataset: str, ts: int) -> dict[Name, list[dict[str, str | None]]]:
    whole = replayed(dataset)
    whole.advance(ts)
    return {
        (table.schema.database, table.schema.table): [
            msgspec.json.decode(line) for line in encode_rows(table)
        ]
        for table in whole.model.tables
    }
