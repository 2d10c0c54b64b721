"""The changes of a table, from the versions of its rows: each with the row before and after it."""

from collections.abc import Callable, Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ticdc_assets.lake.apply.versions import BEFORE, DELETE, IS_NEW, NO_ROW, UNTIL, VersionFrame
from ticdc_assets.lake.columns.expressions import combine_pairwise
from ticdc_assets.lake.columns.inexact import ENTRIES, GetColumn, get_column
from ticdc_assets.lake.history.rows import get_time
from ticdc_assets.lake.store.sql import quote_identifier
from ticdc_assets.rows.columns import COMMIT_TS, INEXACT

# Returns a row as one column, its inexact values as entries.
ReadImage = Callable[[GetColumn], Column]


def format_image_type(types: Iterable[tuple[str, str]], inexact: str = ENTRIES) -> str:
    """Format the type of an image with columns of some names and types."""
    fields = (f"{quote_identifier(name)}: {type}" for name, type in (*types, (INEXACT, inexact)))
    return f"struct<{', '.join(fields)}>"


def make_changes(
    frames: Iterable[tuple[VersionFrame, ReadImage, ReadImage]], type: str
) -> DataFrame:
    """Return the changes of frames; each has what reads its rows before and after one."""
    parts = (_read_frame(*each, type) for each in frames)
    found = combine_pairwise(DataFrame.unionByName, parts)
    mark, before, after = map(F.col, ("mark", "before", "after"))
    # A DDL that changes no value of these columns, such as a RENAME of one, is no change of a row.
    is_change = mark["ddl"].isNull() | ~before.eqNullSafe(after)
    return found.where(is_change).select(
        mark["ts"].alias("commit_ts"),
        get_time(mark["ts"]).alias("time"),
        mark["operation"].alias("operation"),
        *(
            _store_image(image).alias(name)
            for image, name in ((before, "before"), (after, "after"))
        ),
        mark["ddl"].alias("ddl"),
        *(
            mark["position"][name].alias(name)
            for name in ("source", "partition", "number", "index")
        ),
    )


def _read_frame(
    frame: VersionFrame, read_before: ReadImage, read_after: ReadImage, type: str
) -> DataFrame:
    """Return the changes of one frame: rows that came or were changed, and rows that went."""
    rows, before = frame.rows, F.col(BEFORE)
    nothing = F.lit(None).cast(type)
    row, since, until = read_after(get_column), F.col(COMMIT_TS), F.col(UNTIL)
    has_before = rows.schema[BEFORE].dataType.simpleString() != NO_ROW
    old_row = F.when(before.isNotNull(), read_before(before.getField)) if has_before else nothing
    came = F.when(F.col(IS_NEW), _make_change(since, old_row, row))
    went = F.when(until["operation"] == DELETE, _make_change(until, row, nothing))
    # In one pass: the versions of a window take long to compute.
    changes = F.explode(F.array_compact(F.array(came, went))).alias("change")
    return rows.select(changes).select("change.*")


def _make_change(mark: Column, before: Column, after: Column) -> Column:
    return F.struct(mark.alias("mark"), before.alias("before"), after.alias("after"))


def _store_image(image: Column) -> Column:
    """Return an image with the exact texts of its inexact values in a map, as tables have them."""
    return F.when(image.isNotNull(), image.withField(INEXACT, F.map_from_entries(image[INEXACT])))
