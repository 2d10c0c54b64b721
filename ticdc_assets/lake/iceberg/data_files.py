"""Data files of a Delta table, and their deletion vectors, as Iceberg states them.

Bounds are stated where Delta's log states the values themselves: of whole numbers, dates and short
texts.  The deleted rows of a file are a file of positions, which any reader of Iceberg knows.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DateType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
)

from ticdc_assets.lake.iceberg.files import LakeFiles
from ticdc_assets.store.deletion_vector import Rows
from ticdc_assets.store.delta_log import DataFile as DeltaFile
from ticdc_assets.store.reader import write_content

# Spark cuts texts of more characters.
_LONGEST_BOUND = 31
# What the specification calls the columns of a file of positions.
_PATH_ID, _POSITION_ID = 2147483546, 2147483545
_POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(_PATH_ID)}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(_POSITION_ID)}),
    ]
)


def describe_file(uri: str, file: DeltaFile, rows: int, schema: Schema) -> DataFile:
    """Describe a data file of some rows, of which some may be deleted, that has columns."""
    stated = json.loads(file.statistics or "{}")
    least, most = stated.get("minValues", {}), stated.get("maxValues", {})
    nulls = stated.get("nullCount", {})
    counted = {
        field.field_id: nulls[field.name]
        for field in schema.fields
        if field.field_type.is_primitive and isinstance(nulls.get(field.name), int)
    }
    lower, upper = _write_bounds(least, schema), _write_bounds(most, schema)
    is_bounded = lower.keys() & upper.keys()
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=uri,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows,
        file_size_in_bytes=file.size,
        value_counts=dict.fromkeys(counted, rows),
        null_value_counts=counted,
        lower_bounds={id: lower[id] for id in is_bounded},
        upper_bounds={id: upper[id] for id in is_bounded},
    )


def _write_bounds(values: Mapping[str, Any], schema: Schema) -> dict[int, bytes]:
    found = {}
    for field in schema.fields:
        value = _read_bound(values.get(field.name), field.field_type)
        if value is not None and isinstance(field.field_type, PrimitiveType):
            found[field.field_id] = to_bytes(field.field_type, value)
    return found


def _read_bound(value: Any, type: IcebergType) -> Any:
    """Read a bound from Delta's log; None if it may not be the value itself."""
    match type:
        case IntegerType() | LongType() if isinstance(value, int):
            return value
        case DateType() if isinstance(value, str):
            # Arrow knows years that Python does not.
            return pa.scalar(value).cast(pa.date32()).cast(pa.int32()).as_py()
        case StringType() if isinstance(value, str) and len(value) <= _LONGEST_BOUND:
            return value
    return None


def name_positions(home: str, uri: str, vector: object) -> str:
    """Name the file of the deleted rows of a data file, for one deletion vector, below a URI."""
    exact = hashlib.sha256(f"{uri}\0{vector!r}".encode(errors="surrogatepass")).hexdigest()[:32]
    return f"{home}/deletes/{exact}.parquet"


def write_positions(files: LakeFiles, target: str, uri: str, rows: Rows) -> DataFile:
    """Write the file of the deleted rows of a data file."""
    columns = [pa.array([uri] * len(rows), pa.string()), pa.array(sorted(rows), pa.int64())]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(columns, schema=_POSITIONS), sink, compression="zstd")
    content = bytes(sink.getvalue())
    path = files.find(target)
    files.folder.create_dir(path.rpartition("/")[0])
    write_content(files.folder, path, content)
    bound = {_PATH_ID: uri.encode()}
    return DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=target,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(rows),
        file_size_in_bytes=len(content),
        lower_bounds=bound,
        upper_bounds=bound,
    )
