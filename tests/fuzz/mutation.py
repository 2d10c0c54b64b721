"""Damage: to bytes, to JSON as a tree, to the words of a statement."""

import json
import re
from random import Random
from typing import Any

# Texts at the edges of types, formats and parsers.
TEXTS = [
    *("", " ", "0", "-0", "1", "-1", "00012", "1e5", "1.5", ".5", "5.", "1e400", "nan", "Infinity"),
    *("127", "128", "255", "256", "65536", "2147483648", "4294967296", "9223372036854775808"),
    *("18446744073709551615", "18446744073709551616", "-9223372036854775809", "9" * 400),
    *("0000-00-00", "2024-00-00", "2024-02-30", "9999-12-31", "1000-01-01", "0001-01-01"),
    *("0000-00-00 00:00:00", "2024-01-01 24:00:00", "2024-11-03 01:30:00", "1969-12-31 23:59:59"),
    *("2038-01-19 03:14:08", "838:59:59", "-838:59:59", "839:00:00", "2155", "2156", "1900"),
    *(
        "null",
        "NULL",
        "true",
        "\\N",
        "\0",
        "\r\n",
        "'",
        '"',
        "`",
        "\\",
        "a,b",
        "é",
        "𠮷👍",
        "\udcff",
    ),
    *(
        "\ud800",
        "AP8=",
        "AP8",
        "====",
        "{}",
        "[]",
        "[1,2]",
        '{"a":1}',
        "x" * 3000,
        "a b",
        "__is_cdc",
    ),
]
TYPES = [
    *("int", "int unsigned", "bigint", "bigint unsigned", "tinyint(1)", "varchar(3)", "char(300)"),
    *("varbinary(10)", "binary(4294967296)", "blob", "longtext", "text", "json", "date", "year"),
    *(
        "datetime",
        "datetime(6)",
        "timestamp",
        "timestamp(9)",
        "time",
        "time(3)",
        "bit(1)",
        "bit(64)",
    ),
    *("bit(9999999999)", "decimal(10,2)", "decimal(65,30)", "decimal(9999999999,2)", "decimal"),
    *(
        "float",
        "double",
        "double(500,400)",
        "enum('a','b')",
        "set('a','b')",
        "enum",
        "set",
        "vector",
    ),
    *("geometry", "", "int(", "int not null", "varchar(10) charset binary", "NULL", "unknown"),
]
NUMBERS = [
    *(
        0,
        1,
        -1,
        2,
        127,
        255,
        256,
        2**31,
        2**32,
        2**53 + 1,
        2**63 - 1,
        2**63,
        2**64,
        -(2**63),
        10**30,
    ),
    *(0.5, -0.0, 1e308, 5e-324),
]
_SCALARS: list[Any] = [*TEXTS, *TYPES, *NUMBERS, None, True, False, [], {}, [[]], {"": None}]
STATEMENTS = [
    "",
    ";",
    "ALTER TABLE",
    "DROP DATABASE `golden`",
    "TRUNCATE TABLE t",
    "FLASHBACK CLUSTER TO TIMESTAMP '2024-01-01'",
    "CREATE TABLE t (a int primary key, b bit(9999999999))",
    "ALTER TABLE t ADD COLUMN (x int, y decimal(999,2))",
    "ALTER TABLE t DROP PRIMARY KEY",
    "RENAME TABLE t TO u, u TO t",
    "CREATE TABLE t LIKE t",
    "ALTER TABLE t PARTITION BY HASH(a) PARTITIONS 9999999999",
    "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE t",
]
_WORDS = """
    create alter drop rename truncate table database index add modify change column partition by
    range list hash key columns values less than in maxvalue default null not primary unique if
    exists like to first after set convert charset collate comment int bigint varchar(10) char(255)
    decimal(10,2) enum('a') set('x','y') double bit(5) binary(3) text json date datetime(3)
    timestamp time year unsigned generated always as stored virtual exchange with reorganize into
    coalesce remove partitioning ( ) , ; . = ' " ` '' 'x' x'00' b'1' 0 1 -1 1.5 9999999999 /*! */ --
    é a b id id2 current_timestamp on update auto_increment recover flashback cascade validation
""".split()  # noqa: SIM905 - it reads better
_TOKENS = re.compile(r"\s+|\w+|'[^']*'|`[^`]*`|.", re.DOTALL)


