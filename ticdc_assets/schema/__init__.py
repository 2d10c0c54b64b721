"""MySQL types, DDL and schemas: what a DDL does to the tables of a changefeed and to their rows.

Rules: pure functions over `events` values, without I/O, Spark or Dagster.  Types are data.  No
regular expression reads SQL, and no statement is guessed: an unsupported one pauses its tables.

Order: `ddl` reads a statement, `apply_ddl` applies it to the `catalog`, `reconciliation` joins the
result with the schema that the protocol states, and an engine executes the returned `effect`s by
`types`, `conversion` and `partition`.
"""
