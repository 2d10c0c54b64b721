"""`metrics`: how far changefeeds have got, and what their lakes hold, for Prometheus."""

import argparse
import os
import threading
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.cli.metric_families import Families, add_changefeed
from ticdc_assets.cli.metrics_options import DEFAULT_LISTEN
from ticdc_assets.cli.output import say, warn
from ticdc_assets.cli.patience import PATIENCE, end_command
from ticdc_assets.cli.source import find_changefeeds
from ticdc_assets.cli.status import read_status
from ticdc_assets.errors import ConfigError
from ticdc_assets.resources.lake import get_lake_root
from ticdc_assets.resources.max_lag import read_max_lag
from ticdc_assets.resources.patience import PatientCaller
from ticdc_assets.safe_text import describe_error
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views.lake_sizes import LakeMeasurer, LakeSizes

# What a server waits for each of the four things that it reads, in seconds: a scrape that takes
# longer than its timeout shows nothing.
_SERVER_PATIENCE = 5.0
# How long what was read is served again.
_CACHE_SECONDS = 10.0
# Of the time to wait, what measuring tables may take.
_MEASURING = 0.6


def metrics(options: argparse.Namespace) -> int:
    """Serve metrics until the process is interrupted, or write them to a file once."""
    feeds = find_changefeeds(options)
    registry = CollectorRegistry()
    if options.textfile is None:
        registry.register(LakeCollector(options, feeds, PatientCaller(_SERVER_PATIENCE)))
        return _serve(registry, options.listen or DEFAULT_LISTEN)
    caller = PatientCaller(PATIENCE)
    registry.register(LakeCollector(options, feeds, caller))
    _write(registry, options.textfile)
    return end_command(caller, 0)


def _serve(registry: CollectorRegistry, address: tuple[str, int]) -> int:
    host, port = address
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        reason = f"cannot listen on {host}:{port}: {error.strerror or type(error).__name__}"
        raise ConfigError(reason, setting="--listen") from None
    shown = f"[{host}]" if ":" in host else host
    say(f"serving http://{shown}:{server.server_port}/metrics")
    try:
        thread.join()
    except KeyboardInterrupt:
        # Threads that still wait for a source do not keep the process.
        os._exit(130)
    return 0


def _write(registry: CollectorRegistry, file: Path) -> None:
    try:
        write_to_textfile(str(file), registry)
    except OSError as error:
        reason = f"cannot be written: {error.strerror or type(error).__name__}"
        raise ConfigError(reason, file=str(file), setting="--textfile") from None


class LakeCollector(Collector):
    """Reads the metrics of changefeeds, once for all scrapes that come within some seconds."""

    def __init__(
        self, options: argparse.Namespace, feeds: Sequence[Changefeed], caller: PatientCaller
    ) -> None:
        self._options = options
        self._feeds = feeds
        self._caller = caller
        self._root = get_lake_root(options.lake)
        # Measurers know what they measured before.
        self._measurers: dict[str, LakeMeasurer] = {}
        self._lock = threading.Lock()
        self._found: tuple[float, list[Metric]] | None = None

    def collect(self) -> Iterable[Metric]:
        """Return the metric families; no error is raised, for a scrape that fails shows nothing."""
        with self._lock:
            if self._found is None or time.monotonic() - self._found[0] >= _CACHE_SECONDS:
                found = self._read()
                self._found = time.monotonic(), found
            return self._found[1]

    def _read(self) -> list[Metric]:
        since = time.monotonic()
        families = Families()
        try:
            self._add_changefeeds(families)
            is_up = 1.0
        except Exception as error:
            warn(f"ticdc-assets: metrics: {type(error).__name__}: {describe_error(error)}")
            families, is_up = Families(), 0.0
        families.add("ticdc_up", is_up, "", "metrics")
        families.add("ticdc_collect_timestamp_seconds", time.time())
        families.add("ticdc_collect_seconds", time.monotonic() - since)
        return list(families)

    def _add_changefeeds(self, families: Families) -> None:
        try:
            # Declarations change while a server runs.
            self._feeds = find_changefeeds(self._options)
            is_up = 1.0
        except ConfigError as error:
            warn(f"ticdc-assets: metrics: {error}")
            is_up = 0.0
        families.add("ticdc_up", is_up, "", "declarations")
        found = read_status(self._feeds, self._root, self._caller, read_max_lag())
        sizes = self._measure()
        for status in found:
            add_changefeed(families, status, sizes.get(status.record.changefeed))

    def _measure(self) -> dict[str, LakeSizes]:
        for feed in self._feeds:
            if feed.id not in self._measurers:
                reader = LakeReader(Lake(self._root, feed.id))
                self._measurers[feed.id] = LakeMeasurer(reader)
        seconds = self._caller.seconds * _MEASURING
        calls = {
            ("sizes", feed.id): partial(self._measurers[feed.id].measure, seconds)
            for feed in self._feeds
        }
        answers = self._caller.call_all(calls)
        return {id: found for (_, id), found in answers.items() if isinstance(found, LakeSizes)}
