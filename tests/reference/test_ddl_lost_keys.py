"""Tables that lose their last key: without force-replicate, TiCDC sends no more of their rows."""

import pytest

from tests.reference.changefeeds import MANNERS, Ddl, Step, Teller, rename_all
from tests.reference.model_runs import paused, played, tables
from tests.reference.test_ddl_pauses import Expected, T, create, left, rows
from ticdc_assets.reference.model import Model
from ticdc_assets.stream.rules import StreamRules

NONCLUSTERED = "id int not null, v varchar(10), primary key (id) nonclustered"
UNIQUE = "id int not null, v varchar(10), unique key k(id)"
NO_KEY = "id int not null, v varchar(10)"

# Steps; which tables are paused, and a word of the reason; the other tables.
SCENARIOS: dict[str, tuple[list[Step], dict[str, str], Expected]] = {
    "a table that loses its last key is replicated no longer, even with another one": (
        [
            create("t", columns=NONCLUSTERED),
            create("u"),
            *rows("t", 1),
            Ddl("ALTER TABLE `t` DROP PRIMARY KEY", "t", NO_KEY),
            Ddl("ALTER TABLE `t` ADD PRIMARY KEY (`id`)", "t", NONCLUSTERED),
            *rows("t", 3),
            *rows("u", 1),
        ],
        {"t": "the last key"},
        {"u(id, v)": left(1)},
    ),
    "a table whose only unique key is dropped is replicated no longer": (
        [
            create("t", columns=UNIQUE),
            *rows("t", 1),
            Ddl("ALTER TABLE `t` DROP INDEX `k`", "t", NO_KEY),
        ],
        {"t": "the last key"},
        {},
    ),
    "a table whose only unique key may be NULL is replicated no longer": (
        [
            create("t", columns=UNIQUE),
            *rows("t", 1),
            Ddl(
                "ALTER TABLE `t` MODIFY COLUMN `id` INT NULL",
                "t",
                UNIQUE.replace("not null", "null"),
            ),
        ],
        {"t": "the last key"},
        {},
    ),
    "a copy takes the place of a table that lost its key": (
        [
            create("t", columns=NONCLUSTERED),
            *rows("t", 1),
            Ddl("ALTER TABLE `t` DROP PRIMARY KEY", "t", NO_KEY),
            Ddl("ALTER TABLE `t` ADD PRIMARY KEY (`id`)", "t", NONCLUSTERED),
            Ddl("CREATE TABLE `c` LIKE `t`", "c", NONCLUSTERED),
            *rows("c", 1, 2),
            *rename_all(("t", "w"), ("c", "t")),
            *rows("t", 3),
        ],
        {"w": "the last key"},
        {"t(id, v)": left(1, 2, 3)},
    ),
    "a primary key that was there already shows that another DDL was left out": (
        [create("t"), *rows("t", 1), Ddl("ALTER TABLE `t` ADD PRIMARY KEY (`id`)", "t", T)],
        {"t": "a primary key already"},
        {},
    ),
}


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("title", SCENARIOS)
def test_a_table_that_lost_its_last_key_is_paused(title: str, manner: str) -> None:
    steps, reasons, expected = SCENARIOS[title]
    model = played(Teller(manner).tell(steps))
    found = paused(model)
    assert set(found) == set(reasons)
    assert all(word in found[name] for name, word in reasons.items())
    assert tables(model) == expected
    assert {p.kind for p in model.problems} == {"paused"}


@pytest.mark.parametrize("manner", MANNERS)
def test_a_table_without_a_key_is_followed_with_force_replicate(manner: str) -> None:
    rules = StreamRules(force_replicate=True)
    for title, (steps, reasons, _) in SCENARIOS.items():
        if "the last key" in reasons.values():
            assert paused(played(Teller(manner).tell(steps), Model(rules))) == {}, title


@pytest.mark.parametrize("manner", MANNERS)
def test_a_table_that_lost_its_key_is_complete_once_it_is_emptied_with_another(manner: str) -> None:
    teller, truncate = Teller(manner), Ddl("TRUNCATE TABLE `t`", "t")
    lost = Ddl("ALTER TABLE `t` DROP PRIMARY KEY", "t", NO_KEY)
    model = played(
        teller.tell(
            [create("t", columns=NONCLUSTERED), *rows("t", 1), lost, truncate, *rows("t", 2)]
        )
    )
    assert set(paused(model)) == {"t"}
    found = Ddl("ALTER TABLE `t` ADD PRIMARY KEY (`id`)", "t", NONCLUSTERED)
    played(teller.tell([found, truncate, *rows("t", 3)]), model)
    # Every DDL of the table was sent, so its columns are certain.
    assert tables(model) == {"t(id, v)": left(3)}


