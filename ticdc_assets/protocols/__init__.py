"""Decoders of TiCDC's protocols: bytes to events, one package per protocol.

Rules of this room: decoders are pure and stateless: they open, log and remember nothing.  Whatever
the bytes, a decoder yields events and never raises; what it cannot decode is `events.Quarantined`.
A protocol is one package here, one row in `registry.PROTOCOLS`, and its name and transports in
`changefeed.declaration`.
"""
