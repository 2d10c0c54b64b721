"""docs/lake.md describes the very columns of the lake's contracts, and the values they may hold."""

import re
from pathlib import Path
from typing import get_args

import pytest

from ticdc_assets.checks.models import KINDS, ORIGINS, ROLES, STAGES
from ticdc_assets.events import Op
from ticdc_assets.events.table_schema import ColumnType
from ticdc_assets.log.verifications import Verdict
from ticdc_assets.plan.state import Status
from ticdc_assets.rows.columns import COMMIT_TS, INEXACT
from ticdc_assets.schema.types.mysql_type import TYPES, map_to_delta_type
from ticdc_assets.store.contracts import (
    CHANGES,
    CONTRACTS,
    HISTORY,
    LATER_CONTRACTS,
    RAW_FILES,
    RAW_RECORDS,
)
from ticdc_assets.verify.narrowing import What

DOCUMENT = (Path(__file__).parents[1] / "docs" / "lake.md").read_text()
SECTIONS = dict(re.findall(r"(?ms)^## (.+?)\n(.*?)(?=^## |\Z)", DOCUMENT))
# Section: contract.
TABLES = {
    "`raw` of a topic": RAW_RECORDS,
    "`raw` of a folder": RAW_FILES,
    **{f"`{name}`": contract for name, contract in (CONTRACTS | LATER_CONTRACTS).items()},
    "Histories": ", ".join(f"{name} {type}" for name, type in HISTORY.items()),
    "Changes": ", ".join(f"{name} {type}" for name, type in CHANGES.items()),
    "Current tables": f"{COMMIT_TS} bigint, {INEXACT} map<string, string>",
}


def columns_of_contract(contract: str) -> list[tuple[str, str]]:
    """Split a contract, without its comments, at the commas that no type encloses."""
    found, depth, start = [], 0, 0
    text = " ".join(re.sub("--.*", "", contract).split()) + ","
    for place, char in enumerate(text):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            name, _, kind = text[start:place].strip().partition(" ")
            found.append((name, kind.replace("< ", "<")))
            start = place + 1
    return found


def described(section: str) -> list[tuple[str, str, str]]:
    return re.findall(r"(?m)^\| `(\w+)` \| ([^`|]+?) \| (.+?) \|$", SECTIONS[section])


@pytest.mark.parametrize("section", TABLES)
def test_every_column_is_described_with_its_type(section: str) -> None:
    columns = [(name, kind) for name, kind, _ in described(section)]

    assert columns == columns_of_contract(TABLES[section])


@pytest.mark.parametrize(
    ("section", "column", "values"),
    [
        ("`raw` of a folder", "role", ROLES),
        ("`events`", "kind", KINDS),
        ("`events`", "op", [op.value for op in Op]),
        ("`quarantine`", "stage", STAGES),
        ("`schema_history`", "origin", ORIGINS),
        ("`tables`", "status", get_args(Status)),
        ("`verifications`", "verdict", get_args(Verdict)),
        ("`differences`", "what", get_args(What)),
    ],
)
def test_every_value_of_a_column_is_described(section: str, column: str, values: list[str]) -> None:
    (meaning,) = (text for name, _, text in described(section) if name == column)

    assert [value for value in values if f"`{value}`" not in meaning] == []


@pytest.mark.parametrize("name", TYPES)
def test_every_mysql_type_is_described_with_its_delta_type(name: str) -> None:
    """Names such as `mediumtext` are covered by "`text` and its sizes"."""
    family = re.sub(r"^(tiny|medium|long)(?=text|blob)", "", name)
    rows = re.findall(r"(?m)^\| (.+?) \| (.+?) \|$", SECTIONS["Current tables"])
    stored = [right for left, right in rows if re.search(rf"`{family}(\(\S+\))?`", left)]

    kind = map_to_delta_type(ColumnType(name=name, length=10))
    assert any(f"`{re.sub(r'[(].*', '', kind)}" in right for right in stored), (name, kind)
