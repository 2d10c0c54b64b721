"""`backup`: copy a changefeed's part of a lake while runs go on."""

import argparse

from ticdc_assets.cli import texts
from ticdc_assets.cli.output import say, warn
from ticdc_assets.cli.progress import Progress
from ticdc_assets.cli.snapshot import find_target
from ticdc_assets.cli.source import open_reader
from ticdc_assets.lake.backup import copy_lake
from ticdc_assets.log.applied_files import read_existing_snapshot
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader


def backup(options: argparse.Namespace) -> int:
    """Copy the lake."""
    folder = find_target(options)
    reader = open_reader(options)
    read_existing_snapshot(reader)
    progress = Progress()
    done = copy_lake(reader.location, folder, warn)
    copy = Lake(folder, reader.location.changefeed)
    ts = read_existing_snapshot(LakeReader(copy)).ts
    say(f"{copy.changefeed} at {ts} ({texts.format_time(ts)}) in {copy.path('').rstrip('/')}")
    copied = texts.format_count(done.copied, "file")
    say(f"  copied {copied}, {texts.format_size(done.size)}, of {done.files:,}")
    say(f"  in {progress.seconds:.1f} s")
    return 0
