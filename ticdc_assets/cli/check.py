"""`check`: find what is wrong with a deployment, without running anything."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from ticdc_assets.changefeed import Changefeed, find_changefeeds_file
from ticdc_assets.changefeed.faults import read_declarations
from ticdc_assets.cli.output import print_records
from ticdc_assets.cli.patience import PATIENCE, end_command
from ticdc_assets.cli.source import NOT_DECLARED, find_changefeed
from ticdc_assets.errors import ConfigError
from ticdc_assets.resources.finding import Finding, Subject, blame, note
from ticdc_assets.resources.inspect_catalogs import inspect_catalogs
from ticdc_assets.resources.inspect_machine import (
    inspect_jars,
    inspect_java,
    inspect_lake,
    inspect_root,
    inspect_settings,
    inspect_spark,
)
from ticdc_assets.resources.inspect_source import inspect_claim_checks, inspect_source
from ticdc_assets.resources.inspect_upstream import inspect_upstream
from ticdc_assets.resources.lake import get_lake_root
from ticdc_assets.resources.patience import PatientCaller

_DECLARE = "docs/settings.md has every setting"
_ANSWER = "find out why it does not answer: its host, the network, a mounted folder"


class _Call(NamedTuple):
    """What is inspected, and for which changefeed."""

    subject: Subject
    changefeed: str | None


def check(options: argparse.Namespace) -> int:
    """Print what is well, doubtful and wrong."""
    feeds, findings = _read_declarations(options)
    for feed in feeds:
        what = f"{feed.protocol} from {feed.transport}, time zone {feed.tz.key}"
        findings.append(note("declaration", what, feed.id))
    calls = _list_calls(options, feeds, findings)
    caller = PatientCaller(PATIENCE)
    for call, found in caller.call_all(calls).items():
        if isinstance(found, ConfigError):
            findings.append(blame("failure", call.subject, found, _ANSWER, call.changefeed))
        else:
            findings += found
    places = {feed.id: place for place, feed in enumerate(feeds)}
    # What concerns all changefeeds comes first, then one changefeed after the other.
    findings.sort(key=lambda finding: places.get(finding.changefeed or "", -1))
    print_records(options, findings, format_findings)
    has_failures = any(finding.result == "failure" for finding in findings)
    return end_command(caller, 1 if has_failures else 0)


def _read_declarations(options: argparse.Namespace) -> tuple[list[Changefeed], list[Finding]]:
    """Return the changefeeds to check, and what is wrong with their declarations."""
    if options.sink_uri is not None:
        return [find_changefeed(options)], []
    try:
        file = find_changefeeds_file(options.changefeeds)
        feeds, faults = read_declarations(file)
    except ConfigError as error:
        # Without a setting, it concerns the file itself.
        return [], [blame("failure", "declaration", error, _DECLARE if error.setting else None)]
    findings = [blame("failure", "declaration", fault, _DECLARE) for fault in faults]
    if not feeds and not faults:
        nothing = ConfigError(NOT_DECLARED, file=str(file))
        return [], [blame("warning", "declaration", nothing)]
    if options.changefeed is not None:
        # With faults, the one that is named may be among those that could not be read.
        if not faults:
            return [find_changefeed(options)], []
        feeds = [feed for feed in feeds if feed.id == options.changefeed]
    return feeds, findings


def _list_calls(
    options: argparse.Namespace, feeds: Sequence[Changefeed], findings: list[Finding]
) -> dict[_Call, Callable[[], list[Finding]]]:
    """List what is to be inspected; without a possible place, the lake is a failure already."""
    calls: dict[_Call, Callable[[], list[Finding]]] = {
        _Call("settings", None): partial(inspect_settings, feeds),
        _Call("java", None): inspect_java,
        _Call("spark", None): inspect_spark,
    }
    for feed in feeds:
        calls[_Call("source", feed.id)] = partial(inspect_source, feed)
        calls[_Call("claim check", feed.id)] = partial(inspect_claim_checks, feed)
    try:
        root = get_lake_root(options.lake)
    except ConfigError as error:
        findings.append(blame("failure", "lake", error, "name a path, or a URI of a store"))
        return calls
    calls[_Call("jars", None)] = partial(inspect_jars, root)
    calls[_Call("lake", None)] = partial(inspect_root, root)
    for feed in feeds:
        calls[_Call("upstream", feed.id)] = partial(inspect_upstream, feed, root)
        calls[_Call("catalog", feed.id)] = partial(inspect_catalogs, feed, root)
        calls[_Call("lake", feed.id)] = partial(inspect_lake, root, feed.id)
    return calls


def format_findings(findings: Sequence[Finding]) -> Iterator[str]:
    """Format each finding on a line."""
    for finding in findings:
        place = (finding.changefeed, finding.subject, finding.file, finding.setting)
        where = ": ".join(part for part in place if part)
        fix = "" if finding.fix is None else f"; {finding.fix}"
        yield f"{finding.result:<7}  {where}: {finding.message}{fix}"