@pytest.mark.parametrize("manner", MANNERS)
def test_a_key_lost_unseen_leaves_columns_uncertain_unless_they_are_stated(manner: str) -> None:
    """The new architecture leaves out every DDL of the table until it has a key again."""
    found = Ddl("ALTER TABLE `t` ADD PRIMARY KEY (`id`)", "t", T)
    steps = [create("t"), *rows("t", 1), found, Ddl("TRUNCATE TABLE `t`", "t"), *rows("t", 2)]
    model = played(Teller(manner).tell(steps))
    states_columns = not manner.startswith("canal")
    assert tables(model) == ({"t(id, v)": left(2)} if states_columns else {})
    assert set(paused(model)) == (set() if states_columns else {"t"})


TWO_KEYS = "id int not null, v int not null, unique key k(id), unique key w(v)"
# The table, the DDL that gives it a key again, the table then, whether schema files show the loss.
LEFT_OUT = {
    "a unique key was dropped": (UNIQUE, "ADD PRIMARY KEY (`id`)", NONCLUSTERED, False),
    "a unique key was dropped, and comes again": (UNIQUE, "ADD UNIQUE `k`(`id`)", UNIQUE, False),
    "a key named after its column was dropped, and comes again": (
        f"{NO_KEY}, unique (id)",
        "ADD UNIQUE (`id`)",
        f"{NO_KEY}, unique (id)",
        False,
    ),
    "two unique keys were dropped": (
        TWO_KEYS,
        "ADD UNIQUE `w`(`v`)",
        TWO_KEYS.replace(", unique key k(id)", ""),
        False,
    ),
    "a unique key became nullable": (
        UNIQUE,
        "ADD PRIMARY KEY (`v`)",
        "id int, v varchar(10) not null, unique key k(id), primary key (v) nonclustered",
        True,
    ),
    "a primary key was dropped": (NONCLUSTERED, "ADD UNIQUE `k`(`id`)", UNIQUE, True),
    "a primary key was dropped, and NOT NULL makes another": (
        f"{NONCLUSTERED}, unique key w(v)",
        "MODIFY COLUMN `v` VARCHAR(10) NOT NULL",
        f"{NO_KEY} not null, unique key w(v)",
        True,
    ),
}


@pytest.mark.parametrize("manner", ["simple-new", "storage-new"])
@pytest.mark.parametrize("title", LEFT_OUT)
def test_a_stated_schema_shows_that_the_last_key_was_lost_unseen(title: str, manner: str) -> None:
    """The new architecture leaves out the DDL that removes the key, and all rows until the next."""
    before, sql, after, files_show_it = LEFT_OUT[title]
    steps = [create("t", columns=before), Ddl(f"ALTER TABLE `t` {sql}", "t", after)]
    events = Teller(manner).tell(steps)
    reasons = paused(played(events))
    if files_show_it or manner == "simple-new":
        assert "no longer has the key" in reasons.pop("t")
    assert reasons == {}
    # TiCDC leaves out nothing with force-replicate.
    assert paused(played(events, Model(StreamRules(force_replicate=True)))) == {}


KEPT = {
    "a second unique key is named after its column": (
        f"{NO_KEY}, unique (id)",
        "ADD UNIQUE (`id`)",
        f"{NO_KEY}, unique (id), unique (id)",
    ),
    "a key takes the place of another": (
        UNIQUE,
        "DROP INDEX `k`, ADD UNIQUE `k`(`id`)",
        UNIQUE,
    ),
    "a primary key takes the place of a unique one": (
        UNIQUE,
        "DROP INDEX `k`, ADD PRIMARY KEY (`id`)",
        NONCLUSTERED,
    ),
    "a key gets another name, its column too": (
        UNIQUE,
        "RENAME INDEX `k` TO `l`, RENAME COLUMN `id` TO `i`, ADD UNIQUE `m`(`i`, `v`)",
        "i int not null, v varchar(10), unique key l(i), unique key m(i, v)",
    ),
    "a unique key may be NULL": (
        NONCLUSTERED,
        "ADD UNIQUE `k`(`v`)",
        f"{NONCLUSTERED}, unique key k(v)",
    ),
}


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("title", KEPT)
def test_a_key_that_the_stream_follows_pauses_no_table(title: str, manner: str) -> None:
    before, sql, after = KEPT[title]
    steps = [create("t", columns=before), Ddl(f"ALTER TABLE `t` {sql}", "t", after)]
    assert paused(played(Teller(manner).tell(steps))) == {}
