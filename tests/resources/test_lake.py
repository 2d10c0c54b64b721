"""Where a lake can be."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

from ticdc_assets.errors import ConfigError
from ticdc_assets.resources.lake import get_lake_root, make_absolute
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import LakeReader
from ticdc_assets.store.writer import LakeWriter

ODD = [*map(chr, range(1, 128)), "%41", "%zz", "..", "ä", "e\u0301", "表", "\u0085", "\u200b", "😀"]
ODD.remove("/")


def test_every_path_is_an_error_or_works(tmp_path: Path) -> None:
    rows, errors = pa.table({"a": [1]}), {}
    for number, odd in enumerate(ODD):
        parent = tmp_path / str(number)
        try:
            lake = Lake(make_absolute(str(parent / f"x{odd}y"), setting="TICDC_LAKE"), "shop")
        except ConfigError as error:
            errors[odd] = error.reason
            continue
        writer, reader = LakeWriter(lake), LakeReader(lake)
        writer.create("t", rows.schema, {})
        writer.append(reader.open("t"), rows)
        assert reader.read(reader.open("t"), ["a"]).equals(rows)
        assert len(reader.open("t").history(1)) == 1
        assert os.listdir(parent) == [f"x{odd}y"]
    assert [odd for odd in errors if odd.isprintable()] == [*"#?[\\]^|", "%41"]
    assert all(repr(odd) in reason for odd, reason in errors.items())


@pytest.mark.parametrize("odd", ["#", "[", "^", "\\", "%41"])
def test_a_uri_that_delta_rs_reads_otherwise_is_an_error(odd: str) -> None:
    with pytest.raises(ConfigError, match="must have no"):
        make_absolute(f"s3a://bucket/lake{odd}1", setting="TICDC_LAKE")
    for scheme in ("s3a", "s3", "S3", "s3n"):
        root = make_absolute(f"{scheme}://bucket/a b/表", setting="TICDC_LAKE")
        assert root == "s3a://bucket/a b/表"


def test_an_error_names_the_option_or_the_variable_that_states_the_lake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TICDC_LAKE", "/b#d")
    for stated, setting in (("/a#b", "--lake"), (None, "TICDC_LAKE")):
        with pytest.raises(ConfigError) as error:
            get_lake_root(stated)
        assert error.value.setting == setting
