"""What people read of a lake: rows as of a TSO, tables and their state, the ledger, previews."""
