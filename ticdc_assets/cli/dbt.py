"""`dbt-sources`: the tables of a lake as a file of sources for dbt."""

import argparse
from pathlib import Path

import yaml

from ticdc_assets.cli.output import warn, write_data
from ticdc_assets.cli.show import select_tables
from ticdc_assets.cli.source import find_changefeed, open_names
from ticdc_assets.cli.statements import require_path
from ticdc_assets.errors import ConfigError
from ticdc_assets.safe_text import describe_error
from ticdc_assets.views import overview
from ticdc_assets.views.dbt_sources import DbtSources, Properties

# What this command may overwrite begins with this line.
_HEADER = "# Written by ticdc-assets dbt-sources, which overwrites it: change nothing here."
_WIDTH = 100


def dbt_sources(options: argparse.Namespace) -> int:
    """Print or write the tables as sources of dbt."""
    names = open_names(options)
    # dbt-duckdb reads the addresses as the statements of `sql` do.
    require_path("duckdb", names.reader.location.path("current"), setting="--lake")
    listed = overview.list_tables(names.reader, names.applied, dropped=False)
    lines = select_tables(names, listed, options.patterns)
    state, versions = names.applied.state, names.applied.versions
    ids = [line.incarnation for line in lines]
    found = [state.incarnations[id] for id in ids if id is not None and id in versions]
    left_out = [line for line in lines if line.incarnation not in versions]
    for line in left_out:
        warn(f"left out: {line.name} has no Delta table yet; it is {line.status}: {line.reason}")
    described = DbtSources(find_changefeed(options), names.reader.location).describe(found)
    content = format_properties(described)
    if options.into is None:
        write_data(content.splitlines(keepends=True))
    else:
        _write(options.into, content)
    return 1 if left_out else 0


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Writes texts so that they are the same when they are read."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        # Other styles keep some line breaks, which readers take for spaces.
        style = None if text.isprintable() else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)


def format_properties(properties: Properties) -> bytes:
    """Format a file of dbt's."""
    options = {"Dumper": _Dumper, "sort_keys": False, "allow_unicode": True, "width": _WIDTH}
    return f"{_HEADER}\n{yaml.dump(properties, **options)}".encode()


def _write(path: Path, content: bytes) -> None:
    """Write a file; raise an error rather than overwrite one that somebody else has written."""
    try:
        if path.exists() and not path.read_bytes().startswith(_HEADER.encode()):
            reason = "was not written by this command: name another file, or remove it"
            raise ConfigError(reason, file=str(path), setting="--into")
        path.write_bytes(content)
    except OSError as error:
        reason = f"cannot be written: {error.strerror or describe_error(error)}"
        raise ConfigError(reason, file=str(path), setting="--into") from None
