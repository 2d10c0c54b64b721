"""The tables of a lake as entries of catalogs: AWS Glue, Hive Metastore, Unity, Iceberg REST.

Rules of this room: an entry of a Delta table names an address, which lasts, so it is made once and
follows its table by name, columns, comments and properties; one of an Iceberg table follows its
snapshots, too, in one commit each.  What an entry should be is computed from the snapshot and from
what is published of the table, and nothing else.  The catalog itself says which entries are ours; a
file beside the tables only saves calls.  Clients come in opened.
"""

from ticdc_assets.catalogs.entry import Catalog
from ticdc_assets.catalogs.register import (
    read_registration,
    record_failure,
    register_tables,
)

__all__ = ["Catalog", "read_registration", "record_failure", "register_tables"]
