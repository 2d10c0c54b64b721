"""Spark reads every SQL text that the lake generates as it was meant, whatever people write."""

from typing import Any, NamedTuple
from unittest.mock import MagicMock, patch

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.lake.canal import FEED
from tests.lake.parsed_sql import Parser, Recorder, Text, substitute
from ticdc_assets.events import Column, ColumnType, Index, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.lake.apply import current_table, table_features
from ticdc_assets.lake.apply.current_table import CurrentTable
from ticdc_assets.lake.events import quarantine
from ticdc_assets.lake.events.event_commits import Decoded, EventCommits, select_of_paths
from ticdc_assets.rows.columns import COMMIT_TS, INEXACT, list_delta_columns
from ticdc_assets.rows.merging import PUT
from ticdc_assets.schema.effect import ColumnAdded, ColumnDropped, ColumnRenamed
from ticdc_assets.store import small_tables
from ticdc_assets.store.lake import Lake, LakeSession
from ticdc_assets.store.texts import replace_surrogates


class Words(NamedTuple):
    """What people write; all names differ, and both comments."""

    names: tuple[str, ...]
    comments: tuple[str, ...]
    member: str
    folder: str
    table: str
    path: str


# Words that mean nothing to any parser, and that no other text contains.
PLAIN = Words(
    names=("qid", "qother", "qthird", "qgone", "qnumber", "qnew"),
    comments=("qfirst", "qsecond"),
    member="qmember",
    folder="qfolder",
    table="qtable",
    path="qpath",
)
ID, OTHER, THIRD, GONE, NUMBER, NEW = range(6)
_PARTS = [
    *("`", "``", "'", "''", '"', "\\", "\\'", "\\`", "\\u0027", "%", "?", ":p", "${env:HOME}"),
    *("--", "/*", "*/", "\n", "\r", "\t", ";", ",", ".", "(", ")", " ", "<", ">", "=", "@", "#"),
    *("👍", "𠮷", "é", "表", "ß", "İ", "\u202e", "\u2028", "\u00a0", "\ufeff", "\x1a", "⌗", "a"),
    *(" CLUSTER BY (`id`)", "CLUSTER BY (id)", " LOCATION 'x'", " COMMENT 'x'", "AS SELECT 1"),
    *("`) USING delta TBLPROPERTIES ('a' = 'b') --", "' OR '1' = '1", "{{x}}", "system.x", "R'"),
]
_EVERY = "".join(_PARTS)
WORST = Words(
    names=tuple(f"{_EVERY}{at}" * (40 if at == OTHER else 1) for at in range(6)),
    comments=(f"{_EVERY}\0\udcff\ud83d", _EVERY * 40),
    member=_EVERY,
    folder=_EVERY,
    table=_EVERY,
    path=_EVERY,
)
_text = st.one_of(
    st.lists(st.sampled_from(_PARTS), min_size=1, max_size=6).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
)
# Comments may have bytes that are not UTF-8.
_comments = st.lists(st.sampled_from([*_PARTS, "\0", "\udcff", "\ud83d"]), min_size=1, max_size=6)
_words = st.builds(
    Words,
    st.lists(_text, min_size=6, max_size=6, unique_by=fold_name).map(tuple),
    st.lists(_comments.map("".join), min_size=2, max_size=2, unique=True).map(tuple),
    _text,
    # No file system has names with it.
    _text.map(lambda text: text.replace("\0", "0")),
    _text,
    _text,
)


def make_schemas(words: Words) -> tuple[TableSchema, TableSchema]:
    """Make a table, and what it is after every kind of column change."""
    varchar, whole = ColumnType("varchar", length=9), ColumnType("int")
    enum = ColumnType("enum", elements=("a", words.member))
    names, (one, two) = words.names, words.comments
    # Any table then needs column mapping, whatever the words are.
    spaced = Column("a b", whole)
    before = (
        Column(names[ID], whole, nullable=False, comment=one),
        Column(names[OTHER], varchar, comment=two),
        Column(names[THIRD], varchar, comment=one),
        Column(names[GONE], enum),
        Column(names[NUMBER], whole, comment=one),
        spaced,
    )
    after = (
        Column(names[NEW], enum, comment=one),
        Column(names[NUMBER], ColumnType("bigint"), comment=two),
        Column(names[ID], whole, nullable=False, comment=one),
        Column(names[THIRD], varchar, comment=two),
        Column(names[OTHER], varchar, comment=one),
        spaced,
    )
    key = (Index("PRIMARY", (names[ID], names[OTHER]), unique=True, primary=True),)
    return TableSchema("d", "t", before, key), TableSchema("d", words.table, after, key)


