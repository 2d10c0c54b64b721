"""Random statements for a TiDB: rows of all types, and DDL between them."""

import string
from collections.abc import Callable, Iterator
from random import Random

DATABASE = "recorded"

# What a column may hold, as SQL.
Values = Callable[[Random], str]


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _pick(*texts: str) -> Values:
    return lambda random: random.choice(texts)


def _text(random: Random) -> str:
    signs = string.ascii_letters + " '\"\\,;|\n\r\täß漢😀%_"
    return _quote("".join(random.choices(signs, k=random.randrange(9))))


def _bytes(most: int) -> Values:
    return lambda random: f"x'{random.randbytes(random.randrange(most + 1)).hex()}'"


def _number(low: int, high: int) -> Values:
    edges = (low, high, 0)

    def draw(random: Random) -> str:
        if random.random() < 0.2:
            return str(random.choice([edge for edge in edges if low <= edge <= high]))
        return str(max(low, min(high, random.randrange(-50, 1000))))

    return draw


_float = _pick(
    *("0", "-0.1", "1e20", "1.5e-7", "123456789.125", "0.3333333333333333", "1e6", "-2.5e15"),
    *("999999.5", "1234567", "0.00001", "16777216", "3.4e38"),
)


def _moment(digits: int) -> Values:
    def draw(random: Random) -> str:
        second = f"{random.randrange(24):02}:{random.randrange(60):02}:{random.randrange(60):02}"
        day = f"{random.randrange(1990, 2036)}-{random.randrange(1, 13):02}-"
        fraction = "." + "".join(random.choices(string.digits, k=digits)) if digits else ""
        return f"'{day}{random.randrange(1, 29):02} {second}{fraction}'"

    return draw


# Of each type: its SQL, what a column of it holds, and how an UPDATE may compute a new value.
TYPES: dict[str, tuple[str, Values, str]] = {
    "i": ("INT DEFAULT 7", _number(-(1 << 31), (1 << 31) - 1), "{0} DIV 2 + 1"),
    "t": ("TINYINT UNSIGNED", _number(0, 255), "{0} DIV 3"),
    "s": ("SMALLINT", _number(-(1 << 15), (1 << 15) - 1), "-({0} DIV 2)"),
    "m": ("MEDIUMINT UNSIGNED ZEROFILL", _number(0, (1 << 24) - 1), "{0} DIV 5"),
    "b": ("BIGINT", _number(-(1 << 63), (1 << 63) - 1), "{0} DIV 7"),
    "u": ("BIGINT UNSIGNED", _number(0, (1 << 64) - 1), "{0} DIV 2"),
    "d": ("DECIMAL(20,5)", _pick("0", "-1.5", "123456789012345.12345", "0.00001"), "{0} / 3"),
    "f": ("FLOAT", _float, "{0} / 3"),
    "g": ("DOUBLE", _float, "{0} / 7"),
    "v": ("VARCHAR(40) DEFAULT _UTF8MB4'it''s'", _text, "CONCAT(LEFT({0}, 20), 'é')"),
    "c": ("CHAR(12)", _text, "REVERSE({0})"),
    "x": ("TEXT", _text, "REPEAT({0}, 3)"),
    "vb": ("VARBINARY(20)", _bytes(12), "LEFT({0}, 2)"),
    "bi": ("BINARY(6)", _bytes(6), "x'00ff'"),
    "bl": ("BLOB", _bytes(30), "CONCAT(LEFT({0}, 9), x'8000')"),
    "bt": ("BIT(12) DEFAULT b'101'", _pick("b'0'", "b'111111111111'", "5"), "b'1'"),
    "e": ("ENUM('a','b','it''s')", _pick("'a'", "'b'", "'it''s'"), "'b'"),
    "st": ("SET('x','y','z')", _pick("''", "'x'", "'x,z'", "'z,y'"), "'y'"),
    "dt": ("DATE", _pick("'2024-02-29'", "'1970-01-01'", "'9999-12-31'"), "'2001-02-03'"),
    "dm": ("DATETIME(6)", _moment(6), "'2020-01-02 03:04:05.6'"),
    "ts": (
        "TIMESTAMP(3) NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)",
        _moment(3),
        "NOW(3)",
    ),
    "tm": ("TIME(2)", _pick("'-838:59:59'", "'12:34:56.78'", "'00:00:00.01'"), "'01:00:00'"),
    "y": ("YEAR", _pick("1901", "2026", "2155"), "2000"),
    "j": (
        "JSON",
        _pick("'null'", "'[1, \"a\"]'", '\'{"b": 1.5, "a": [true, null]}\'', "'\"x\"'", "'1e3'"),
        "JSON_ARRAY({0}, 'k')",
    ),
}
_ALL = ", ".join(f"`{name}` {sql}" for name, (sql, _, _) in TYPES.items())

