"""Declare the simulated changefeed as its owner would: sink URI and changefeed TOML."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from ticdc_assets.changefeed import CsvDialect
from ticdc_assets.changefeed.upstream import Upstream
from ticdc_assets.demo.on_tidb import MARKER

# The topic of every simulated changefeed.
TOPIC = "demo"


class DeclarationOptions(Protocol):
    """The options that a declaration states."""

    @property
    def protocol(self) -> str: ...
    @property
    def transport(self) -> str: ...
    @property
    def brokers(self) -> str | None: ...
    @property
    def encoding(self) -> str: ...
    @property
    def partitions(self) -> int: ...
    @property
    def dispatch(self) -> str: ...
    @property
    def csv(self) -> CsvDialect: ...
    @property
    def date_separator(self) -> str: ...
    @property
    def workload(self) -> str: ...
    @property
    def upstream(self) -> Upstream | None: ...


def format_declaration(
    folder: Path, options: DeclarationOptions, keys: Mapping[str, tuple[str, ...]]
) -> str:
    """Format the `changefeeds.toml` of a folder."""
    lines = [
        "[[changefeed]]",
        f"id = {json.dumps(options.workload)}",
        f"sink-uri = {json.dumps(_sink_uri(folder, options))}",
        'config = "changefeed.toml"',
        'tz = "UTC"',
        # The simulated server has no old one's faults.
        'server-version = "9.0.0"',
    ]
    if keys and options.protocol in ("csv", "canal-json"):
        lines += ["", "[changefeed.keys]"]
        lines += [f"{json.dumps(table)} = {json.dumps(list(key))}" for table, key in keys.items()]
    if options.upstream is not None:
        lines += ["", *_declare_upstream(options.upstream)]
    return "\n".join(lines) + "\n"


def _declare_upstream(upstream: Upstream) -> list[str]:
    lines = [
        "[changefeed.upstream]",
        f"host = {json.dumps(upstream.host)}",
        f"port = {upstream.port}",
        f"user = {json.dumps(upstream.user)}",
    ]
    if upstream.password is not None:
        lines.append(f"password-{upstream.password.kind} = {json.dumps(upstream.password.place)}")
    return lines


def format_changefeed_toml(options: DeclarationOptions) -> str:
    """Format the file for `cdc cli changefeed create --config`."""
    text = _format_sink(options)
    if options.upstream is None:
        return text
    # The server may have other databases.
    rules = [f"{options.workload}.*", f"!{options.workload}.{MARKER}"]
    return f"[filter]\nrules = {json.dumps(rules)}\n\n{text}"


def _format_sink(options: DeclarationOptions) -> str:
    if options.transport == "dump":
        rule = f'{{matcher = ["*.*"], partition = "{options.dispatch}"}}'
        return f"[sink]\ndispatchers = [{rule}]\n"
    lines = ["[sink]", f'date-separator = "{options.date_separator}"']
    if options.protocol == "csv":
        csv = options.csv
        if csv.terminator != "\r\n":
            lines.append(f"terminator = {json.dumps(csv.terminator)}")
        lines += [
            "",
            "[sink.csv]",
            f"delimiter = {json.dumps(csv.delimiter)}",
            f"quote = {json.dumps(csv.quote)}",
            f"null = {json.dumps(csv.null)}",
            f"include-commit-ts = {_flag(csv.include_commit_ts)}",
            f"output-old-value = {_flag(csv.output_old_value)}",
            f'binary-encoding-method = "{csv.binary_encoding}"',
            f"output-field-header = {_flag(csv.field_header)}",
        ]
    return "\n".join(lines) + "\n"


def _sink_uri(folder: Path, options: DeclarationOptions) -> str:
    parameters = {"protocol": options.protocol}
    if options.protocol == "canal-json":
        parameters["enable-tidb-extension"] = "true"
    if options.transport == "storage":
        return f"file://{quote(str(folder))}/data?{_query(parameters)}"
    if options.encoding == "avro":
        parameters["encoding-format"] = "avro"
    parameters["partition-num"] = str(options.partitions)
    if options.brokers is not None:
        return f"kafka://{options.brokers}/{TOPIC}?{_query(parameters)}"
    return f"dump://{quote(str(folder))}/records.jsonl?{_query(parameters)}"


def _query(parameters: Mapping[str, str]) -> str:
    return "&".join(f"{name}={value}" for name, value in parameters.items())


def _flag(value: bool) -> str:
    return str(value).lower()
