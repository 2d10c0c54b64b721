"""The schema catalog: names, declared keys and outdated schemas."""

import pytest

from tests.schema.changes import ddl, stated
from ticdc_assets.schema.apply_ddl import apply_ddl
from ticdc_assets.schema.catalog import SchemaCatalog, table_key
from ticdc_assets.schema.effect import TableAltered, TableRenamed


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("Orders", "ORDERS", True),
        ("ÄÖ", "äö", True),
        ("Σ", "σ", True),
        ("straße", "STRASSE", False),
        ("a.b", "a_b", False),
    ],
)
def test_names_are_compared_letter_by_letter_in_lower_case(
    left: str, right: str, same: bool
) -> None:
    assert (table_key(left, right) == table_key(right, left)) is same


def test_a_stated_schema_older_than_a_drop_is_outdated() -> None:
    catalog = SchemaCatalog()
    catalog.replace(stated("t", version=50))
    assert not catalog.is_outdated(stated("t", version=50))
    apply_ddl(ddl("DROP TABLE t", commit_ts=60), catalog)
    assert catalog.is_outdated(stated("T", version=50))
    assert not catalog.is_outdated(stated("t", version=60))
    apply_ddl(ddl("DROP DATABASE d", "", commit_ts=70), catalog)
    assert catalog.is_outdated(stated("never seen", version=60))


def test_a_tables_own_key_takes_precedence_over_a_declared_one() -> None:
    catalog = SchemaCatalog({"D.T": ("ID",), "d.u": ("x",)})
    known = catalog.replace(stated("t", "id", "x"))
    assert known.key == ("id",)
    (renamed,) = apply_ddl(ddl("RENAME TABLE t TO s", "s"), catalog)
    assert isinstance(renamed, TableRenamed)
    assert renamed.schema.key == ("id",)
    (renamed,) = apply_ddl(ddl("RENAME TABLE s TO u", "u"), catalog)
    assert isinstance(renamed, TableRenamed)
    assert renamed.schema.key == ("x",)
    (altered,) = apply_ddl(ddl("ALTER TABLE u ADD PRIMARY KEY (x, id)", "u"), catalog)
    assert isinstance(altered, TableAltered)
    assert altered.schema.key == ("x", "id")
