"""What a window does to the rows of tables: Arrow tables in, Arrow tables out.

`plan` says what happens to a table, as steps, without a row; this room does it, without Spark,
Delta or an open file.  Rules:

- `schema.types` defines every value.  Reading a column of texts at once is an optimisation that
  proves itself: a value counts if its canonical text is the text that was sent.  All others go
  through the definition, one by one.
- Rows have the columns of their Delta table (`columns`), always `_commit_ts` and `_inexact` too.
- A row that is wrong is left out and stated with its reason; only what makes a table's rows
  uncertain raises `TableCannotContinue`.
"""
