"""Apply the events of one window to the current tables.

The order of one window:

1. read the control events since the last snapshot (DDL, schemas, watermarks); compute the resolved
   ts (`control_events`), and fetch the definitions of tables that lack one (`definitions`);
2. replay the tables that can continue now, or were applied without events that arrived late, from
   the snapshot before that (`apply`; `plan.replay` chooses which tables, and from where);
3. select the rows that no window has applied yet, and describe them in row groups (`pending_rows`);
4. plan the work of each table, without reading a row (`window`, which calls `plan`);
5. do each table's work in tasks, and commit what they wrote (`window_work`), and write the
   schema history meanwhile;
6. write quarantined rows (`quarantined_rows`), then the tables' present schemas, then the snapshot.

A killed window left no snapshot: the next run restores its tables and starts again.
"""
