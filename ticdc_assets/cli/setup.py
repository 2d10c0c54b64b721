"""`setup`: download what Spark needs beside the Python packages."""

import argparse

from ticdc_assets.cli.output import say
from ticdc_assets.resources.class_archive import make_archive
from ticdc_assets.resources.jars import describe_download


def setup(options: argparse.Namespace) -> int:
    """Download the jars of a session, and archive the classes that it loads."""
    say(describe_download(options.store))
    archive = make_archive()
    say(str(archive or "this Java makes no class-data archive; sessions start without one"))
    return 0
