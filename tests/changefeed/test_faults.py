"""The faults of all changefeeds of a file."""

from pathlib import Path

from ticdc_assets.changefeed.faults import read_declarations


def test_each_wrong_changefeed_has_a_fault_and_the_others_are_read(tmp_path: Path) -> None:
    file = tmp_path / "changefeeds.toml"
    feed = '[[changefeed]]\nid = "{}"\nsink-uri = "file:///x?protocol={}"\n'
    declared = [("a", "csvv"), ("b", "csv"), ("b", "csv"), ("c", "csvw"), ("d", "csv")]
    file.write_text("".join(feed.format(*each) for each in declared))
    found = read_declarations(file)
    assert [feed.id for feed in found.changefeeds] == ["b", "d"]
    assert [fault.setting for fault in found.faults] == [
        *("changefeed a.sink-uri: protocol", "changefeed b", "changefeed c.sink-uri: protocol"),
    ]
