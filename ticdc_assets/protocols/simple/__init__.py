"""The Simple protocol, as JSON and as Avro: one event per message, schemas stated apart from rows.

`decoder` has what both encodings share, `json` and `avro` read the bytes, `schema` converts stated
columns.  `message.avsc` is TiCDC's Avro schema.
"""
