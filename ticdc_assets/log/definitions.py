"""The definitions of tables that were read upstream: all of one run in one commit."""

from collections.abc import Container, Sequence
from datetime import UTC

import pyarrow.compute as pc

from ticdc_assets.events.table_schema import TableSchema
from ticdc_assets.events.written import read_json, write_json
from ticdc_assets.plan.definitions import Definition
from ticdc_assets.store.arrow import arrow_schema, make_table
from ticdc_assets.store.contracts import DEFINITIONS
from ticdc_assets.store.lake import LakeSession
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.stage_commits import StageMark, commit_rows
from ticdc_assets.store.texts import replace_surrogates
from ticdc_assets.store.writer import LakeWriter

_TABLE = "definitions"
_COLUMNS = ("id", "ts", "read_at", "schema")


def read_definitions(reader: LakeReader, known: Container[int] = ()) -> list[Definition]:
    """Read the definitions whose numbers are not known, in order."""
    opened = reader.find(_TABLE)
    if opened is None:
        # No run has needed one yet.
        return []
    ids = [id for id in reader.read(opened, ["id"])["id"].to_pylist() if id not in known]
    if not ids:
        return []
    rows = reader.read(opened, _COLUMNS, pc.field("id").isin(ids)).to_pylist()
    found = [Definition(**{**row, "schema": read_json(row["schema"], TableSchema)}) for row in rows]
    return sorted(found, key=lambda definition: definition.id)


def append_definitions(lake: LakeSession, definitions: Sequence[Definition]) -> None:
    """Append definitions, whatever their numbers were; if another run does so now, only it does."""
    LakeWriter(lake.location).create(_TABLE, arrow_schema(DEFINITIONS), {})
    reader = LakeReader(lake.location)
    last = reader.max_of(reader.open(_TABLE), "id")
    rows = [
        (
            last + number,
            each.ts,
            replace_surrogates(each.schema.database),
            replace_surrogates(each.schema.table),
            each.read_at.astimezone(UTC),
            write_json(each.schema),
        )
        for number, each in enumerate(definitions, 1)
    ]
    mark = StageMark("definition", last + 1)
    commit_rows(lake, _TABLE, make_table(DEFINITIONS, rows), mark)
