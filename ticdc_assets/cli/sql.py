"""`sql`: the statements with which other engines read the tables by name."""

import argparse
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from ticdc_assets.cli.output import write_data
from ticdc_assets.cli.show import select_tables
from ticdc_assets.cli.source import open_names
from ticdc_assets.cli.statements import ListedTable, write_statements
from ticdc_assets.plan.state import name_address
from ticdc_assets.store.delta_log import read_newest_state
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.views import overview

_AT_ONCE = 8


def sql(options: argparse.Namespace) -> int:
    """Print the statements."""
    names = open_names(options)
    listed = overview.list_tables(names.reader, names.applied, dropped=False)
    lines = select_tables(names, listed, options.patterns)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        tables = list(pool.map(partial(_make_table, names.reader), lines))
    location = names.reader.location
    write_data(f"{line}\n".encode() for line in write_statements(options.engine, location, tables))
    return 0


def _make_table(reader: LakeReader, line: overview.TableOverview) -> ListedTable:
    found = read_newest_state(reader, f"current/{name_address(line.database, line.table)}")
    caution = None if line.status == "live" else f"{line.status}: {line.reason or ''}"
    if found is None:
        return ListedTable(line.database, line.table, None, caution)
    _, state = found
    return ListedTable(line.database, line.table, state.reader_features, caution)
