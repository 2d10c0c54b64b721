"""Open Protocol: batches of events, each a JSON key and a JSON value.

`framing` splits a record into events, `decoder` reads them, `column` converts values by type code
and flags, `go_quote` reads the text of binary columns, `flags` decodes rows again whose flags turn
out to be stale.
"""