# Each has a way of its own to find its rows; an `id`, an `n` and some of the types.
TABLES: dict[str, tuple[str, str]] = {
    "types": (f"`id` INT, `n` INT, {_ALL}, PRIMARY KEY(`id`)", ""),
    "parts": (
        "`id` INT, `n` INT, `v` VARCHAR(40), `ts` TIMESTAMP(3) NULL, PRIMARY KEY(`id`)",
        " PARTITION BY RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (40),PARTITION `p1` VALUES"
        " LESS THAN (80),PARTITION `p2` VALUES LESS THAN (120),PARTITION `p9` VALUES LESS THAN"
        " (1000000))",
    ),
    "pair": (
        "`id` INT NOT NULL, `n` INT NOT NULL AUTO_INCREMENT, `v` VARCHAR(40), `u` BIGINT UNSIGNED,"
        " PRIMARY KEY(`id`, `n`) NONCLUSTERED, KEY `k`(`n`)",
        "",
    ),
    "named": (
        "`id` INT, `n` INT, `v` VARCHAR(40) NOT NULL DEFAULT _UTF8MB4'', `d` DECIMAL(20,5),"
        " UNIQUE `w`(`n`), PRIMARY KEY(`id`) NONCLUSTERED",
        "",
    ),
    "derived": (
        "`id` INT, `n` INT, `v` VARCHAR(40), `sum` INT GENERATED ALWAYS AS(`id`+1) VIRTUAL,"
        " `twice` BIGINT GENERATED ALWAYS AS(`n`*2) STORED, `g` DOUBLE, PRIMARY KEY(`id`)",
        "",
    ),
    "hashed": (
        "`id` BIGINT, `n` INT, `j` JSON, `bl` BLOB, PRIMARY KEY(`id`)",
        " PARTITION BY HASH (`id`) PARTITIONS 3",
    ),
}
# A partition of the one and the other exchange their rows, whichever they have.
_EXCHANGED = "`id` INT, `n` INT, `v` VARCHAR(40), `d` DECIMAL(20,5), PRIMARY KEY(`id`)"
TABLES |= {
    "span": (
        _EXCHANGED,
        " PARTITION BY RANGE (`id`) (PARTITION `low` VALUES LESS THAN (0),PARTITION `rest` VALUES"
        " LESS THAN (MAXVALUE))",
    ),
    "loose": (_EXCHANGED, ""),
}
EXCHANGE = (
    f"ALTER TABLE `{DATABASE}`.`span` EXCHANGE PARTITION `rest` WITH TABLE `{DATABASE}`.`loose`"
)
# With an id that it had before, `loose` would wait until Simple repeats its schema.
_RENUMBER = (
    "ALTER TABLE `span` REORGANIZE PARTITION `rest` INTO (PARTITION `rest` VALUES LESS THAN"
    " (MAXVALUE))"
)
_VIEW = (
    "CREATE ALGORITHM = UNDEFINED DEFINER = CURRENT_USER SQL SECURITY DEFINER VIEW"
    f" `{DATABASE}`.`seen` AS SELECT `id`,`n` FROM `{DATABASE}`.`pair`"
)
# These have what takes care: collations in keys and partitions, or no key at all.
ODD_TABLES: dict[str, tuple[str, str]] = {
    "folded": (
        "`id` VARCHAR(20) COLLATE utf8mb4_general_ci, `n` INT, `v` VARCHAR(40), `st` SET('x','y',"
        "'z'), PRIMARY KEY(`id`)",
        "",
    ),
    "sorted": (
        "`id` VARCHAR(20) COLLATE utf8mb4_unicode_ci NOT NULL, `n` INT, `bt` BIT(12), `vb`"
        " VARBINARY(20), UNIQUE KEY `uk`(`id`)",
        "",
    ),
    "listed": (
        "`id` INT, `n` INT, `d` DECIMAL(20,5), PRIMARY KEY(`id`)",
        " PARTITION BY LIST (`id` MOD 3) (PARTITION `p0` VALUES IN (0),PARTITION `p1` VALUES IN"
        " (1),PARTITION `p2` VALUES IN (2))",
    ),
    "keyed": (
        "`id` VARCHAR(20) COLLATE utf8mb4_general_ci, `n` INT, `tm` TIME(2), PRIMARY KEY(`id`)",
        " PARTITION BY KEY (`id`) PARTITIONS 3",
    ),
    "spelled": (
        "`id` VARCHAR(20) COLLATE utf8mb4_general_ci, `n` INT, `y` YEAR, PRIMARY KEY(`id`)",
        " PARTITION BY RANGE COLUMNS (`id`) (PARTITION `p0` VALUES LESS THAN ('b'),PARTITION `p1`"
        " VALUES LESS THAN ('ö'),PARTITION `p2` VALUES LESS THAN (MAXVALUE))",
    ),
    "keyless": ("`id` INT, `n` INT, `v` VARCHAR(40), `g` DOUBLE", ""),
}
# DDL in the wording of TiCDC, in this order; `fresh` is created and dropped on the way.
STATEMENTS = (
    "ALTER TABLE `types` ADD COLUMN `extra` VARCHAR(30) NOT NULL DEFAULT _UTF8MB4'new'",
    "ALTER TABLE `parts` TRUNCATE PARTITION `p1`",
    "ALTER TABLE `types` MODIFY COLUMN `t` BIGINT",
    "CREATE TABLE `fresh` (`id` INT, `n` INT, `v` VARCHAR(40), PRIMARY KEY(`id`))",
    "ALTER TABLE `pair` ADD COLUMN `first` DATETIME(3) DEFAULT _UTF8MB4'2020-01-01 00:00:00.5'"
    " FIRST",
    "ALTER TABLE `parts` DROP PARTITION `p2`",
    EXCHANGE,
    "RENAME TABLE `named` TO `renamed`",
    _VIEW,
    "CREATE SEQUENCE `numbers`",
    "ALTER TABLE `derived` DROP COLUMN `g`",
    "TRUNCATE TABLE `hashed`",
    "ALTER TABLE `parts` REORGANIZE PARTITION `p9` INTO (PARTITION `p3` VALUES LESS THAN (160),"
    "PARTITION `p4` VALUES LESS THAN (MAXVALUE))",
    "ALTER TABLE `types` MODIFY COLUMN `d` DECIMAL(24,2)",
    "ALTER TABLE `renamed` DROP INDEX `w`",
    "ALTER TABLE `types` CHANGE COLUMN `v` `words` VARCHAR(200) DEFAULT _UTF8MB4'it''s'",
    "ALTER TABLE `fresh` ADD INDEX `in`(`n`)",
    "ALTER TABLE `hashed` ADD COLUMN `ts` TIMESTAMP NULL DEFAULT _UTF8MB4'2024-05-06 07:08:09'",
    "DROP TABLE `fresh`",
    "ALTER TABLE `loose` ADD COLUMN `late` INT DEFAULT 5",
    "ALTER TABLE `span` ADD COLUMN `late` INT DEFAULT 5",
    f"DROP VIEW `{DATABASE}`.`seen`",
    _RENUMBER,
    "ALTER TABLE `types` DROP COLUMN `i`, ADD COLUMN `late` TIME(3) DEFAULT _UTF8MB4'10:00:00'",
    "RENAME TABLE `renamed` TO `passing`, `derived` TO `renamed`, `passing` TO `derived`",
    "ALTER TABLE `types` MODIFY COLUMN `e` ENUM('a','b','it''s','more') AFTER `id`",
    EXCHANGE,
    "ALTER TABLE `parts` ADD COLUMN `k` INT DEFAULT 3 AFTER `id`",
    "DROP SEQUENCE `numbers`",
    "CREATE TABLE `fresh` (`id` VARCHAR(9), `n` INT, `v` TEXT, PRIMARY KEY(`id`))",
    "ALTER TABLE `types` MODIFY COLUMN `id` BIGINT",
)


