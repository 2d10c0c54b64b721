"""Plan what each table goes through, from one snapshot to a later resolved ts.

Rules of this package:

- Pure: no I/O and no rows.  The plan sees pending rows only as row groups (`row_group`).
- The result is data: the state afterwards, the steps of each table (`steps`), schema versions and
  problems.  An engine takes rows through the steps.
- The order of events is that of `stream.ordering`, as in the reference model.

Reading order: `state`, `row_group`, `steps`; then `plan`, which feeds one `TableTracker` through
`row_planner` (rows) and `ddl` (DDLs); then `replay`, which chooses what to plan again.
"""
