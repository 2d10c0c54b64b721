"""Reading DDL: SQL text to statements.

Rules:
- A statement is read to its end or not at all; nothing is guessed, and no regular expression reads
  SQL.  A clause that no reader supports raises `UnreadableDdl`, which pauses the tables concerned.
- sqlglot cuts the text into `tokens`; a `cursor` walks over them; one module per clause reads.
- Statements are plain values.  What a statement does to a table is decided in `schema`, not here.
"""
