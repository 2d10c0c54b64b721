"""Parse the values of options; an error quotes the value, unless it may hold a secret."""

import argparse
from datetime import UTC, datetime

from ticdc_assets.changefeed.sink_uri import go_duration
from ticdc_assets.changefeed.table_pattern import parse_pattern as check_pattern
from ticdc_assets.events.tso_text import parse_tso as parse_tso_text
from ticdc_assets.safe_text import quote_given


def parse_table(text: str) -> str:
    """Parse the name of a table."""
    if "." not in text.strip("."):
        raise argparse.ArgumentTypeError(f"{quote_given(text)} must be DB.TABLE")
    return text


def parse_pattern(text: str) -> str:
    """Parse a pattern of tables."""
    try:
        check_pattern(text)
    except ValueError:
        reason = "must be a table or a pattern, such as 'shop.orders' or 'shop.*'"
        raise argparse.ArgumentTypeError(f"{quote_given(text)} {reason}") from None
    return text


def parse_count(text: str) -> int:
    """Parse a positive number."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 31):
        raise argparse.ArgumentTypeError(f"{quote_given(text)} must be a positive number")
    return int(text)


def parse_days(text: str) -> int:
    """Parse a number of days."""
    days = parse_count(text)
    if days > 36_500:
        raise argparse.ArgumentTypeError(f"{days} must be at most 36500")
    return days


def parse_tsos(text: str) -> list[int]:
    """Parse one or more TSOs or times."""
    return sorted({parse_tso(part) for part in text.split(",")})


def parse_tso(text: str) -> int:
    """Parse one TSO or time."""
    try:
        return parse_tso_text(text, datetime.now(UTC))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{quote_given(text)} {error}") from None


def parse_seconds(text: str) -> float:
    """Parse a number of seconds, which may be 0."""
    return 0.0 if text == "0" else float(parse_count(text))


def parse_percent(text: str) -> float:
    """Parse a percentage as a share of 1."""
    try:
        share = float(text) / 100
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{quote_given(text)} must be above 0 and up to 100")
    return share


def parse_duration(text: str) -> float:
    """Parse a duration such as 90s, 10m or 1h30m as seconds."""
    try:
        return go_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{quote_given(text)} {error}") from None
