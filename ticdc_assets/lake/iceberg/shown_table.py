"""Bring an Iceberg table to what its name has: the files of a Delta version."""

from collections.abc import Mapping

from pyarrow import fs
from pyiceberg.manifest import DataFile

from ticdc_assets.lake.iceberg.columns import CannotPublish, Columns, choose_columns
from ticdc_assets.lake.iceberg.data_files import describe_file, name_positions, write_positions
from ticdc_assets.lake.iceberg.files import LakeFiles, find_fault
from ticdc_assets.lake.iceberg.published import make_uri
from ticdc_assets.lake.iceberg.table import IcebergTable
from ticdc_assets.log.named_tables import NamedTable, describe_named, find_true_ts
from ticdc_assets.store.deletion_vector import read_deleted_rows
from ticdc_assets.store.delta_log import DataFile as DeltaFile
from ticdc_assets.store.delta_log import count_stored_rows, read_state
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader

_DROPPED = "dropped"


class ShownTable:
    """The Iceberg table of a name; `show` and `end` do nothing if it is so already."""

    def __init__(self, location: Lake, address: str, files: LakeFiles) -> None:
        self._files = files
        self._reader = LakeReader(location)
        self._table = IcebergTable(location, address, files)

    def end(self, ts: int) -> None:
        """Show no rows: the name is gone."""
        table = self._table
        table.finish_commit()
        if not table.exists or table.properties.get("ticdc.status") == _DROPPED:
            return
        kept = {key: text for key, text in table.properties.items() if key.startswith("ticdc.")}
        ended = {**kept, "ticdc.status": _DROPPED, "ticdc.resolved_ts": str(ts)}
        columns = Columns(table.schemas[-1], is_break=False)
        table.replace_rows(columns, table.read_files(), [], ended)

    def show(self, changefeed: str, named: NamedTable, ts: int) -> None:
        """Show the rows of a table in a snapshot of a ts; raise `CannotPublish` if it cannot."""
        table, version = named
        self._table.finish_commit()
        if fault := find_fault(self._table.home):
            raise CannotPublish(fault)
        stated, known = describe_named(changefeed, named), self._table.properties
        if stated.items() <= known.items():
            return
        about = f"{stated['ticdc.table']} of TiDB, by changefeed {changefeed}"
        properties = {
            **stated,
            "ticdc.resolved_ts": str(find_true_ts(table, ts)),
            "comment": about,
        }
        same = ("ticdc.incarnation", "ticdc.version")
        has_rows = all(known.get(name) == stated[name] for name in same)
        if has_rows and known["ticdc.status"] != _DROPPED:
            self._table.set_properties(properties)
        else:
            self._replace(f"current/{table.id}", version, properties)

    def _replace(self, name: str, version: int, properties: Mapping[str, str]) -> None:
        state = read_state(self._reader, name, version)
        columns = choose_columns(state, self._table.schemas, self._table.last_column_id)
        live = self._table.read_files()
        # Of other columns, the bounds in manifests have other ids.
        known = {} if columns.is_break else live.by_path
        folder = self._reader.open_folder(name)
        place = make_uri(self._reader.location.path(name))
        wanted = []
        for file in state.files:
            uri = f"{place}/{file.path}"
            if (described := known.get(uri)) is None:
                rows = count_stored_rows(folder, file)
                described = describe_file(uri, file, rows, columns.schema)
            wanted.append(described)
            if file.deleted is not None:
                target = name_positions(self._table.home, uri, file.deleted)
                wanted.append(known.get(target) or self._write_deleted(folder, uri, file, target))
        self._table.replace_rows(columns, live, wanted, properties)

    def _write_deleted(
        self, folder: fs.FileSystem, uri: str, file: DeltaFile, target: str
    ) -> DataFile:
        assert file.deleted is not None
        rows = read_deleted_rows(folder, file.deleted)
        return write_positions(self._files, target, uri, rows)
