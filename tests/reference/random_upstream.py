"""A naive upstream for random workloads, to compare the model and the lake with.

It knows tables as lists of rows and partitions by arithmetic; it reads no SQL.
"""

from collections.abc import Callable
from random import Random

from tests.reference.changefeeds import (
    Ddl,
    Row,
    Step,
    Value,
    exchange,
    put,
    rename,
    rename_all,
    together,
)
from tests.reference.random_tables import KINDS, Column, RandomTable

# Rows by table and columns.
Shown = dict[str, list[tuple[str | None, ...]]]

STEPS = 60
NAMES = ("a", "b", "c", "archive/a", "archive/d")


class World:
    """Tables upstream, and the steps that made them."""

    def __init__(self, random: Random, length: int = STEPS) -> None:
        self.random = random
        self.length = length
        self.tables: dict[str, RandomTable] = {}
        self.steps: list[Step] = []
        # The rows of the tables, by the number of steps.
        self.states: dict[int, Shown] = {}
        self.numbers = iter(range(1, 10_000))

    def actions(self) -> list[Callable[[], None]]:
        """What may happen, as often as it is likely."""
        actions = [self.insert] * 6 + [self.update, self.delete] * 2 + [self.create] * 2
        actions += [self.add_column, self.drop_column, self.rename_column, self.retype, self.move]
        actions += [self.truncate, self.drop, self.rename, self.swap, self.copy, self.exchange]
        actions += [self.truncate_partition, self.drop_partition, self.repartition]
        actions += [self.reorganize, self.change_key, self.alter_much, self.drop_database]
        return actions

    def run(self) -> None:
        actions = self.actions()
        self.create()
        self.keep()
        while len(self.steps) < self.length:
            self.random.choice(actions)()
            self.keep()

    def keep(self) -> None:
        self.states[len(self.steps)] = {
            f"{name}({', '.join(c.name for c in table.sent())})": table.shown()
            for name, table in self.tables.items()
        }

    def some(self) -> tuple[str, RandomTable] | None:
        return self.random.choice(list(self.tables.items())) if self.tables else None

    def free(self) -> str | None:
        left = [name for name in NAMES if name not in self.tables]
        return self.random.choice(left) if left else None

    def say(self, sql: str, name: str, *, now: bool = True) -> None:
        table = ".".join(f"`{part}`" for part in name.split("/"))
        definition = self.tables[name].definition() if now else None
        self.steps.append(Ddl(sql.replace("@", table), name, definition))

    def partition(self) -> RandomTable:
        new = RandomTable([Column("id", "int not null")], ("id",))
        match self.random.randrange(3):
            case 0:
                new.bounds = {"p0": 20, "p1": 50, "p2": None}
            case 1:
                new.hashes = self.random.randrange(2, 5)
        return new

    # Rows

    def value(self, kind: str) -> Value:
        if "not null" not in kind and self.random.random() < 0.2:
            return None
        number = self.random.randrange(1, 100)
        match kind.split("(")[0].split(" ")[0]:
            case "varchar":
                return f"v{number}"
            case "enum":
                return number % 4
            case "set":
                return number % 4
            case "bit":
                return number % 16
            case "decimal":
                return f"{number}.25"
        return number

    def insert(self) -> None:
        if (found := self.some()) is None:
            return
        name, table = found
        row = {c.name: self.value(c.kind) for c in table.sent()}
        row["id"] = self.random.randrange(80)
        if all(other["id"] != row["id"] for other in table.rows):
            table.rows.append(row)
            self.steps.append(put(name, **row))

    def update(self) -> None:
        if (found := self.some()) is None or not found[1].rows:
            return
        name, table = found
        old = self.random.choice(table.rows)
        column = self.random.choice(table.sent())
        new = {**old, column.name: self.value(column.kind)}
        if column.name == "id":
            # A change of the key comes as delete and insert.
            if any(other["id"] == new["id"] for other in table.rows):
                return
            self.steps += [Row(name, {**old}, None), together(Row(name, None, {**new}))]
        else:
            self.steps.append(Row(name, {**old}, {**new}))
        table.rows[table.rows.index(old)] = new

    def delete(self) -> None:
        if (found := self.some()) is not None and found[1].rows:
            old = found[1].rows.pop(self.random.randrange(len(found[1].rows)))
            self.steps.append(Row(found[0], old, None))

    # Whole tables

    def create(self) -> None:
        if (name := self.free()) is None:
            return
        new = self.partition()
        for _ in range(self.random.randrange(3)):
            new.columns.append(Column(f"c{next(self.numbers)}", self.random.choice([*KINDS])))
        self.random.shuffle(new.columns)
        self.tables[name] = new
        self.say(f"CREATE TABLE @ ({new.definition()}){new.by()}", name)

    def copy(self) -> None:
        if (found := self.some()) is None or (name := self.free()) is None:
            return
        self.like(found[0], name)

    def truncate(self) -> None:
        if (found := self.some()) is not None:
            found[1].rows.clear()
            self.say("TRUNCATE TABLE @", found[0])

    def drop(self) -> None:
        if (found := self.some()) is None:
            return
        name, table = found
        self.say("DROP TABLE @", name, now=False)
        del self.tables[name]
        if self.random.random() < 0.4:
            self.tables[name] = table
            self.say("RECOVER TABLE @", name)

    def drop_database(self) -> None:
        inside = [name for name in self.tables if name.startswith("archive/")]
        if len(inside) == 2:
            for name in inside:
                del self.tables[name]
            self.steps.append(Ddl("DROP DATABASE `archive`", "archive", kind="database"))
            self.steps.append(Ddl("CREATE DATABASE `archive`", "archive", kind="database"))

    def rename(self) -> None:
        if (found := self.some()) is None or (name := self.free()) is None:
            return
        self.tables[name] = self.tables.pop(found[0])
        self.steps.append(rename(found[0], name))

    def swap(self) -> None:
        if len(self.tables) < 2 or (free := self.free()) is None:
            return
        one, two = self.random.sample(list(self.tables), 2)
        self.tables[one], self.tables[two] = self.tables[two], self.tables[one]
        self.steps += rename_all((one, free), (two, one), (free, two))

    # Columns

    def add_column(self) -> None:
        if (found := self.some()) is None:
            return
        name, table = found
        new = Column(f"c{next(self.numbers)}", self.random.choice([*KINDS]))
        at = self.random.randrange(len(table.columns) + 1)
        where = " FIRST" if at == 0 else f" AFTER `{table.columns[at - 1].name}`"
        table.columns.insert(at, new)
        for row in table.rows if new.travels else ():
            row[new.name] = KINDS[new.kind]
        self.say(f"ALTER TABLE @ ADD COLUMN `{new.name}` {new.kind}{where}", name)

    def other_column(self, table: RandomTable) -> Column | None:
        free = [c for c in table.columns if c.name not in (*table.key, "id")]
        return self.random.choice(free) if free else None

    def drop_column(self) -> None:
        if (found := self.some()) is not None and (column := self.other_column(found[1])):
            found[1].columns.remove(column)
            for row in found[1].rows:
                row.pop(column.name, None)
            self.say(f"ALTER TABLE @ DROP COLUMN `{column.name}`", found[0])

    def rename_column(self) -> None:
        if (found := self.some()) is not None and (column := self.other_column(found[1])):
            old, column.name = column.name, f"c{next(self.numbers)}"
            for row in found[1].rows if column.travels else ():
                row[column.name] = row.pop(old)
            self.say(f"ALTER TABLE @ RENAME COLUMN `{old}` TO `{column.name}`", found[0])

    def retype(self) -> None:
        if (found := self.some()) is None or (column := self.other_column(found[1])) is None:
            return
        if column.travels and column.type in ("int", "bigint", "decimal"):
            self._retype(found, column, "varchar(30)")
            for row in found[1].rows:
                value = row[column.name]
                row[column.name] = value if value is None else str(value)

    def _retype(self, found: tuple[str, RandomTable], column: Column, kind: str) -> None:
        old, column.name, column.kind = column.name, f"c{next(self.numbers)}", kind
        for row in found[1].rows:
            row[column.name] = row.pop(old)
        self.say(f"ALTER TABLE @ CHANGE COLUMN `{old}` `{column.name}` {kind}", found[0])

    def move(self) -> None:
        if (found := self.some()) is None:
            return
        name, table = found
        column = self.random.choice(table.columns)
        table.columns.remove(column)
        at = self.random.randrange(len(table.columns) + 1)
        where = "FIRST" if at == 0 else f"AFTER `{table.columns[at - 1].name}`"
        table.columns.insert(at, column)
        self.say(f"ALTER TABLE @ MODIFY COLUMN `{column.name}` {column.kind} {where}", name)

    def alter_much(self) -> None:
        if (found := self.some()) is None or (column := self.other_column(found[1])) is None:
            return
        name, table = found
        new = Column(f"c{next(self.numbers)}", "int default 3")
        table.columns.remove(column)
        table.columns.insert(0, new)
        for row in table.rows:
            row.pop(column.name, None)
            row[new.name] = 3
        self.say(
            f"ALTER TABLE @ DROP COLUMN `{column.name}`, COMMENT = 'c', ADD COLUMN"
            f" `{new.name}` int default 3 FIRST, ADD INDEX `i{new.name}`(`id`)",
            name,
        )

    def change_key(self) -> None:
        if (found := self.some()) is None:
            return
        name, table = found
        more = [c.name for c in table.columns if "not null" in c.kind and c.name != "id"]
        table.key = (*more[:1], "id")
        columns = ", ".join(table.key)
        self.say(f"ALTER TABLE @ DROP PRIMARY KEY, ADD PRIMARY KEY ({columns}) NONCLUSTERED", name)

    def some_parted(self) -> tuple[str, RandomTable] | None:
        parted = [(n, t) for n, t in self.tables.items() if t.partitions()]
        return self.random.choice(parted) if parted else None

    def truncate_partition(self) -> None:
        if (found := self.some_parted()) is None:
            return
        name, table = found
        gone = self.random.sample(table.partitions(), min(2, len(table.partitions())))
        table.rows = [row for row in table.rows if table.partition_of(row) not in gone]
        self.say(f"ALTER TABLE @ TRUNCATE PARTITION {', '.join(gone)}", name)

    def drop_partition(self) -> None:
        if (found := self.some_parted()) is None or len(found[1].bounds or ()) < 2:
            return
        name, table = found
        assert table.bounds is not None
        gone = next(iter(table.bounds))
        table.rows = [row for row in table.rows if table.partition_of(row) != gone]
        del table.bounds[gone]
        self.say(f"ALTER TABLE @ DROP PARTITION `{gone}`", name)

    def reorganize(self) -> None:
        if (found := self.some_parted()) is None or found[1].bounds is None:
            return
        name, table = found
        old = next(iter(table.bounds))
        bound = table.bounds[old]
        low, high = f"q{next(self.numbers)}", f"q{next(self.numbers)}"
        middle = 15 if bound is None else bound - 5
        if middle < 1:
            return
        rest = {n: b for n, b in table.bounds.items() if n != old}
        table.bounds = {low: middle, high: bound, **rest}
        into = f"{table.part(low)}, {table.part(high)}"
        self.say(f"ALTER TABLE @ REORGANIZE PARTITION `{old}` INTO ({into})", name)

    def repartition(self) -> None:
        if (found := self.some()) is None:
            return
        name, table = found
        if table.hashes is not None and self.random.random() < 0.6:
            table.hashes += 1
            self.say("ALTER TABLE @ ADD PARTITION PARTITIONS 1", name)
        elif table.partitions() and self.random.random() < 0.5:
            table.bounds = table.hashes = None
            self.say("ALTER TABLE @ REMOVE PARTITIONING", name)
        else:
            new = self.partition()
            if new.partitions():
                table.bounds, table.hashes = new.bounds, new.hashes
                self.say(f"ALTER TABLE @{table.by()}", name)

    def exchange(self) -> None:
        if (found := self.some_parted()) is None or (other := self.free()) is None:
            return
        name, table = found
        fresh = self.partner(name, other)
        partition = self.random.choice(table.partitions())
        fresh.rows = [row for row in table.rows if table.partition_of(row) == partition]
        table.rows = [row for row in table.rows if table.partition_of(row) != partition]
        self.steps.append(exchange(name, partition, other))

    def like(self, source: str, name: str) -> RandomTable:
        """Create an empty table like another one."""
        fresh = self.tables[name] = self.tables[source].like()
        full = source if "/" in source else f"shop/{source}"
        origin = ".".join(f"`{part}`" for part in full.split("/"))
        self.say(f"CREATE TABLE @ LIKE {origin}", name)
        return fresh

    def partner(self, source: str, name: str) -> RandomTable:
        """Create an empty table that can change rows with a partition of another one."""
        fresh = self.like(source, name)
        fresh.bounds = fresh.hashes = None
        self.say("ALTER TABLE @ REMOVE PARTITIONING", name)
        return fresh
