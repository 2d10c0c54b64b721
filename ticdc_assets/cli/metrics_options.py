"""The options of `metrics`."""

import argparse
from pathlib import Path

from ticdc_assets.safe_text import quote_given

# Whoever reaches the port reads the names of tables, so only this machine does.
DEFAULT_LISTEN = ("127.0.0.1", 9464)
# The node exporter reads no other files.
_SUFFIX = ".prom"


def add_metrics_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `metrics`."""
    where = command.add_mutually_exclusive_group()
    where.add_argument(
        "--listen",
        metavar="HOST:PORT",
        type=parse_address,
        help="serve them at this address (default: {}:{}; port 0: any)".format(*DEFAULT_LISTEN),
    )
    where.add_argument(
        "--textfile",
        metavar="FILE",
        type=parse_textfile,
        help=f"write them once, to a file that ends in {_SUFFIX}",
    )


def parse_address(text: str) -> tuple[str, int]:
    """Parse a host and a port; an IPv6 address is in brackets."""
    host, colon, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 1 << 16
    is_bracketed = host.startswith("[") and host.endswith("]")
    if not (colon and host and is_port) or (":" in host and not is_bracketed):
        raise argparse.ArgumentTypeError(f"{quote_given(text)} must be HOST:PORT")
    return host.strip("[]") if is_bracketed else host, int(port)


def parse_textfile(text: str) -> Path:
    """Parse the path of a textfile of the node exporter."""
    if not text.endswith(_SUFFIX):
        reason = f"must end in {_SUFFIX}, as the node exporter reads no other files"
        raise argparse.ArgumentTypeError(f"{quote_given(text)} {reason}")
    return Path(text)
