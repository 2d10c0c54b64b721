"""Decoders of TiCDC's protocols: bytes to events, one package per protocol.

Rules of this room: decoders are pure and stateless: they open, log and remember nothing.  Whatever
the bytes, a decoder yields events and never raises; what it cannot decode is `events.Quarantined`.
A new protocol is one package and one row in `registry.PROTOCOLS`, and its name in `changefeed`.
"""
