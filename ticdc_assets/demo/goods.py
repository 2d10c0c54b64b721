"""The content of the shop: its tables, goods and customer names."""

from typing import Any, NamedTuple

from ticdc_assets.demo.column_type import column
from ticdc_assets.events import Column


class TableDefinition(NamedTuple):
    name: str
    columns: tuple[Column, ...]
    keys: dict[str, Any]


CUSTOMERS = TableDefinition(
    "customers",
    (
        column("id", "bigint", nullable=False),
        column("name", "varchar(60)", nullable=False),
        column("email", "varchar(80)"),
        column("phone", "varchar(20)"),
        column("fax", "varchar(20)"),
        column("tier", "enum('bronze','silver','gold')", nullable=False, default="bronze"),
        column("interests", "set('cinema','music','garden','kitchen','sport')"),
        column("avatar", "blob"),
        column("token", "varbinary(16)"),
        column("born", "date"),
        column("created_at", "datetime(3)", nullable=False),
        column("seen_at", "timestamp(6)"),
    ),
    {"primary": ("id",), "unique": {"uk_email": ("email",)}},
)
ORDERS = TableDefinition(
    "orders",
    (
        column("id", "bigint unsigned", nullable=False),
        column("customer_id", "bigint", nullable=False),
        column(
            "status",
            "enum('new','paid','shipped','delivered','cancelled')",
            nullable=False,
            default="new",
        ),
        column("total", "decimal(12,2)", nullable=False, default="0.00"),
        column("note", "text"),
        column("meta", "json"),
        column("placed_at", "timestamp(3)"),
        column("updated_at", "datetime(6)"),
    ),
    {"primary": ("id",)},
)
ORDER_ITEMS = TableDefinition(
    "order_items",
    (
        column("order_id", "bigint unsigned", nullable=False),
        column("line", "int", nullable=False),
        column("sku", "varchar(20)", nullable=False),
        column("quantity", "int", nullable=False),
        column("price", "decimal(10,2)", nullable=False),
        column("discount", "double"),
        column("gift", "tinyint(1)", nullable=False, default="0"),
    ),
    {"primary": ("order_id", "line")},
)
# No primary key: a unique key over NOT NULL columns identifies the rows.
INVENTORY = TableDefinition(
    "inventory",
    (
        column("sku", "varchar(20)", nullable=False),
        column("warehouse", "smallint unsigned", nullable=False),
        column("name", "varchar(60)", nullable=False),
        column("price", "decimal(10,2)", nullable=False),
        column("quantity", "int", nullable=False),
        column("weight", "float"),
        column("since", "year"),
        column("opens", "time(3)"),
    ),
    {"unique": {"uk_place": ("sku", "warehouse")}},
)
SESSIONS = TableDefinition(
    "sessions",
    (
        column("id", "char(12)", nullable=False),
        column("customer_id", "bigint"),
        column("agent", "varchar(120)"),
        column("pages", "mediumint unsigned", nullable=False, default="0"),
        column("flags", "bit(8)"),
        column("opened_at", "timestamp"),
    ),
    {"primary": ("id",)},
)
TABLES = (CUSTOMERS, ORDERS, ORDER_ITEMS, INVENTORY, SESSIONS)
# Created while the shop runs.
REVIEWS = TableDefinition(
    "reviews",
    (
        column("id", "bigint", nullable=False),
        column("sku", "varchar(20)", nullable=False),
        column("stars", "tinyint unsigned", nullable=False),
        column("body", "mediumtext"),
    ),
    {"primary": ("id",)},
)

FIRST_NAMES = (
    "Anna", "Björn", "Chloé", "Dmitri", "Éva", "Fatima", "Gábor", "Hana", "Ivan", "Jürgen",
    "小明", "美咲", "민준", "Zoë", "Nguyễn", "Łukasz", "Siobhán", "José", "Αθηνά", "O'Brian",
)  # fmt: skip
LAST_NAMES = (
    "Smith", "Müller", "García", "王", "陈", "佐藤", "김", "Иванов", "Öztürk", "D'Angelo",
    "van \"Dutch\" Dyk", "Kowalski", "Papadopoulos", "Nováková", "Silva", "Hansen",
)  # fmt: skip
PRODUCTS = tuple(
    (f"SKU-{number:04}", name, price)
    for number, (name, price) in enumerate(
        [
            ("Teapot, 1.2 l", "24.90"),
            ('Screen 27"', "249.00"),
            ("Espresso ☕ beans", "13.49"),
            ("手帳 2026", "9.80"),
            ("Garden <gnome> & friends", "34.50"),
            ("Blåhaj", "19.99"),
            ("USB-C cable\\adapter", "7.25"),
            ("Läderväska", "120.00"),
            ("Puzzle 🧩 1000", "18.75"),
            ("Bike lamp", "42.10"),
            ("Notebook", "3.30"),
            ("Wok", "55.00"),
        ],
        1,
    )
)
NOTES = (
    None,
    None,
    "leave at the door",
    'ring twice, say "hello"',
    "Bitte nicht\nknicken",
    "送货前请打电话",
    "back\\slash, comma; tab\there",
    "\\N",
    "",
    "<b>fragile</b> & heavy 🎁",
)
AGENTS = ("Mozilla/5.0 (X11; Linux x86_64)", "curl/8.5.0", "Safari — iPhone", None)
WEIGHTS = ("0.25", "1.5", "12.75", "0.1", "3", None)
DISCOUNTS = (None, "0", "0.05", "0.125", "0.3333333333333333")
INTERESTS = (None, "", "cinema", "cinema,music", "garden,kitchen,sport", "music,sport")
OPENINGS = ("08:30:00.000", "00:00:00.500", "23:59:59.999", None)
