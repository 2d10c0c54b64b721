"""Load tables from outside the changefeed: each begins a new incarnation, as of one ts.

The order of one table:

1. read its schema, and of an export the head of the first data file: a table that cannot be loaded
   is known before anything is written (`load`);
2. read its rows as texts, in portions of bounded size: Spark's workers read the files of an export
   (`export_source`), this process reads the database upstream (`upstream_source`);
3. type the texts like those of events, and write the rows to the Delta table of the new incarnation
   (`load_table`), a commit per portion;
4. write the rows that are invalid to the quarantine;
5. name the load in `loads`: from then on it counts.

Every load writes a Delta table of its own, so that several may load one table at the same time: the
one that writes its row in `loads` first counts.  Nothing names what a killed load wrote.
"""
