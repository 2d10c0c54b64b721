"""Small Canal-JSON streams of one table: rows, damaged statements on it, and rows again."""

import json
from random import Random
from typing import Any

from tests.fuzz.corpus import statements
from tests.fuzz.mutation import TEXTS, TYPES, damage_statement
from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.protocols.message import Message

FEED = changefeed_from_uri("dump:///d?protocol=canal-json&enable-tidb-extension=true")

# Types as statements declare them, as rows name them, and values that they hold.
_TYPES = [
    ("int", "int", ["0", "7", "-5"]),
    ("bigint unsigned", "bigint unsigned", ["18446744073709551615", "0"]),
    ("varchar(20)", "varchar", ["abc", "", "é𠮷", "12", "2024-01-02"]),
    ("varbinary(8)", "varbinary", ["ab", "\u00ff\u0000"]),
    ("decimal(10,2)", "decimal", ["1.50", "-0.01"]),
    ("double", "double", ["1.5", "-3e10"]),
    ("date", "date", ["2024-02-29", "0000-00-00"]),
    ("datetime(3)", "datetime", ["2024-01-02 03:04:05.678"]),
    ("timestamp", "timestamp", ["2024-01-02 03:04:05"]),
    ("time", "time", ["-12:34:56"]),
    ("enum('a','b','c')", "enum", ["1", "3"]),
    ("set('x','y')", "set", ["0", "3"]),
    ("bit(8)", "bit", ["255", "0"]),
    ("json", "json", ['{"a": 1}']),
    ("year", "year", ["2024"]),
]
_ALTERATIONS = [
    "ALTER TABLE `t` ADD COLUMN `n` {type} DEFAULT {default}",
    "ALTER TABLE `t` ADD COLUMN `n` {type} NOT NULL FIRST",
    "ALTER TABLE `t` ADD COLUMN (`n` {type}, `m` int)",
    "ALTER TABLE `t` DROP COLUMN `{column}`",
    "ALTER TABLE `t` MODIFY COLUMN `{column}` {type}",
    "ALTER TABLE `t` CHANGE `{column}` `{column}x` {type} AFTER `id`",
    "ALTER TABLE `t` RENAME COLUMN `{column}` TO `{other}`",
    "ALTER TABLE `t` ALTER COLUMN `{column}` SET DEFAULT {default}",
    "ALTER TABLE `t` ADD UNIQUE KEY `u` (`{column}`)",
    "ALTER TABLE `t` DROP PRIMARY KEY",
    "ALTER TABLE `t` ADD PRIMARY KEY (`{column}`)",
    "ALTER TABLE `t` CONVERT TO CHARACTER SET latin1",
    "ALTER TABLE `t` PARTITION BY HASH(`id`) PARTITIONS 3",
    "ALTER TABLE `t` PARTITION BY RANGE(`id`) (PARTITION p0 VALUES LESS THAN (5),"
    " PARTITION p1 VALUES LESS THAN MAXVALUE)",
    "ALTER TABLE `t` TRUNCATE PARTITION `p0`",
    "ALTER TABLE `t` DROP PARTITION `p0`",
    "ALTER TABLE `t` REMOVE PARTITIONING",
    "TRUNCATE TABLE `t`",
    "RENAME TABLE `d`.`t` TO `d`.`t2`",
    "RENAME TABLE `d`.`t2` TO `d`.`t`",
    "DROP TABLE `t`",
    "RECOVER TABLE `t`",
    "CREATE TABLE `t` LIKE `t2`",
    "ALTER DATABASE `d` CHARACTER SET latin1",
]
_KINDS = {"INSERT": 6, "UPDATE": 2, "DELETE": 1}


class Table:
    """A table as the stream's author believes it to be."""

    def __init__(self, random: Random) -> None:
        chosen = random.sample(_TYPES, random.randrange(1, 5))
        self.columns = {f"c{n}": type for n, type in enumerate(chosen)}
        self.key = random.choice((("id",), ("id",), ("id",), ("id", "c0"), ()))
        self.ids: list[str] = []

    def create(self, random: Random) -> str:
        columns = [f"`{name}` {declared}" for name, (declared, _, _) in self.columns.items()]
        if random.random() < 0.3:
            columns[0] += f" DEFAULT {_literal(random)}"
        key = [f"PRIMARY KEY ({','.join(self.key)})"] if self.key else []
        return f"CREATE TABLE `t` (`id` int NOT NULL,{','.join([*columns, *key])})"

    def row(self, random: Random) -> dict[str, Any]:
        kind = random.choices(list(_KINDS), list(_KINDS.values()))[0]
        if not self.ids:
            kind = "INSERT"
        number = str(len(self.ids)) if kind == "INSERT" else random.choice(self.ids)
        self.ids.append(number)
        values: dict[str, Any] = {"id": number}
        types = {"id": "int"}
        for name, (_, named, texts) in self.columns.items():
            values[name] = None if random.random() < 0.1 else random.choice(texts)
            types[name] = named
        if random.random() < 0.1:
            name = random.choice(list(values))
            values[name] = random.choice(TEXTS)
        if random.random() < 0.05:
            types[random.choice(list(types))] = random.choice(TYPES)
        if random.random() < 0.03:
            del values[random.choice(list(values))]
        old = None
        if kind == "UPDATE":
            names = random.sample(list(values), random.randrange(len(values) + 1))
            old = [{name: values[name] for name in names}]
        return {
            "type": kind,
            "pkNames": list(self.key) or None,
            "mysqlType": types,
            "sqlType": dict.fromkeys(types, 12),
            "data": [values],
            "old": old,
        }


def _literal(random: Random) -> str:
    return random.choice(
        ("NULL", "0", "'a'", "'12'", "1.5", "x'00ff'", "b'1'", "CURRENT_TIMESTAMP")
    )


def make_ddl_stream(random: Random) -> list[Message]:
    """Make the records of a stream: rows of one table between damaged statements on it."""
    table = Table(random)
    contents: list[dict[str, Any]] = []
    if random.random() < 0.8:
        contents.append(_ddl("CREATE", table.create(random)))
    for _ in range(random.randrange(1, 4)):
        contents += [table.row(random) for _ in range(random.randrange(3))]
        contents.append(_ddl("ALTER", _alteration(table, random)))
    contents += [table.row(random) for _ in range(random.randrange(3))]
    records, ts = [], 1000
    for offset, content in enumerate(contents):
        ts += random.choice((0, 1, 1, 10))
        whole = {
            "id": 0,
            "database": "d",
            "table": "t",
            "isDdl": False,
            "es": 0,
            "ts": 0,
            **content,
        }
        whole["_tidb"] = {"commitTs": ts}
        value = json.dumps(whole).encode()
        records.append(Message("topic", 0, offset, None, value, None))
    return records


def _alteration(table: Table, random: Random) -> str:
    sql = random.choice(_ALTERATIONS).format(
        type=random.choice((random.choice(_TYPES)[0], random.choice(TYPES) or "int")),
        default=_literal(random),
        column=random.choice([*table.columns, "id"]),
        other=random.choice(("z", "id", *table.columns)),
    )
    if random.random() < 0.5:
        sql = damage_statement(sql, random, statements())
    return sql


def _ddl(kind: str, sql: str) -> dict[str, Any]:
    return {"type": kind, "isDdl": True, "sql": sql or ";"}
