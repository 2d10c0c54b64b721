"""One table of the naive upstream: rows in a list, partitions by arithmetic."""

from dataclasses import dataclass, field

from tests.reference.changefeeds import Value

# How a column is declared, and what rows that were there get in it.
KINDS: dict[str, Value] = {
    "int": None,
    "int default 3": 3,
    "int not null": 0,
    "bigint not null default 4": 4,
    "varchar(20) default 'x,y'": "x,y",
    "varchar(20) not null": "",
    "enum('p','q','r') default 'q'": 2,
    "set('p','q')": None,
    "bit(4) default b'101'": 5,
    "decimal(8,2) default 1.5": "1.50",
    # These never travel.
    "int as (`id` + 1) virtual": None,
}
ENUM, SET = ("", "p", "q", "r"), ("", "p", "q", "p,q")


@dataclass
class Column:
    name: str
    kind: str

    @property
    def type(self) -> str:
        return self.kind.split(" ")[0].split("(")[0]

    @property
    def travels(self) -> bool:
        return not self.kind.endswith("virtual")


@dataclass
class RandomTable:
    """One table as it is upstream."""

    columns: list[Column]
    key: tuple[str, ...]
    rows: list[dict[str, Value]] = field(default_factory=list)
    # Upper bounds by name (the last one None), or a number of hash partitions, or neither.
    bounds: dict[str, int | None] | None = None
    hashes: int | None = None

    def like(self) -> "RandomTable":
        columns = [Column(c.name, c.kind) for c in self.columns]
        bounds = dict(self.bounds) if self.bounds else None
        return RandomTable(columns, self.key, bounds=bounds, hashes=self.hashes)

    def definition(self) -> str:
        columns = [f"`{c.name}` {c.kind}" for c in self.columns]
        if self.key:
            columns.append(f"primary key ({', '.join(self.key)}) nonclustered")
        return ", ".join(columns)

    def by(self) -> str:
        if self.hashes is not None:
            return f" PARTITION BY HASH (`id`) PARTITIONS {self.hashes}"
        if self.bounds is None:
            return ""
        parts = ",".join(self.part(name) for name in self.bounds)
        return f" PARTITION BY RANGE (`id`) ({parts})"

    def part(self, name: str) -> str:
        assert self.bounds is not None
        bound = self.bounds[name]
        return f"PARTITION `{name}` VALUES LESS THAN ({'MAXVALUE' if bound is None else bound})"

    def partitions(self) -> list[str]:
        if self.hashes is not None:
            return [f"p{n}" for n in range(self.hashes)]
        return list(self.bounds or ())

    def partition_of(self, row: dict[str, Value]) -> str:
        number = int(row["id"])  # type: ignore[arg-type]
        if self.hashes is not None:
            return f"p{number % self.hashes}"
        assert self.bounds is not None
        return next(n for n, bound in self.bounds.items() if bound is None or number < bound)

    def sent(self) -> list[Column]:
        return [column for column in self.columns if column.travels]

    def shown(self) -> list[tuple[str | None, ...]]:
        rows = (tuple(_shown(row[c.name], c.type) for c in self.sent()) for row in self.rows)
        return sorted(rows, key=str)


def _shown(value: Value, kind: str) -> str | None:
    if value is None:
        return None
    if kind in ("enum", "set"):
        return (ENUM if kind == "enum" else SET)[int(value)]
    return str(value)
