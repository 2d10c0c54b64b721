"""Bytes to events, one room a protocol.

Rules of this room: nothing is opened, logged or remembered; whatever the bytes, a decoder yields
events (`events.Rejected` among them) and raises nothing.
"""