def map_words(words: Words) -> dict[str, str]:
    """Map the plain words to what stands for hostile ones in what Spark parses."""
    mapped = {
        plain.name: column.name
        for schemas in zip(make_schemas(PLAIN), make_schemas(words), strict=True)
        for plain, column in zip(*map(list_delta_columns, schemas), strict=True)
    }
    comments = map(replace_surrogates, words.comments)
    mapped |= dict(zip(PLAIN.comments, comments, strict=True))
    # A comment contains the member in quotes.
    mapped[PLAIN.member] = words.member.replace("'", "''")
    return mapped | {PLAIN.folder: words.folder, PLAIN.path: words.path}


def change_columns(table: CurrentTable, words: Words) -> None:
    """Take a table through every kind of column change: two columns exchange their names."""
    before, after = make_schemas(words)
    one, two = words.names[OTHER], words.names[THIRD]
    steps = [
        ColumnRenamed(one, "aside"),
        ColumnRenamed(two, one),
        ColumnRenamed("aside", two),
        ColumnDropped(words.names[GONE]),
        ColumnAdded(after.columns[0]),
    ]
    table.add_map()
    with patch.object(CurrentTable, "has_map", True):
        table.reshape(before, steps, after)
    with patch.object(table_features, "LARGE_TABLE", 0):
        assert table.adapt_to_size(before)


def generate(words: Words) -> list[Text]:
    """Return the texts about a table and its rows, except those that create it."""
    before, after = make_schemas(words)
    columns = list_delta_columns(before)
    types = {c.name: "binary" if at else c.type for at, c in enumerate(columns)}
    recorder = Recorder(types)
    session = recorder.session
    lake = LakeSession(lambda: session, Lake(f"/{words.folder}", FEED.id), FEED)
    # Spark reads and writes the table, and not this process.
    reading = patch.multiple(
        small_tables, LakeReader=MagicMock(), is_writable=MagicMock(return_value=False)
    )
    opened = patch.multiple(current_table, LakeReader=MagicMock())
    session.rows.columns = [*types, COMMIT_TS, INEXACT, PUT]
    with opened, reading, recorder.columns():
        table = CurrentTable(lake, "d-t-1")
        table.write_whole(session.rows, after, "")
        change_columns(table, words)
        table.merge(session.rows, before)
    with reading, patch.object(quarantine, "LakeReader"):
        quarantine.update_quarantine(lake, 1, {words.path: 2}, of_records=False)
    EventCommits(lake).commit(Decoded(replaced=select_of_paths([words.path, "b"])), [(1, 1)])
    return recorder.texts


class Meaning:
    """What the plain words mean to Spark, and with others in their place."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._parsed: dict[Text, Any] = {}

    def check(self, texts: list[Text], plain_texts: list[Text], words: Words) -> None:
        """Check that texts mean what the plain ones do, except for the words in them."""
        mapped = map_words(words)
        for text, plain in dict.fromkeys(zip(texts, plain_texts, strict=True)):
            if plain not in self._parsed:
                self._parsed[plain] = self._parser.parse(plain)
            assert self._parser.parse(text) == substitute(self._parsed[plain], mapped), text[1]


@pytest.fixture(scope="module")
def meaning(spark: SparkSession) -> Meaning:
    return Meaning(Parser(spark))


few = settings(
    max_examples=1,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@few
@given(_words)
@example(WORST)
def test_texts_about_a_table_mean_what_they_should(meaning: Meaning, words: Words) -> None:
    plain = generate(PLAIN)
    assert all(any(word in sql for _, sql in plain) for word in map_words(PLAIN))
    meaning.check(generate(words), plain, words)
