"""The rows that were erased for good, as the lake knows them: by digests of their keys.

A key is personal data, too, so no erasure has one.  What it has recognizes the row in what arrives
later: the digest of the texts of its key, with a salt that no other lake has.  All digests of a
lake have one salt, so that each event is digested once, however many rows were erased.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ticdc_assets.store.arrow import arrow_schema, make_table
from ticdc_assets.store.contracts import ERASURES
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.texts import replace_surrogates
from ticdc_assets.store.writer import LakeWriter

TABLE = "erasures"
_DIGITS = 32


@dataclass(frozen=True)
class Place:
    """Where events of a row are: a table's name in `events`, from one commit ts to another.

    `columns` are those that identify the row there.
    """

    name: str
    columns: tuple[str, ...]
    after_ts: int
    # None where the table still has this name and these columns.
    through_ts: int | None

    def covers(self, ts: int) -> bool:
        """Return whether events of a commit ts may be here."""
        return self.after_ts <= ts and (self.through_ts is None or ts <= self.through_ts)


@dataclass(frozen=True)
class Erasure:
    """An erasure of one row."""

    id: int
    database: str
    table: str
    requested_at: datetime
    through_ts: int
    batch: int
    incarnations: tuple[str, ...]
    places: tuple[Place, ...]
    salt: str
    digests: frozenset[str]
    erased_at: datetime | None = None
    counts: tuple[tuple[str, int], ...] = ()

    def covers(self, row: Mapping[str, Any]) -> bool:
        """Return whether an event is so old that it is erased if it is of the row.

        Some state the version of their table in place of a commit ts.
        """
        if row["ordering"] == "table_version":
            return bool(row["batch"] <= self.batch)
        return bool(row["commit_ts"] <= self.through_ts)


def make_digest(salt: str, values: Sequence[str | None]) -> str | None:
    """Make the digest of the texts of a key; None if one is NULL: it identifies no row."""
    if any(value is None for value in values):
        return None
    # In JSON, bytes that are not UTF-8 are escaped.
    text = json.dumps([*values]).encode()
    return hmac.new(bytes.fromhex(salt), text, hashlib.sha256).hexdigest()[:_DIGITS]


def read_erasures(reader: LakeReader, database: str | None = None) -> list[Erasure]:
    """Read all erasures in order, or those of the tables of a database."""
    opened = reader.find(TABLE)
    if opened is None:
        # No row was erased.
        return []
    where = None if database is None else pc.field("database") == database
    rows = reader.read(opened, arrow_schema(ERASURES).names, where).to_pylist()
    return sorted(map(_read, rows), key=lambda erasure: erasure.id)


def find_salt(known: Sequence[Erasure]) -> str:
    """Return the salt of a lake; a new one if there is none."""
    return known[0].salt if known else secrets.token_hex(16)


def write_erasure(location: Lake, erasure: Erasure) -> None:
    """Add an erasure, or replace the one with its number; only the run with the lock does so."""
    writer = LakeWriter(location)
    writer.create(TABLE, arrow_schema(ERASURES), {})
    others = [each for each in read_erasures(LakeReader(location)) if each.id != erasure.id]
    writer.replace(TABLE, _make_rows([*others, erasure]))


def end_erasure(location: Lake, erasure: Erasure, counts: Mapping[str, int]) -> Erasure:
    """State that everything of an erasure is done, and what that was."""
    sums = dict(erasure.counts)
    for layer, count in counts.items():
        sums[layer] = sums.get(layer, 0) + count
    ended = replace(erasure, erased_at=datetime.now(UTC), counts=tuple(sums.items()))
    write_erasure(location, ended)
    return ended


def list_unfinished(erasures: Collection[Erasure]) -> list[Erasure]:
    """List the erasures that a killed command left."""
    return [erasure for erasure in erasures if erasure.erased_at is None]


def _read(row: Mapping[str, Any]) -> Erasure:
    places = (
        Place(p["name"], tuple(p["columns"]), p["after_ts"], p["through_ts"]) for p in row["places"]
    )
    counts = tuple((count["layer"], count["rows"]) for count in row["counts"])
    return Erasure(
        **{
            **row,
            "incarnations": tuple(row["incarnations"]),
            "places": tuple(places),
            "digests": frozenset(row["digests"]),
            "counts": counts,
        }
    )


def _make_rows(erasures: Sequence[Erasure]) -> pa.Table:
    rows = [
        (
            each.id,
            replace_surrogates(each.database),
            replace_surrogates(each.table),
            each.requested_at,
            each.erased_at,
            each.through_ts,
            each.batch,
            list(each.incarnations),
            [
                {**vars(place), "name": replace_surrogates(place.name)}
                | {"columns": replace_surrogates(list(place.columns))}
                for place in each.places
            ],
            each.salt,
            sorted(each.digests),
            [{"layer": layer, "rows": count} for layer, count in each.counts],
        )
        for each in erasures
    ]
    return make_table(ERASURES, rows)
