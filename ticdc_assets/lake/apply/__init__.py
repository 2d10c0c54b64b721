"""Apply: the events of one window go into the current tables.

The order of one window:

1. read the control events since the last snapshot (DDL, schemas, watermarks); compute the resolved
   ts (`control_events`);
2. replay what can go on now and could not before, from the snapshot where it stopped (`apply`);
3. select the rows that no window has applied yet, in groups (`pending_rows`);
4. plan the work of each table, without reading a row (`plan`, called by `window`);
5. carry out each table's work on its Delta table, several tables in parallel (`table_work`);
6. write quarantined rows, the schema history and the catalog, and then the snapshot.

A window that was killed left no snapshot: the next run restores its tables and starts again.
"""
