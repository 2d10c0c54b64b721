"""Tables as Iceberg tables: metadata that names the data files of the Delta tables.

Rules of this room: the rows are those of a Delta version that a snapshot of the lake names, and no
data file is written or removed here.  An Iceberg table is at the newest snapshot, or it is not
there.  `pyiceberg` is imported only where a changefeed declares such tables.
"""
