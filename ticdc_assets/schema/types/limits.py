"""TiDB's limits on types and tables: a source that states more is wrong.

Every parser of a type asks `find_excess`, so that no later step meets a size that takes more memory
or time than a real column can.
"""

from ticdc_assets.events import ColumnType

MAX_COLUMNS = 4096
TOO_MANY_COLUMNS = f"no table has more than {MAX_COLUMNS} columns"

_MAX_ELEMENTS = {"enum": 65_535, "set": 64}
_DISPLAY_WIDTH = 255
# VARCHAR and VARBINARY are absent: TiDB turns those that are too long into TEXT and BLOB.
_MAX_LENGTHS = {
    "bit": 64,
    "decimal": 65,
    "char": 255,
    "binary": 255,
    "vector": 16_383,
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), _DISPLAY_WIDTH),
    **dict.fromkeys(("float", "double"), _DISPLAY_WIDTH),
}
_MAX_LENGTH = (1 << 32) - 1
_MAX_DECIMALS = {"datetime": 6, "timestamp": 6, "time": 6}
_MAX_SCALE = 30


def find_excess(t: ColumnType) -> str | None:
    """Return why no column can have this type; None if its sizes are possible."""
    length, decimals = t.length, t.decimals
    if length is not None and length > (limit := _MAX_LENGTHS.get(t.name, _MAX_LENGTH)):
        return f"{t.name} of length {length}, but the maximum is {limit}"
    if decimals is not None and decimals > (limit := _MAX_DECIMALS.get(t.name, _MAX_SCALE)):
        return f"{t.name} with {decimals} decimals, but the maximum is {limit}"
    if t.name == "decimal" and (decimals or 0) > (length or _MAX_SCALE):
        return f"decimal with {decimals} decimals of only {length} digits"
    members = len(t.elements or ())
    if members > (limit := _MAX_ELEMENTS.get(t.name, members)):
        return f"{t.name} with {members} members, but the maximum is {limit}"
    return None