class Statements:
    """Draws statements by a seed, for the tables and columns that there are at the moment."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        # Tables whose `id` is a text.
        self.with_text_ids: set[str] = set()
        self._text_keys = False
        self._drawn = 0
        self._exchanges = 0

    def draw(self, tables: dict[str, list[str]]) -> list[tuple[str, str]]:
        """Draw the statements of one transaction, each with its table; some may fail."""
        names = self._random.choices(sorted(tables), k=self._random.choice((1, 1, 2, 4)))
        return [(name, self._draw(name, tables[name])) for name in names]

    def _draw(self, table: str, columns: list[str]) -> str:
        random, name = self._random, f"`{DATABASE}`.`{table}`"
        self._text_keys = table in self.with_text_ids
        key, most = self._key(), random.choice((1, 1, 3, 10))
        kind = random.random()
        if kind < 0.45:
            verb = random.choice(("INSERT", "REPLACE", "REPLACE", "INSERT IGNORE"))
            update = " ON DUPLICATE KEY UPDATE " + self._set(columns)
            return f"{verb} INTO {name} {self._rows(columns, most)}" + update * (verb == "INSERT")
        if kind < 0.75:
            return f"UPDATE {name} SET {self._set(columns)} WHERE `id` >= {key} LIMIT {most}"
        if kind < 0.83:
            # Keys move: to free ones, or one past the other.
            new = random.choice(("`id` + 1", "`id` + 30", f"{key}", "`n`"))
            new = f"CONCAT(`id`, {key})" if self._text_keys else new
            order = random.choice(("", " DESC"))
            return (
                f"UPDATE IGNORE {name} SET `id` = {new} WHERE `id` >= {key}"
                f" ORDER BY `id`{order} LIMIT {most}"
            )
        if kind < 0.9:
            new = self._number()
            return f"UPDATE {name} SET `n` = {new} WHERE `id` >= {key} ORDER BY `id` LIMIT 1"
        if kind < 0.99:
            return f"DELETE FROM {name} WHERE `id` >= {key} ORDER BY `id` LIMIT {most}"
        return f"DELETE FROM {name}"

    def _key(self) -> str:
        if self._text_keys:
            return _quote(
                "".join(self._random.choices("aAbBäÖoß é", k=self._random.randrange(1, 4)))
            )
        return self._number()

    def _number(self) -> str:
        return str(self._random.randrange(200))

    def _rows(self, columns: list[str], count: int) -> str:
        stated = ["id", "n", *(c for c in columns if c in TYPES and self._random.random() < 0.7)]
        rows = ", ".join(f"({', '.join(self._values(stated))})" for _ in range(count))
        return f"({', '.join(f'`{column}`' for column in stated)}) VALUES {rows}"

    def _values(self, columns: list[str]) -> Iterator[str]:
        for column in columns:
            if column in ("id", "n"):
                yield self._key() if column == "id" else self._number()
            elif self._random.random() < 0.15:
                yield "NULL" if self._random.random() < 0.5 else "DEFAULT"
            else:
                yield TYPES[column][1](self._random)

    def _set(self, columns: list[str]) -> str:
        known = [column for column in columns if column in TYPES]
        parts = (
            [f"`n` = `n` + {self._number()}"] if not known or self._random.random() < 0.2 else []
        )
        for column in self._random.sample(known, min(len(known), 3)):
            _, values, formula = TYPES[column]
            is_value = self._random.random() < 0.6
            new = values(self._random) if is_value else formula.format(f"`{column}`")
            parts.append(f"`{column}` = {new}")
        return ", ".join(parts)

    # DDL

    def draw_ddl(self, tables: dict[str, list[str]], partitions: dict[str, list[str]]) -> str:
        """Draw a DDL in the wording of TiCDC; TiDB may not accept it."""
        random = self._random
        self._drawn += 1
        name = random.choice(sorted(tables))
        column = random.choice([c for c in tables[name] if c not in ("id", "n")] or ["n"])
        # Existing rows would get the time at which the DDL runs, which no message states.
        added = random.choice(sorted(set(TYPES) - {"ts", *tables[name]}) or ["none"])
        place = random.choice(("", " FIRST", " AFTER `id`"))
        sql = TYPES[added][0] if added in TYPES else "INT"
        actions = [
            f"ADD COLUMN `{added}` {sql}{place}",
            f"ADD COLUMN `{added}` {sql}",
            f"DROP COLUMN `{column}`",
            # Under another name, no statement gives it a value.
            f"CHANGE COLUMN `{column}` `c{self._drawn}` {random.choice(CONVERSIONS)}{place}",
            f"RENAME COLUMN `{column}` TO `r{self._drawn}`",
            f"ADD INDEX `i{self._drawn}`(`n`)",
            f"ADD COLUMN `a{self._drawn}` INT DEFAULT 5, DROP COLUMN `{column}`",
            f"COMMENT = 'number {self._drawn}'",
            "REMOVE PARTITIONING",
        ]
        if parts := partitions[name]:
            count = min(len(parts), random.choice((1, 1, 2)))
            chosen = ",".join(f"`{part}`" for part in random.sample(parts, count))
            actions += [f"TRUNCATE PARTITION {chosen}", f"DROP PARTITION {chosen}"] * 3
        elif random.random() < 0.2:
            actions += [
                "PARTITION BY HASH (`id`) PARTITIONS 2",
                "PARTITION BY KEY (`id`) PARTITIONS 2",
            ]
        kind, new = random.random(), f"t{self._drawn}"
        if kind > 0.94:
            self._exchanges += kind > 0.97
            exchange = EXCHANGE if self._exchanges % 2 else _RENUMBER
            view = random.choice((_VIEW, f"DROP VIEW `{DATABASE}`.`seen`"))
            return exchange if kind > 0.97 else view
        if kind < 0.06:
            return f"TRUNCATE TABLE `{name}`"
        if kind < 0.1 and len(tables) > 4:
            return f"DROP TABLE `{name}`"
        if kind < 0.2:
            other = random.choice(sorted(tables))
            swap = f", `{other}` TO `{name}`, `{new}` TO `{other}`" if other != name else ""
            return f"RENAME TABLE `{name}` TO `{new}`{swap}"
        if kind < 0.25:
            return f"CREATE TABLE `{new}` LIKE `{name}`"
        return f"ALTER TABLE `{name}` {random.choice(actions)}"


# To which types columns are changed.
CONVERSIONS = (
    *("BIGINT", "DECIMAL(30,3)", "DOUBLE", "VARCHAR(80)", "CHAR(60)", "TEXT", "VARBINARY(80)"),
    *("BLOB", "JSON", "VARCHAR(80) NOT NULL DEFAULT _UTF8MB4'none'"),
)
