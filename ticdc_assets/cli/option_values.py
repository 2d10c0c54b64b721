"""Parse the values of options; no error quotes one."""

import argparse


def parse_table(text: str) -> str:
    """Parse the name of a table."""
    if "." not in text.strip("."):
        raise argparse.ArgumentTypeError("must be DB.TABLE")
    return text


def parse_count(text: str) -> int:
    """Parse a positive number."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 31):
        raise argparse.ArgumentTypeError("must be a positive number")
    return int(text)


def parse_days(text: str) -> int:
    """Parse a number of days."""
    days = parse_count(text)
    if days > 36_500:
        raise argparse.ArgumentTypeError("must be at most 36500")
    return days


def parse_tsos(text: str) -> list[int]:
    """Parse one or more TSOs."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
        raise argparse.ArgumentTypeError("must be a TSO, or several separated by commas")
    tsos = sorted({int(part) for part in parts})
    if tsos[-1] >= 1 << 63:
        raise argparse.ArgumentTypeError("must be below 2^63")
    return tsos


def parse_tso(text: str) -> int:
    """Parse one TSO."""
    tsos = parse_tsos(text)
    if len(tsos) > 1:
        raise argparse.ArgumentTypeError("must be one TSO")
    return tsos[0]


def parse_seconds(text: str) -> float:
    """Parse a number of seconds, which may be 0."""
    return 0.0 if text == "0" else float(parse_count(text))
