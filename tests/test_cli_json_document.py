"""docs/cli-json.md describes the very fields that commands print as JSON, in their order."""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from ticdc_assets.cli import records
from ticdc_assets.cli.command_line import make_parser
from ticdc_assets.cli.output import encode_record
from ticdc_assets.stream.problem import Kind
from ticdc_assets.views.status import ChangefeedState

DOCUMENT = (Path(__file__).parents[1] / "docs" / "cli-json.md").read_text()
SECTIONS = dict(re.findall(r"(?ms)^## `(\w+)`\n(.*?)(?=^## |\Z)", DOCUMENT))
# Section: the records of a command, each a table.
RECORDS: dict[str, list[type[msgspec.Struct]]] = {
    "check": [records.Finding],
    "status": [records.Status],
    "tables": [records.Table],
    "ledger": [records.LedgerSource, records.LedgerTable, records.LedgerPartial],
    "advance": [records.Advance],
    "load": [records.Load],
    "maintain": [records.Maintain],
    "erase": [records.Erase],
    "verify": [records.Verify],
    "quarantine": [records.Quarantine],
    "schema": [records.Schema],
}
NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "number",
    float: "number",
    str: "text",
    datetime: "time",
    NoneType: "null",
}


def name_type(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "text"
    if get_origin(kind) in (UnionType, Union):
        return " or ".join(dict.fromkeys(name_type(each) for each in get_args(kind)))
    if get_origin(kind) is list:
        return f"list of {name_type(get_args(kind)[0])}"
    return "object" if issubclass(kind, msgspec.Struct) else NAMES[kind]


def list_fields(record: type[msgspec.Struct], prefix: str = "") -> Iterator[tuple[str, str]]:
    config = record.__struct_config__
    if config.tag_field is not None:
        yield config.tag_field, "text"
    hints = get_type_hints(record)
    for name in record.__struct_fields__:
        yield prefix + name, name_type(hints[name])
        for part in (hints[name], *get_args(hints[name])):
            if isinstance(part, type) and issubclass(part, msgspec.Struct):
                yield from list_fields(part, f"{prefix}{name}.")


def described(section: str) -> list[list[tuple[str, str, str]]]:
    tables = re.findall(r"(?m)^\| field .+\n\|.+\n((?:\|.+\n?)+)", SECTIONS[section])
    return [re.findall(r"(?m)^\| `([\w.]+)` \| ([^|]+?) \| (.+?) \|$", table) for table in tables]


@pytest.mark.parametrize("section", RECORDS)
def test_every_field_is_described_with_its_type(section: str) -> None:
    found = [[(name, kind) for name, kind, _ in table] for table in described(section)]
    assert found == [list(list_fields(record)) for record in RECORDS[section]]


def list_values(record: type[msgspec.Struct], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the words that fields may have."""
    hints = get_type_hints(record)
    for name in record.__struct_fields__:
        for part in (hints[name], *get_args(hints[name])):
            if get_origin(part) is Literal:
                for value in flatten(part):
                    yield prefix + name, value
            elif isinstance(part, type) and issubclass(part, msgspec.Struct):
                yield from list_values(part, f"{prefix}{name}.")


def flatten(kind: Any) -> Iterator[str]:
    for value in get_args(kind):
        yield from [value] if isinstance(value, str) else flatten(value)


@pytest.mark.parametrize("section", RECORDS)
def test_every_value_of_a_field_is_described(section: str) -> None:
    meanings = {name: text for table in described(section) for name, _, text in table}
    missing = [
        (name, value)
        for record in RECORDS[section]
        for name, value in list_values(record)
        # The four commands are those of another field's description.
        if f"`{value}`" not in meanings[name] + meanings.get(name.rpartition(".")[0], "")
    ]
    assert missing == []
    assert section != "status" or len(get_args(ChangefeedState)) > 5


def test_every_kind_of_problem_is_described() -> None:
    meanings = {name: text for name, _, text in described("advance")[0]}
    assert [kind for kind in get_args(Kind) if f"`{kind}`" not in meanings["problems.kind"]] == []


@pytest.mark.parametrize("command", RECORDS)
def test_every_command_takes_the_format(command: str) -> None:
    words = {"schema": ["a.b"], "load": ["dir"], "erase": ["a.b", "id=1"]}.get(command, [])
    options = make_parser().parse_args([command, *words, "--format", "json"])
    assert options.format == "json"
    assert make_parser().parse_args([command, *words]).format == "text"


def test_a_record_is_a_line_of_ascii_whatever_its_names_are() -> None:
    name = 'a\n\x1b[31m"表\ud800'
    line = encode_record(records.LedgerPartial(changefeed="shop", table=name, reason=name))
    assert line.isascii()
    assert line.count(b"\n") == 1
    found = msgspec.json.decode(line.replace(b"\\ud800", b""))
    assert found["table"] == name.replace("\ud800", "")
