"""Verify tonight's share of the tables, at a stated cost for the database.

TiDB keeps the rows of a ts only for some time, so a night does not stay at the ts at which it
began: after some minutes it goes on at that of the newest snapshot.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from ticdc_assets.changefeed import Changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.log.applied_files import read_existing_snapshot
from ticdc_assets.log.proofs import Proofs, read_proofs
from ticdc_assets.log.snapshot import Snapshot
from ticdc_assets.log.verifications import Results, TableVerification
from ticdc_assets.store.delta_log import count_rows
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.upstream.snapshot import UpstreamSnapshot
from ticdc_assets.verify.share import Candidate, choose_share
from ticdc_assets.verify.verify import Environment, Show, verify

_SECONDS_AT_ONE_TS = 300.0


class Night:
    """One night's share: what is verified, what is left, and what that cost the database."""

    def __init__(self, environment: Environment, show: Show, now: datetime | None = None) -> None:
        self._environment = replace(environment, open_upstream=self._open)
        self._open_upstream = environment.open_upstream
        self._show = show
        days, self._minutes = read_rhythm(environment.feed)
        reader = environment.reader
        snapshot = read_existing_snapshot(reader)
        candidates = list_candidates(reader, snapshot, read_proofs(reader))
        self._left = choose_share(candidates, days, now or datetime.now(UTC))
        self._snapshot = snapshot
        self.rows_read = 0
        self.rows_sent = 0
        self.statements = 0
        self.bytes_received = 0

    @property
    def left(self) -> list[str]:
        """The names of the tables that are left to verify."""
        return [name for _, name in self._name_left()]

    def _name_left(self) -> list[tuple[str, str]]:
        """List what is left under its present names; what was dropped meanwhile is not."""
        tables = self._snapshot.state.incarnations
        named = {id for _, id in self._snapshot.state.names}
        schemas = [(id, tables[id].schema) for id in self._left if id in named]
        return [(id, f"{schema.database}.{schema.table}") for id, schema in schemas]

    def verify(self) -> Iterator[TableVerification]:
        """Verify tables until the share is done, or the minutes are over, and yield the results."""
        limit = float("inf") if self._minutes is None else 60.0 * self._minutes
        until = time.monotonic() + limit
        while self._left and time.monotonic() < until:
            self._snapshot = read_existing_snapshot(self._environment.reader)
            named = self._name_left()
            self._left = [id for id, _ in named]
            if named:
                yield from self._verify_at_newest([name for _, name in named], until)

    def _verify_at_newest(self, names: Sequence[str], until: float) -> Iterator[TableVerification]:
        """Verify tables at the newest snapshot, as long as that is new."""
        until = min(until, time.monotonic() + _SECONDS_AT_ONE_TS)
        found = verify(self._environment, names, self._show)
        for each in found:
            if each.incarnation in self._left:
                self._left.remove(each.incarnation)
                self.rows_read += each.rows_summed
                self.rows_sent += each.rows_sent
                yield each
            if self._left and time.monotonic() >= until:
                found.close()
                # It was not killed: what is left begins anew.
                Results(self._environment.reader.location).progress.end()
                return

    @contextmanager
    def _open(self, ts: int) -> Iterator[UpstreamSnapshot]:
        with self._open_upstream(ts) as snapshot:
            try:
                yield snapshot
            finally:
                self.statements += snapshot.statements
                self.bytes_received += snapshot.bytes_received


def read_rhythm(feed: Changefeed) -> tuple[int, int | None]:
    """Return in how many nights all tables are verified, and how many minutes a night has."""
    upstream = feed.upstream
    if upstream is None or upstream.prove_every_days is None:
        reason = "is not set: it says in how many nights every table is to be verified once"
        setting = f"changefeed {feed.id}.upstream: prove-every-days"
        raise ConfigError(reason, setting=setting)
    return upstream.prove_every_days, upstream.prove_minutes


def list_candidates(reader: LakeReader, snapshot: Snapshot, proofs: Proofs) -> list[Candidate]:
    """List the tables of a snapshot, and those that are gone and were verified.

    Rows are counted only of tables that were never compared.
    """
    named = {id for _, id in snapshot.state.names}
    found = []
    for id in named | proofs.tables.keys():
        proof, is_there = proofs.of(id), id in named
        rows = None if proof.compared is None else proof.compared.rows
        if rows is None:
            version = snapshot.versions.get(id) if is_there else None
            rows = 0 if version is None else count_rows(reader, f"current/{id}", version)
        created_ts = snapshot.state.incarnations[id].created_ts if is_there else 0
        found.append(Candidate(id, rows, created_ts, proof, is_there))
    return found