def damage_bytes(data: bytes, random: Random) -> bytes:
    """Flip, cut, repeat, overwrite or exchange a few bytes."""
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        if not data:
            return random.randbytes(random.randrange(8))
        at, to = sorted(random.randrange(len(data) + 1) for _ in range(2))
        to = min(to, at + random.choice((1, 2, 8, 200)))
        match random.randrange(6):
            case 0:
                at = min(at, len(data) - 1)
                flipped = data[at] ^ 1 << random.randrange(8)
                data = data[:at] + bytes([flipped]) + data[at + 1 :]
            case 1:
                data = data[:at] + data[to:]
            case 2:
                data = data[:to] + data[at:]
            case 3:
                data = data[:at]
            case 4:
                data = data[:at] + random.randbytes(random.randrange(1, 9)) + data[to:]
            case _:
                written = random.choice(TEXTS).encode("utf-8", "surrogatepass")
                data = data[:at] + written + data[to:]
    return data


class Pairs(list[tuple[str, Any]]):
    """A JSON object with its members in order, of which several may have one name."""


def read_json(data: bytes) -> Any:
    """Read JSON with objects as `Pairs`; raise ValueError."""
    return json.loads(data, object_pairs_hook=Pairs)


def write_json(tree: Any) -> bytes:
    """Write what `read_json` reads."""
    return _write(tree).encode("utf-8", "surrogatepass")


def _write(tree: Any) -> str:
    if isinstance(tree, Pairs):
        members = (f"{json.dumps(name)}:{_write(value)}" for name, value in tree)
        return "{" + ",".join(members) + "}"
    if isinstance(tree, list):
        return "[" + ",".join(map(_write, tree)) + "]"
    return json.dumps(tree, ensure_ascii=False)


def damage_tree(tree: Any, random: Random, donors: list[Any]) -> Any:
    """Change a few nodes: other scalars, members lost, doubled, renamed or taken from `donors`."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        containers = list(_containers(tree))
        if not containers:
            return random.choice(_SCALARS)
        _damage_container(random.choice(containers), random, donors)
    return tree


def _containers(tree: Any) -> Any:
    if isinstance(tree, list):
        if tree:
            yield tree
        for item in tree:
            yield from _containers(item[1] if isinstance(tree, Pairs) else item)


def _damage_container(node: list[Any], random: Random, donors: list[Any]) -> None:
    at = random.randrange(len(node))
    action = random.randrange(10)
    if action == 0:
        del node[at]
    elif action == 1:
        node.insert(random.randrange(len(node) + 1), node[at])
    elif not isinstance(node, Pairs):
        node[at] = random.choice(_SCALARS)
    else:
        name, value = node[at]
        other_name, other_value = random.choice(node)
        match action:
            case 2:
                node[at] = other_name, value
            case 3:
                node[at] = random.choice((name.upper(), name + " ", "", "id", *TEXTS[:4])), value
            case 4:
                node[at] = name, other_value
            case 5 if donors:
                node[at] = name, random.choice(donors)
            case 6 if isinstance(value, str):
                node[at] = name, random.choice((value + "x", value[:-1], value * 2, value.upper()))
            case 7 if isinstance(value, int):
                node[at] = name, value + random.choice((-1, 1, 1 << 18, -(1 << 18)))
            case 8:
                node[at] = name, random.choice(TYPES)
            case _:
                node[at] = name, random.choice(_SCALARS)


def list_scalars(tree: Any) -> list[Any]:
    """List the scalars of a tree, as donors for others."""
    if isinstance(tree, Pairs):
        return [scalar for _, value in tree for scalar in list_scalars(value)]
    if isinstance(tree, list):
        return [scalar for value in tree for scalar in list_scalars(value)]
    return [tree]


def damage_statement(sql: str, random: Random, donors: list[str]) -> str:
    """Lose, double, replace or insert words of a statement, or take them from another."""
    if random.random() < 0.05:
        return random.choice(STATEMENTS)
    words = _TOKENS.findall(sql) or [""]
    for _ in range(random.choice((1, 1, 2, 3))):
        at, to = sorted(random.randrange(len(words) + 1) for _ in range(2))
        to = min(to, at + random.choice((1, 1, 3, 8)))
        match random.randrange(6):
            case 0:
                words[at:to] = []
            case 1:
                words[to:to] = words[at:to]
            case 2:
                words.insert(at, f" {random.choice(_WORDS)} ")
            case 3:
                words[at:to] = [random.choice(_WORDS)]
            case 4 if donors:
                other = _TOKENS.findall(random.choice(donors)) or [""]
                start = random.randrange(len(other))
                words[at:to] = other[start : start + random.choice((1, 3, 9))]
            case _:
                words.insert(at, random.choice(words) if words else "")
    return "".join(words)
