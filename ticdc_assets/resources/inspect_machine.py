"""Inspect what all changefeeds share: settings, the lake's folder, Java, jars, Spark."""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from secrets import token_hex

from deltalake.exceptions import DeltaError

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.resources.dagster_settings import read_owners, read_poll_interval, read_webhook
from ticdc_assets.resources.finding import Finding, blame, note
from ticdc_assets.resources.java import find_java
from ticdc_assets.resources.lake import LAKE
from ticdc_assets.resources.max_lag import read_max_lag
from ticdc_assets.resources.previews import read_preview_rows
from ticdc_assets.resources.spark_settings import (
    MASTER,
    choose_jars,
    reach_server,
    read_memory,
    require_master,
)
from ticdc_assets.safe_text import describe_error, remember_secrets_in
from ticdc_assets.store.contracts import CONTRACTS, LATER_CONTRACTS
from ticdc_assets.store.json_files import write_json_file
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import open_folder
from ticdc_assets.views.status import read_lake_state

_CORRECT = "correct it, or remove it"
_WRITABLE = f"let this user write there, or name another place by {LAKE} or --lake"
_REPAIR = "repair it, or delete the changefeed's folder in the lake: `advance` then rebuilds it"
_PAGE = 4096


def inspect_settings(feeds: Sequence[Changefeed]) -> list[Finding]:
    """Read the settings of the environment, those that only Dagster needs as well."""
    readers: tuple[Callable[[], object], ...] = (
        read_max_lag,
        read_preview_rows,
        read_memory,
        partial(require_master, _get_master()),
        read_owners,
        read_webhook,
        *(partial(read_poll_interval, feed) for feed in feeds),
    )
    errors: dict[str, ConfigError] = {}
    for read in readers:
        try:
            read()
        except ConfigError as error:
            # Changefeeds share some.
            errors.setdefault(str(error), error)
    return [blame("failure", "settings", error, _CORRECT) for error in errors.values()]


def inspect_java() -> list[Finding]:
    """Find the Java that Spark runs on, unless a server has its own."""
    if _get_master().startswith("sc:"):
        message = f"none is needed here: {MASTER} names a Spark Connect server"
        return [note("java", message)]
    try:
        return [note("java", str(find_java()))]
    except ConfigError as error:
        return [blame("failure", "java", error)]


def inspect_jars(root: str) -> list[Finding]:
    """Compare the jars that a session needs for a lake with the lock file."""
    master = _get_master()
    if master.startswith("sc:"):
        message = f"none are needed here: {MASTER} names a Spark Connect server"
        return [note("jars", message)]
    try:
        choose_jars(master, root)
    except ConfigError as error:
        return [blame("failure", "jars", error)]
    return [note("jars", "all are there, as the lock file lists them")]


def inspect_spark() -> list[Finding]:
    """Connect to the Spark Connect server, where one is named."""
    master = _get_master()
    if not master.startswith("sc:"):
        return []
    remember_secrets_in(master)
    server = master.partition("/;")[0]
    try:
        require_master(master)
        reach_server(master)
    except ConfigError:
        # `inspect_settings` says so.
        return []
    except (OSError, ValueError) as error:
        silent = ConfigError(f"{server}: {describe_error(error)}", setting=MASTER)
        return [blame("failure", "spark", silent, "start the server, or correct its address")]
    return [note("spark", f"{server} listens")]


def _get_master() -> str:
    return os.environ.get(MASTER) or "local[*]"


def inspect_root(root: str) -> list[Finding]:
    """Write into the folder of the lake, and leave nothing there."""
    try:
        if "://" in root:
            _write_to_store(root)
        else:
            place = Path(root)
            _write_to_disk(next(p for p in (place, *place.parents) if os.path.lexists(p)))
    except ConfigError as error:
        return [blame("failure", "lake", error, _WRITABLE)]
    return [note("lake", f"{root} can be written")]


def inspect_lake(root: str, changefeed: str) -> list[Finding]:
    """Read a changefeed's part of the lake, and write into its folders on disk."""
    lake = Lake(root, changefeed)
    state = read_lake_state(lake)
    if state.reason is not None:
        return [blame("failure", "lake", ConfigError(state.reason), _REPAIR, changefeed)]
    try:
        for folder in [] if "://" in root else _list_folders(lake):
            _write_to_disk(folder)
    except ConfigError as error:
        return [blame("failure", "lake", error, _WRITABLE, changefeed)]
    has = f"{state.tables:,} tables" if state.resolved_ts else "nothing yet"
    return [note("lake", f"{lake.path('').rstrip('/')} has {has}", changefeed)]


def _list_folders(lake: Lake) -> Iterator[Path]:
    """Yield the folders of a changefeed that every run writes to."""
    logs = (Path(lake.path(table), "_delta_log") for table in ("raw", *CONTRACTS, *LATER_CONTRACTS))
    yield from (folder for folder in (Path(lake.path("")), *logs) if folder.is_dir())


def _write_to_disk(folder: Path) -> None:
    """Write a page into a file without a name.

    Where the file system has no such files, its name is gone before anything is written.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_PAGE))
            file.flush()
    except OSError as error:
        reason = f"cannot be written: {error.strerror or type(error).__name__}"
        raise ConfigError(reason, file=str(folder)) from None


def _write_to_store(root: str) -> None:
    """Write a small object, and delete it."""
    name = f"ticdc-assets-check-{token_hex(8)}.json"
    path = f"{root.rstrip('/')}/{name}"
    try:
        folder = open_folder(root)
        # If no store answers, this waits, and other threads of the process go on meanwhile: not so
        # while delta-rs writes.
        folder.get_file_info(name)
        write_json_file(folder, name, {})
    except (OSError, DeltaError) as error:
        reason = f"cannot be written: {describe_error(error)}"
        raise ConfigError(reason, file=path) from None
    try:
        folder.delete_file(name)
    except (OSError, DeltaError) as error:
        reason = f"was written, and cannot be deleted: {describe_error(error)}"
        raise ConfigError(reason, file=path) from None
