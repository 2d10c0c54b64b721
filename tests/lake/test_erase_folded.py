"""Erasing a row whose events are below a fold: the rows with which everything begins lose it."""

from pathlib import Path

import pytest

from tests.lake.canal import ddl, watermark
from tests.lake.erasing import Person, PersonLake
from tests.lake.privately import find_in_files
from ticdc_assets.lake.apply import table_features
from ticdc_assets.lake.maintain import maintain
from ticdc_assets.log.applied import read_last_snapshot
from ticdc_assets.log.folds import read_folds
from ticdc_assets.store import old_files
from ticdc_assets.views.ledger import build_ledger

TEXTS = {Person.ID, *Person.TEXTS[:2]}


def fold(lake: PersonLake) -> int:
    last = read_last_snapshot(lake.lake)
    return maintain(lake.lake, last, retain_days=0, keep_events_days=0).fold.folded


@pytest.mark.parametrize("windows_since", [0, 2])
def test_a_row_below_a_fold_goes_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, windows_since: int
) -> None:
    monkeypatch.setattr(old_files, "_COMMITS_TO_KEEP", 0)
    monkeypatch.setattr(table_features, "LARGE_TABLE", 1 << 20)
    person, lake = Person(), PersonLake(tmp_path)
    other = person.person("other one", "High Street 1, Shelbyville", "0")
    first = person.person(Person.ID, Person.TEXTS[0], "first")
    person.messages.append(ddl("d", "p", 10, "CREATE", Person.CREATE))
    for row in (other, first):
        person.send("INSERT", row)
    person.send("UPDATE", {**first, "n": Person.TEXTS[1]}, {"n": "first"})
    person.messages.append(watermark(person.ts))
    lake.advance(person.messages)
    assert fold(lake) == 3
    start = read_folds(lake.reader).newest.ts

    def change_the_other() -> None:
        nonlocal other
        changed = {**other, "n": str(int(other["n"] or 0) + 1)}
        person.send("UPDATE", changed, {"n": other["n"]})
        person.messages.append(watermark(person.ts))
        lake.advance(person.messages)
        other = changed

    for _ in range(windows_since):
        change_the_other()
    assert find_in_files(tmp_path, TEXTS)
    done, searched = lake.erase()
    assert searched.left == []
    assert done.counts["current"] > 0
    assert find_in_files(tmp_path, TEXTS) == {}
    assert lake.rows() == [other]
    assert lake.rows(start) == [{**other, "n": "0"}]
    change_the_other()
    # It begins with the rows of the fold.
    lake.replay()
    assert lake.rows() == [other]
    assert lake.fold_changes() == lake.read_history() == [other]
    assert find_in_files(tmp_path, TEXTS) == {}
    assert build_ledger(lake.reader, read_last_snapshot(lake.lake)).adds_up
    assert fold(lake) == windows_since + 1
    lake.replay()
    assert lake.rows() == [other]
