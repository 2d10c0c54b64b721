"""ADD COLUMN fills existing rows with the default of the column."""

from datetime import UTC

import pytest

from tests.reference.changefeeds import MANNERS, Teller, put
from tests.reference.model_runs import played, tables
from tests.reference.test_ddl_column_scenarios import alter, create
from ticdc_assets.reference.model import Model
from ticdc_assets.schema.ddl_context import DdlContext
from ticdc_assets.stream.rules import StreamRules

# A column, and its value in existing rows.
BACKFILLS: list[tuple[str, str | None]] = [
    ("int", None),
    ("int not null", "0"),
    ("bigint unsigned default 18446744073709551615", "18446744073709551615"),
    ("tinyint(1) default true", "1"),
    ("decimal(10,3) default 1.5", "1.500"),
    ("decimal(10,3) not null", "0.000"),
    ("decimal(5,0) default '7'", "7"),
    ("float default 1.1", "1.1"),
    ("double not null", "0"),
    ("double default 1e3", "1000"),
    ("varchar(10) default 'a''b'", "a'b"),
    ("varchar(10) default ''", ""),
    ("varchar(10) not null", ""),
    ("char(4) default 'ü'", "ü"),
    ("text", None),
    ("text not null", ""),
    ("blob not null", ""),
    ("varbinary(8) default x'0061'", "0061"),
    ("binary(4) default 'ab'", "61620000"),
    ("binary(2) not null", "0000"),
    ("bit(4) default b'101'", "5"),
    ("bit(8) not null", "0"),
    ("enum('m','n') default 'n'", "n"),
    ("enum('m','n') not null", "m"),
    ("enum('m','n')", None),
    ("set('x','y','z') default 'z,x'", "x,z"),
    ("set('x','y') not null", ""),
    ("date default '2024-01-02'", "2024-01-02"),
    ("date not null", "0000-00-00"),
    ("datetime default '2024-01-02 03:04:05'", "2024-01-02 03:04:05"),
    ("datetime(3) default '2024-01-02 03:04:05'", "2024-01-02 03:04:05.000"),
    ("datetime(3) not null", "0000-00-00 00:00:00.000"),
    ("timestamp null default '2024-01-02 03:04:05'", "2024-01-02 03:04:05"),
    ("time default '1:2:3'", "01:02:03"),
    ("time(2) not null", "00:00:00.00"),
    ("year default 2024", "2024"),
    ("json", None),
    ("json not null", "null"),
    ("vector(2)", None),
]


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize(("column", "text"), BACKFILLS)
def test_rows_that_were_there_get_the_default(column: str, text: str | None, manner: str) -> None:
    now = f"id int primary key, c {column}"
    steps = [
        create("id int primary key"),
        put("t", id=1),
        alter(f"ADD COLUMN `c` {column}", now),
    ]
    model = played(Teller(manner).tell(steps), Model(StreamRules(context=DdlContext(UTC))))
    assert (tables(model), model.problems) == ({"t(id, c)": [("1", text)]}, [])
