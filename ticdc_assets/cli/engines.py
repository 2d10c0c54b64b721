"""Which engines and libraries read which features of Delta tables, and how that is known.

docs/readers.md has the same table, and a test compares both.  What was tested is what tests run
here; what is by documents says from which version on.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ticdc_assets.store.sql import (
    quote_identifier,
    quote_standard_name,
    quote_standard_text,
)

# The features that a table may have, by the protocol's names, and their names in the document.
FEATURES: Mapping[str, str] = {
    "plain": "plain",
    "timestampNtz": "`timestampNtz`",
    "deletionVectors": "deletion vectors",
    "columnMapping": "column mapping",
    "typeWidening": "type widening",
    # No feature of the protocol: files, and lists of deleted rows, lie in folders below the table.
    "address": "address",
}


class Reads(NamedTuple):
    """Whether a reader reads tables with a feature; None if that is unknown."""

    reads: bool | None = None
    # What the documents say, and of which version; None if it was tested here.
    documents: str | None = None

    def __str__(self) -> str:
        if self.reads is None:
            return "unknown"
        word = "yes" if self.reads else "no"
        return f"**{word}**" if self.documents is None else f"{word}, {self.documents}"


YES, NO, UNKNOWN = Reads(True), Reads(False), Reads()


def _says(documents: str, *, reads: bool = True) -> Reads:
    return Reads(reads, documents)


def _make_row(*cells: Reads) -> Mapping[str, Reads]:
    return dict(zip(FEATURES, cells, strict=True))


_TRINO = _says("472")
_FABRIC = _says("2026")
_SPECTRUM = _says("2026", reads=False)

# A row of the document for each reader, with the version that was tested.
READERS: Mapping[str, Mapping[str, Reads]] = {
    "Spark 4.1 with Delta 4.4": _make_row(YES, YES, YES, YES, YES, YES),
    "DuckDB 1.5": _make_row(YES, YES, YES, YES, YES, YES),
    "ClickHouse 26.9 (`chdb`)": _make_row(YES, YES, YES, YES, YES, YES),
    "delta-rs 1.6": _make_row(YES, YES, YES, YES, NO, YES),
    "pandas, through delta-rs": _make_row(YES, YES, YES, YES, NO, YES),
    "Polars 2.1": _make_row(YES, YES, YES, NO, NO, YES),
    "Daft 0.7": _make_row(YES, YES, NO, NO, YES, YES),
    "Trino": _make_row(_TRINO, _TRINO, _TRINO, _TRINO, _TRINO, UNKNOWN),
    "Athena": _make_row(
        _says("engine 3"), _says("engine 3"), UNKNOWN, _says("engine 3"), UNKNOWN, UNKNOWN
    ),
    "Databricks": _make_row(
        _says("10.4"), _says("13.3"), _says("12.2"), _says("10.4"), _says("15.2"), UNKNOWN
    ),
    "Snowflake": _make_row(
        _says("March 2026"), UNKNOWN, _says("March 2026"), UNKNOWN, UNKNOWN, UNKNOWN
    ),
    "BigQuery": _make_row(
        _says("2024"),
        _says("2026", reads=False),
        _says("2026"),
        _says("2026"),
        UNKNOWN,
        UNKNOWN,
    ),
    "StarRocks": _make_row(
        _says("2.5"),
        _says("3.3.1"),
        _says("3.4.1"),
        _says("3.3.6"),
        _says("4.0", reads=False),
        UNKNOWN,
    ),
    "Fabric (SQL analytics endpoint)": _make_row(
        _FABRIC, _says("2026", reads=False), _FABRIC, _FABRIC, _FABRIC, UNKNOWN
    ),
    "Redshift": _make_row(_SPECTRUM, _SPECTRUM, _SPECTRUM, _SPECTRUM, _SPECTRUM, UNKNOWN),
}


def _quote_bracket(name: str) -> str:
    return "[" + name.replace("]", "]]") + "]"


def _escape_backtick(name: str) -> str:
    """Quote a name for an engine that knows escapes in it."""
    return "`" + re.sub(r"([\\`])", r"\\\1", name) + "`"


def _escape_text(text: str) -> str:
    """Quote a text for an engine that knows escapes in it."""
    return "'" + re.sub(r"([\\'])", r"\\\1", text) + "'"


_S3, _GS, _ABFS = ("s3a", "s3"), ("gs", "gs"), ("abfss", "abfss")


@dataclass(frozen=True)
class Engine:
    """What an engine needs to read tables by name.

    Statements take `{schema}` and `{table}`, as quoted names; `{schema_text}`, `{table_text}`,
    `{uri}` and `{address}`, the folder below `current`, as quoted texts.  A comment per table takes
    the first two and `{uri}`, and notes take `{current}`, the URI of that folder.
    """

    # Its row of the document.
    reader: str
    quote: Callable[[str], str]
    # A statement per database and one per table; None where it takes none.
    schema: str | None
    table: str | None
    # What comes first: comments, for the owner to read and fill in.
    notes: tuple[str, ...] = ()
    # What comes after these, once.
    first: str | None = None
    text: Callable[[str], str] = quote_standard_text
    # The schemes of object stores, as the lake writes them and as the engine does.
    schemes: Mapping[str, str] = field(default_factory=lambda: dict([_S3, _GS, _ABFS]))
    # Whether it reads folders of a disk, and the statement per table if that is another.
    on_disk: bool = False
    disk_table: str | None = None
    # Whether its names are any texts, or those of a catalog: a-z, 0-9 and _.
    any_name: bool = False
    # A comment per table, for what takes no statement.
    comment: str | None = None
    # The characters in the path of a lake that it takes for something else.
    misread: str = ""


_REGISTER = "CREATE TABLE IF NOT EXISTS {schema}.{table} USING delta LOCATION {uri}"
_DATABASE = "CREATE DATABASE IF NOT EXISTS {schema}"
_SCHEMA = "CREATE SCHEMA IF NOT EXISTS {schema}"
_VIEW = "CREATE OR REPLACE VIEW {schema}.{table} AS SELECT * FROM"
_STORE = "Credentials are set in the engine, and are never part of these statements"

ENGINES: Mapping[str, Engine] = {
    "trino": Engine(
        "Trino",
        quote_standard_name,
        "CREATE SCHEMA IF NOT EXISTS delta.{schema}",
        "CALL delta.system.register_table(schema_name => {schema_text},"
        " table_name => {table_text}, table_location => {uri})",
        (
            "Replace delta by the name of your catalog with connector.name=delta_lake, which needs"
            " delta.register-table-procedure.enabled=true",
            "A table that is registered already gives an error, and stays as it is",
        ),
    ),
    "athena": Engine(
        "Athena",
        quote_identifier,
        _DATABASE,
        "CREATE EXTERNAL TABLE IF NOT EXISTS {schema}.{table} LOCATION {uri}"
        " TBLPROPERTIES ('table_type' = 'DELTA')",
        ("Athena runs one statement at a time, and its workgroup needs engine version 3",),
        text=_escape_text,
        schemes=dict([_S3]),
    ),
    "spark": Engine(
        "Spark 4.1 with Delta 4.4",
        quote_identifier,
        _SCHEMA,
        _REGISTER,
        ("The session needs Delta: delta-spark and its two settings", _STORE),
        text=_escape_text,
        schemes={"s3a": "s3a", "gs": "gs", "abfss": "abfss"},
        on_disk=True,
    ),
    "databricks": Engine(
        "Databricks",
        quote_identifier,
        _SCHEMA,
        _REGISTER,
        (
            "Choose the catalog with USE CATALOG first",
            "Unity Catalog needs an external location at or above {current}",
        ),
        text=_escape_text,
    ),
    "snowflake": Engine(
        "Snowflake",
        quote_standard_name,
        _SCHEMA,
        "CREATE ICEBERG TABLE IF NOT EXISTS {schema}.{table} EXTERNAL_VOLUME = ticdc_lake"
        " CATALOG = ticdc_delta BASE_LOCATION = {address} AUTO_REFRESH = TRUE",
        (
            "Create the external volume ticdc_lake first: read only, with STORAGE_BASE_URL ="
            " {current} and the role of your cloud",
            "Names are as upstream, and case counts: write them in double quotes",
        ),
        first="CREATE CATALOG INTEGRATION IF NOT EXISTS ticdc_delta CATALOG_SOURCE = OBJECT_STORE"
        " TABLE_FORMAT = DELTA ENABLED = TRUE",
        text=_escape_text,
        schemes={"s3a": "s3", "gs": "gcs", "abfss": "azure"},
        any_name=True,
    ),
    "clickhouse": Engine(
        "ClickHouse 26.9 (`chdb`)",
        _escape_backtick,
        _DATABASE,
        f"{_VIEW} deltaLake({{uri}})",
        (
            _STORE,
            "WARNING: a view keeps the columns and types that it was made with: after a DDL that"
            " changes a type, values that do not fit the old one are WRONG, without an error",
            "Run these statements again after each DDL, or with each advance",
            "ClickHouse has no NULL of an array or a map: one that is empty takes its place",
        ),
        text=_escape_text,
        schemes=dict([_S3, _GS]),
        on_disk=True,
        disk_table=f"{_VIEW} deltaLakeLocal({{uri}})",
        any_name=True,
        misread="*{}",
    ),
    "duckdb": Engine(
        "DuckDB 1.5",
        quote_standard_name,
        _SCHEMA,
        f"{_VIEW} delta_scan({{uri}})",
        ("The extension delta is loaded by itself, or with INSTALL delta and LOAD delta",),
        on_disk=True,
        any_name=True,
        misread="%",
    ),
    "starrocks": Engine(
        "StarRocks",
        _escape_backtick,
        None,
        None,
        (
            "StarRocks finds Delta tables in a Hive Metastore or in Glue only: enter them there"
            " with ticdc-assets sql --for spark, or --for athena",
            "Then make the catalog once: CREATE EXTERNAL CATALOG delta PROPERTIES (type ="
            " deltalake, hive.metastore.type = hive, hive.metastore.uris ="
            " thrift://HOST:9083), with each word in double quotes",
            "StarRocks reads no column of type MAP: select columns without _inexact",
        ),
        comment="Read it as delta.{schema}.{table}",
    ),
    "bigquery": Engine(
        "BigQuery",
        _escape_backtick,
        _SCHEMA,
        "CREATE OR REPLACE EXTERNAL TABLE {schema}.{table} WITH CONNECTION"
        " `PROJECT.REGION.CONNECTION` OPTIONS (format = 'DELTA_LAKE', uris = [{uri}])",
        (
            "Replace PROJECT.REGION.CONNECTION by a Cloud resource connection that may read the"
            " bucket",
        ),
        text=_escape_text,
        schemes=dict([_GS]),
    ),
    "redshift": Engine(
        "Redshift",
        quote_standard_name,
        None,
        None,
        (
            "Redshift Spectrum reads Delta tables through manifest files only, and this lake has"
            " none: no statement shows these tables",
            "Instead, write a snapshot with ticdc-assets snapshot --format parquet --into"
            " s3://BUCKET/FOLDER, and load each folder that tables.json there lists with COPY"
            " (FORMAT AS PARQUET)",
            "Or read them in Athena, or in Spark on EMR",
        ),
        schemes=dict([_S3]),
        comment="Not by a statement: {uri}",
    ),
    "fabric": Engine(
        "Fabric (SQL analytics endpoint)",
        _quote_bracket,
        None,
        None,
        (
            "The SQL analytics endpoint shows the tables of its lakehouse: make a OneLake shortcut"
            " below Tables for each, in the portal or with its API",
        ),
        comment="Shortcut: {uri} as {schema}.{table}",
    ),
}
