"""MySQL types: the table of them, their texts, values and checksums."""
