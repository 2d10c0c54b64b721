"""The load job of a changefeed: tables of an export, or of upstream, begin with the next run.

It writes Delta tables that nothing reads yet, so it takes no lock and runs beside advances.
"""

from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from pydantic import Field

from ticdc_assets.assets.advance import get_resources, resource_keys
from ticdc_assets.changefeed import Changefeed
from ticdc_assets.dumpling.dialect import Dialect, find_zone
from ticdc_assets.errors import ConfigError, MalformedMessage
from ticdc_assets.events.tso_text import parse_tso
from ticdc_assets.load.load import LoadProgress, TableResult, load_tables, require_loadable
from ticdc_assets.load.source import LoadSource
from ticdc_assets.naming import FeedNames
from ticdc_assets.resources.deployment import lost_server_errors
from ticdc_assets.resources.load_source import open_database, open_export
from ticdc_assets.resources.upstream import find_upstream
from ticdc_assets.safe_text import quote_given, redacted_errors

# The UI shows at most this many tables; those that need somebody come first.
_MAX_TABLES = 200
_FIRST = ("failed", "left out", "loaded", "already loaded")


class Loading(dg.Config):
    """What to load, and the tables: by default all.

    Either the folder or URI of an export: `time_zone` is the one in which Dumpling read TIMESTAMPs,
    and an export in another dialect than Dumpling's default is loaded by the command `ticdc-assets
    load`.  Or the database that the changefeed declares, as of `at`: a TSO or a time as commands
    take it, by default the newest.
    """

    directory: str | None = None
    time_zone: str | None = None
    from_upstream: bool = False
    # Dagster has no type for a number or a text.
    at: Any = None
    max_connections: int = 4
    rows_per_second: int | None = None
    tables: list[str] = Field(default_factory=list)


def load_job(names: FeedNames) -> dg.JobDefinition:
    """Define the job that starts tables of a changefeed from an export."""
    feed, name = names.feed, names.identifier

    @dg.op(name=f"start_{name}_tables", required_resource_keys=resource_keys(names.scope))
    def _op(context: dg.OpExecutionContext, config: Loading) -> None:
        spark, location = get_resources(context, names)
        with redacted_errors(), lost_server_errors(), _open_source(feed, config) as source:
            # Before a session starts.
            source.choose_tables(config.tables)
            source.read_ts()
            opened = spark.open_lake(location, feed)
            for note in source.notes:
                context.log.warning(note)
            results = load_tables(opened, source, config.tables, _Progress(context).show)
        metadata: dict[str, Any] = {
            "ticdc/tables": len(results),
            "ticdc/rows": sum(result.rows for result in results),
            "ticdc/rows_quarantined": sum(result.quarantined for result in results),
            "ticdc/results": _make_table(results),
        }
        failed = [f"{r.name}: {r.reason}" for r in results if r.outcome == "failed"]
        if failed:
            listed = "\n".join(failed[:_MAX_TABLES])
            text = f"{len(failed)} of {len(results)} tables were not loaded:\n{listed}"
            raise dg.Failure(text, metadata)
        context.add_output_metadata(metadata)

    @dg.job(
        name=f"load_{name}",
        description=f"Start tables of changefeed {feed.id} with rows of an export or of upstream.",
        # Without the tag of the changefeed, on which its other runs wait for each other.
        tags={"ticdc/loads": names.tag},
        executor_def=dg.in_process_executor,
    )
    def _job() -> None:
        _op()

    return _job


def _open_source(feed: Changefeed, config: Loading) -> AbstractContextManager[LoadSource]:
    require_loadable(feed)
    if config.from_upstream == (config.directory is not None):
        reason = "names an export: set it, or from_upstream = true"
        raise ConfigError(reason, setting="directory")
    if config.directory is not None:
        dialect = Dialect(time_zone=_find_zone(config.time_zone))
        return nullcontext(open_export(config.directory, dialect))
    database = find_upstream(
        feed, max_connections=config.max_connections, rows_per_second=config.rows_per_second
    )
    return open_database(database, feed, _read_at(config.at), config.tables)


def _read_at(stated: object) -> int | None:
    if stated is None:
        return None
    try:
        return parse_tso(str(stated), datetime.now(UTC))
    except ValueError as error:
        raise ConfigError(f"{quote_given(str(stated))} {error}", setting="at") from None


def _find_zone(name: str | None) -> str | None:
    try:
        return None if name is None else find_zone(name)
    except MalformedMessage as error:
        raise ConfigError(error.reason, setting="time_zone") from None


class _Progress:
    """Logs how far a load is, once per table."""

    def __init__(self, context: dg.OpExecutionContext) -> None:
        self._context = context
        self._tables = 0

    def show(self, done: LoadProgress) -> None:
        if done.tables > self._tables:
            self._tables = done.tables
            rows = f"{done.rows:,} rows"
            self._context.log.info(f"{done.tables} of {done.all_tables} tables, {rows}")


def _make_table(results: list[TableResult]) -> dg.TableMetadataValue:
    ordered = sorted(results, key=lambda result: (_FIRST.index(result.outcome), result.name))
    return dg.MetadataValue.table(
        [
            dg.TableRecord(
                {
                    "table": result.name,
                    "result": result.outcome,
                    "rows": result.rows,
                    "quarantined": result.quarantined,
                    "reason": result.reason or "",
                }
            )
            for result in ordered[:_MAX_TABLES]
        ]
    )
