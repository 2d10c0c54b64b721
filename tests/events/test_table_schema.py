"""Table schemas: the key that identifies a row."""

import pytest

from ticdc_assets.events import Column, ColumnType, Index, TableSchema


def test_a_handle_key_has_no_virtual_columns() -> None:
    virtual = Column("v", ColumnType("int"), nullable=False, generated="virtual")
    plain = (
        Column("a", ColumnType("int"), nullable=False),
        Column("b", ColumnType("int"), nullable=False),
    )
    keys = (Index("one", ("v",), unique=True), Index("two", ("a", "b"), unique=True))
    assert TableSchema("d", "t", (virtual, *plain), keys).key == ("a", "b")


def described(columns: str, keys: str) -> TableSchema:
    """A schema of columns, `?` nullable and `=` virtual, and indexes, `*` of a primary key."""
    return TableSchema(
        "d",
        "t",
        tuple(
            Column(
                text.rstrip("?="),
                ColumnType("int"),
                nullable="?" in text,
                generated="virtual" if "=" in text else None,
            )
            for text in columns.split()
        ),
        tuple(
            Index(name.strip("*"), tuple(names.split()), True, name.startswith("*"))
            for name, names in (text.rstrip(")").split("(") for text in keys.split(", "))
        ),
    )


@pytest.mark.parametrize(
    ("columns", "keys", "primary", "effective", "handle"),
    [
        # TiDB names a primary key PRIMARY, also where a unique key is equal to it.
        ("a b", "*PRIMARY(a)", "a", "a", "a"),
        ("a b", "u(a), *PRIMARY(a)", "a", "a", "a"),
        # A clustered integer has no index, so Simple makes one up.
        ("a b", "*primary(a)", "a", "a", "a"),
        ("a b", "u(b), *primary(a)", "a", "a", "a"),
        ("a b", "u(b), v(a), *primary(a)", "a", "a", "a"),
        # As it does of the first unique key over NOT NULL columns, where there is no primary key.
        ("a b", "u(b), *primary(b)", "", "b", "b"),
        ("a b", "u(b), v(a), *primary(b)", "", "b", "b"),
        ("a b c", "u(a b), v(c), *primary(a b)", "", "a b", "c"),
        ("a? b c", "u(a b), v(c b), w(b), *primary(c b)", "", "c b", "b"),
        # The order of its columns tells it apart.
        ("a b", "u(b a), *primary(a b)", "a b", "a b", "a b"),
        # A virtual column is in no row, and in no handle key; a hidden one not even here.
        ("a b=", "u(b), v(a), *primary(b)", "", "b", "a"),
        ("a b=", "u(b), *primary(b)", "", "b", ""),
        ("a _V$_u_0=", "u(_V$_u_0), v(a), *primary(a)", "", "a", "a"),
        ("a? b", "u(a)", "", "", ""),
    ],
)
def test_a_unique_key_that_is_stated_twice_is_no_primary_key(
    columns: str, keys: str, primary: str, effective: str, handle: str
) -> None:
    schema = described(columns, keys)
    found = schema.primary_key, schema.effective_primary_key, schema.own_key
    assert [" ".join(names) for names in found] == [primary, effective, handle]
    assert len(schema.own_indexes) == len(schema.indexes) - (bool(effective) and not primary)


def test_an_added_column_is_found_like_the_others() -> None:
    id, added = Column("id", ColumnType("int")), Column("Größe", ColumnType("int"))
    before = TableSchema("d", "t", (id,))
    for columns in ((id, added), (added, id)):
        after = before.with_columns(columns, added)
        assert after == TableSchema("d", "t", columns)
        assert [after.column(name) for name in ("ID", "gRÖSSE", "größe")] == [id, None, added]
    assert before.column("größe") is None


def test_a_column_that_a_key_names_twice_counts_once() -> None:
    columns = tuple(Column(name, ColumnType("int"), nullable=False) for name in ("a", "b"))
    stated = (Index("PRIMARY", ("b", "B", "a", "b"), primary=True),)
    assert TableSchema("d", "t", columns, stated).key == ("b", "a")
    assert TableSchema("d", "t", columns, declared_key=("a", "a")).key == ("a",)
