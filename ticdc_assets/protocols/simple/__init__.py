"""The Simple protocol, as JSON and as Avro: one event a message, schemas stated apart from rows."""
