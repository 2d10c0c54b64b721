"""Decode: `raw` becomes `events`, and input that cannot be decoded goes into `quarantine`."""
