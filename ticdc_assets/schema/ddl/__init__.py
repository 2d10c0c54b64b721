"""Reading DDL: SQL text to statements, whole or not at all, on the tokens of sqlglot."""
