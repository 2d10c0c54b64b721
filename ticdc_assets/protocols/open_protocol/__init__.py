"""Open Protocol: batches of key and value JSON, columns described by type codes and flags."""
