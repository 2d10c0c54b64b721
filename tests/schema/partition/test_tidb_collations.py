"""Sort keys and hash keys of texts are those of a real TiDB, for each collation that it has."""

import unicodedata
from itertools import chain, pairwise

import pytest

from tests.sql_server import run_on
from tests.tidb_server import Tidb
from ticdc_assets.errors import InvalidValue
from ticdc_assets.schema.partition.collation import make_collation_sort_key, make_hash_key

COLLATIONS = (
    *("ascii_bin", "binary", "gbk_bin", "gbk_chinese_ci", "latin1_bin"),
    *("utf8_bin", "utf8_general_ci", "utf8_unicode_ci"),
    *("utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci"),
    *("utf8mb4_0900_ai_ci", "utf8mb4_0900_bin"),
)
# All characters of alphabets, and some of each script.
_CHARS = [*range(1, 0x600), *range(0x1E00, 0x2500), *range(0x2500, 0xD800, 61)]
_CHARS += [*range(0xE000, 0x10000, 61), *range(0xFF00, 0x10000), 0x1F600, 0x20000]
_WORDS = ["", "Straße", "STRASSE", "a", "a ", "a  b", "a\t", "ab", "É", "E\u0301", "ǕBER", "über"]
_WORDS += ["中国", "中", "x[", "x\\", "x]", "x~", "xy", "Xz"]
_PYTHON = {"ascii": "ascii", "latin1": "latin1", "gbk": "gbk"}
# What Python has in a charset, and the server has not.
_MISSING = {"gbk": "€", "utf8": "\U0001f600\U00020000"}


def test_there_are_no_other_collations(tidb: Tidb) -> None:
    assert {name for name, *_ in tidb.run("SHOW COLLATION")} == set(COLLATIONS)


@pytest.mark.parametrize("collation", COLLATIONS)
def test_texts_sort_and_hash_as_on_the_server(tidb: Tidb, collation: str) -> None:
    charset = collation.partition("_")[0]
    sort_key, hash_key = make_collation_sort_key(collation), make_hash_key(collation)
    known = {}
    for text in [*map(chr, _CHARS), *_WORDS]:
        try:
            text.encode(_PYTHON.get(charset, "utf-8"))
            known[text] = sort_key(text)
        except (InvalidValue, UnicodeEncodeError):
            continue
        if text in _MISSING.get(charset, ()):
            del known[text]
    assert len(known) > 100
    texts = list(known)
    type = f"varchar(20) CHARACTER SET {charset} COLLATE {collation}"
    column = "c varbinary(20)" if charset == "binary" else f"c {type}"
    insert = f"INSERT INTO collations.t VALUES {', '.join(['(%s, %s)'] * len(texts))}"
    with tidb.connect() as connection:
        ranked = run_on(
            connection,
            "CREATE DATABASE IF NOT EXISTS collations",
            "DROP TABLE IF EXISTS collations.t",
            f"CREATE TABLE collations.t (n int PRIMARY KEY, {column})",
            (insert, list(chain.from_iterable(enumerate(texts)))),
            "SELECT n, DENSE_RANK() OVER (ORDER BY c) FROM collations.t",
        )
        weights = run_on(connection, "SELECT n, HEX(WEIGHT_STRING(c)) FROM collations.t")
    ordered = sorted((rank, known[texts[n]], texts[n]) for n, rank in ranked)
    for (rank, key, text), (next_rank, next_key, next_text) in pairwise(ordered):
        shown = _name(text), _name(next_text)
        assert (rank == next_rank) == (key == next_key), shown
        assert key <= next_key, shown
    if hash_key is not None:
        for n, weight in weights:
            assert hash_key(texts[n]) == bytes.fromhex(weight), _name(texts[n])


def _name(text: str) -> str:
    return f"{text!r} {' '.join(unicodedata.name(char, hex(ord(char))) for char in text)}"
