"""What a load reads: tables with their schemas and rows, of an export or of a database."""

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from ticdc_assets.errors import ConfigError
from ticdc_assets.events import TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.events.tso import CLOCK_ERROR, to_datetime
from ticdc_assets.events.tso_text import MAX_TSO, describe_unix_time, format_time
from ticdc_assets.load.loaded_files import Reading
from ticdc_assets.schema.catalog import SchemaCatalog
from ticdc_assets.stream.table_names import suggest


class Portion(Protocol):
    """Rows that are read together: progress shows behind each."""

    @property
    def size(self) -> int:
        """About how many bytes its rows have as text."""

    @property
    def readings(self) -> Sequence[Reading]:
        """What reads its rows, each in any process."""

    @property
    def is_here(self) -> bool:
        """Whether this process has the rows already."""


class TableSource(Protocol):
    """A table to load; all errors but those of storage, Spark and settings are about it alone."""

    @property
    def database(self) -> str: ...

    @property
    def table(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int:
        """About how many bytes its portions have."""

    @property
    def origin(self) -> str:
        """Where it is, for people: without credentials."""

    def read_schema(self, catalog: SchemaCatalog) -> TableSchema:
        """Read its schema with an empty catalog."""

    def check(self, schema: TableSchema) -> None:
        """Raise `MalformedMessage` if its rows cannot be read."""

    def read_portions(self, schema: TableSchema) -> Generator[Portion]:
        """Yield all rows."""


_Table = TypeVar("_Table", bound=TableSource)


def choose_named(
    tables: Sequence[_Table],
    names: Sequence[str],
    skipped: Iterable[tuple[str, str]],
    explain: Callable[[str], str],
) -> list[_Table]:
    """Return the tables of these names, each once; raise a `ConfigError` unless one has each.

    `skipped` says of what is no table why it is not loaded.
    """
    by_name: dict[str, list[_Table]] = defaultdict(list)
    for table in tables:
        by_name[fold_name(table.name)].append(table)
    chosen = {}
    for name in names:
        found = by_name.get(fold_name(name), [])
        if not found:
            reasons = {fold_name(other): reason for other, reason in skipped}
            if fold_name(name) in reasons:
                raise ConfigError(f"{name} is {reasons[fold_name(name)]}", setting="--table")
            hint = suggest(name, [table.name for table in tables])
            raise ConfigError(explain(name) + hint, setting="--table")
        if len(found) > 1:
            spelled = " or ".join(sorted(f"`{t.database}`.`{t.table}`" for t in found))
            raise ConfigError(f"{name} may be {spelled}: omit --table", setting="--table")
        chosen[found[0].name] = found[0]
    return list(chosen.values())


def check_ts(ts: int, *, setting: str, file: str | None = None) -> int:
    """Return the ts that somebody states for rows; raise a `ConfigError` for one to come.

    Once events reach it, the table would begin anew with rows that are older than these events.
    """
    if reason := describe_unix_time(ts):
        raise ConfigError(reason, file=file, setting=setting)
    now = datetime.now(UTC)
    if to_datetime(min(ts, MAX_TSO)) > now + CLOCK_ERROR:
        reason = (
            f"{ts} is to come, at {format_time(min(ts, MAX_TSO))}: the clock of this machine shows"
            f" {now:%Y-%m-%d %H:%M:%S} UTC"
        )
        raise ConfigError(reason, file=file, setting=setting)
    return ts


class LoadSource(Protocol):
    """An export, or a database."""

    @property
    def origin(self) -> str: ...

    @property
    def skipped(self) -> Sequence[tuple[str, str]]:
        """Files and objects that are not loaded, and why."""

    @property
    def notes(self) -> Sequence[str]:
        """What else a person has to know of the source."""

    @property
    def takes_newest(self) -> bool:
        """Whether a load takes the newest ts; then one that no run took up yet is not repeated."""

    def read_ts(self) -> int:
        """Return the ts of the rows; raise a `ConfigError` if there is none."""

    def choose_tables(self, names: Sequence[str]) -> Sequence[TableSource]:
        """Return the tables of these names, or all; raise a `ConfigError` for an unknown one."""
