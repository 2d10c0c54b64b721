"""Random values of every type as TiCDC sends them, and the bytes of each that TiDB hashes.

The bytes follow TiDB's documentation of row checksums; nothing of the project computes them.
"""

import base64
import json
import struct
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from random import Random
from zlib import crc32

# A text of a row image, and the bytes.
Hashed = tuple[str, bytes]
Make = Callable[[Random], Hashed]

_WORDS = ("", "a", "Zoë", "雪", "😀", "with space ", "'\"\\", "line\nbreak", "\0", "x" * 300)


def _integer(low: int, high: int) -> Make:
    def make(random: Random) -> Hashed:
        number = random.choice([low, high, 0, low + random.randrange(high - low + 1)])
        return str(number), (number % (1 << 64)).to_bytes(8, "little")

    return make


def _with_length(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _as_text(text: str) -> Hashed:
    return text, _with_length(text.encode(errors="surrogateescape"))


def _words(random: Random) -> Hashed:
    return _as_text("".join(random.choices(_WORDS, k=random.randrange(3))))


def _bad_utf8(random: Random) -> Hashed:
    return _as_text("caf" + random.choice("\udce9\udcff\\") + random.choice(_WORDS))


def _json(random: Random) -> Hashed:
    return _as_text(json.dumps({"k": random.choice(_WORDS), "n": [1.5, None, True]}))


def _bytes(random: Random) -> Hashed:
    data = random.randbytes(random.randrange(20))
    return base64.b64encode(data).decode(), _with_length(data)


def _decimal(digits: int, places: int) -> Make:
    def make(random: Random) -> Hashed:
        number = random.choice([0, 1, random.randrange(10**digits), 10**digits - 1])
        text = str(number).rjust(places + 1, "0")
        if places:
            text = f"{text[:-places]}.{text[-places:]}"
        return _as_text("-" + text if number and random.random() < 0.5 else text)

    return make


def _float(random: Random) -> Hashed:
    (single,) = struct.unpack("<f", struct.pack("<f", random.uniform(-1e6, 1e6)))
    # The shortest text of 32 bits may have fewer digits; more of them name the same number.
    return repr(single), struct.pack("<d", single)


def _double(random: Random) -> Hashed:
    number = random.choice([0.0, -0.0, 5e-324, 1.7e308, 0.1, random.uniform(-1, 1)])
    return repr(number), struct.pack("<d", number)


def _day(random: Random) -> datetime:
    return datetime(1970, 1, 2) + timedelta(seconds=random.randrange(2_100_000_000))


def _date(random: Random) -> Hashed:
    return _as_text(random.choice(["0000-00-00", "2024-00-10", f"{_day(random):%Y-%m-%d}"]))


def _moment(places: int, *zero: str) -> Make:
    def make(random: Random) -> Hashed:
        text = random.choice([*zero, f"{_day(random):%Y-%m-%d %H:%M:%S}"])
        digits = "".join(random.choices("01", k=places))
        return _as_text(f"{text}.{digits}" if places else text)

    return make


def _time(random: Random) -> Hashed:
    return _as_text(random.choice(["-838:59:59.00", "00:00:00.00", "12:34:56.70"]))


def _vector(random: Random) -> Hashed:
    numbers = [random.randrange(-9, 9) / 4 for _ in range(random.randrange(4))]
    text = json.dumps(numbers, separators=(",", ":"))
    return text, struct.pack(f"<I{len(numbers)}f", len(numbers), *numbers)


MAKERS: Mapping[str, Make] = {
    "tinyint": _integer(-128, 127),
    "tinyint unsigned": _integer(0, 255),
    "smallint": _integer(-(1 << 15), (1 << 15) - 1),
    "smallint unsigned": _integer(0, (1 << 16) - 1),
    "mediumint": _integer(-(1 << 23), (1 << 23) - 1),
    "mediumint unsigned": _integer(0, (1 << 24) - 1),
    "int": _integer(-(1 << 31), (1 << 31) - 1),
    "int unsigned": _integer(0, (1 << 32) - 1),
    "bigint": _integer(-(1 << 63), (1 << 63) - 1),
    "bigint unsigned": _integer(0, (1 << 64) - 1),
    "bit(9)": _integer(0, 511),
    "bit(64)": _integer(0, (1 << 64) - 1),
    "year": _integer(1970, 2100),
    "float": _float,
    "double": _double,
    "decimal(12,2)": _decimal(12, 2),
    "decimal(10)": _decimal(10, 0),
    "decimal(38,30)": _decimal(38, 30),
    "decimal(60,5)": _decimal(60, 5),
    "char(20)": _words,
    "varchar(2000)": _bad_utf8,
    "longtext": _words,
    "json": _json,
    "varbinary(20)": _bytes,
    "longblob": _bytes,
    "date": _date,
    "datetime": _moment(0, "0000-00-00 00:00:00"),
    "datetime(6)": _moment(6),
    "timestamp": _moment(0, "0000-00-00 00:00:00"),
    "timestamp(3)": _moment(3),
    "time(2)": _time,
    # The index and the bitmask are what an image states, and what is hashed.
    "enum('a','b,c','雪')": _integer(0, 3),
    "enum('','x')": _integer(0, 2),
    "set('x','y','z')": _integer(0, 7),
    "set('','y')": _integer(0, 3),
    "vector": _vector,
}


def make_row(random: Random) -> tuple[dict[str, str | None], int]:
    """Make a row with a column of every type, `c0` and so on, and its checksum."""
    texts: dict[str, str | None] = {}
    checksum = 0
    for number, make in enumerate(MAKERS.values()):
        text, data = make(random)
        is_null = random.random() < 0.1
        texts[f"c{number}"] = None if is_null else text
        checksum = checksum if is_null else crc32(data, checksum)
    return texts, checksum
