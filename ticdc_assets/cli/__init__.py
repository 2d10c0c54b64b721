"""The command line, `ticdc-assets`: one file a group of commands.

Commands only wire rooms together: they find the changefeed and the lake, call a stage, and print.
Results go to standard output, everything about the run to standard error.
"""

from ticdc_assets.cli.command_line import main

__all__ = ["main"]
