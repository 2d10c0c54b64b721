"""Options of tables and databases: charset, collation and comment are kept, others are skipped.

ALTER TABLE accepts only the options listed here, since any other word may be an action.
"""

from dataclasses import dataclass

from ticdc_assets.events import Charset
from ticdc_assets.schema.ddl.column_type import (
    accept_charset,
    get_charset,
    read_charset,
    read_collation,
)
from ticdc_assets.schema.ddl.cursor import Cursor
from ticdc_assets.schema.ddl.tokens import Kind

_TABLE_OPTIONS = frozenset(
    {
        "AFFINITY",
        "ATTRIBUTES",
        "AUTOEXTEND_SIZE",
        "AUTO_ID_CACHE",
        "AUTO_INCREMENT",
        "AUTO_RANDOM_BASE",
        "AVG_ROW_LENGTH",
        "CHECKSUM",
        "COMPRESSION",
        "CONNECTION",
        "DELAY_KEY_WRITE",
        "ENCRYPTION",
        "ENGINE",
        "ENGINE_ATTRIBUTE",
        "IETF_QUOTES",
        "INSERT_METHOD",
        "KEY_BLOCK_SIZE",
        "MAX_ROWS",
        "MIN_ROWS",
        "NODEGROUP",
        "PACK_KEYS",
        "PAGE_CHECKSUM",
        "PAGE_COMPRESSED",
        "PAGE_COMPRESSION_LEVEL",
        "PASSWORD",
        "PRE_SPLIT_REGIONS",
        "ROW_FORMAT",
        "SECONDARY_ENGINE",
        "SECONDARY_ENGINE_ATTRIBUTE",
        "SEQUENCE",
        "SHARD_ROW_ID_BITS",
        "STATS_AUTO_RECALC",
        "STATS_BUCKETS",
        "STATS_COL_CHOICE",
        "STATS_COL_LIST",
        "STATS_OPTIONS",
        "STATS_PERSISTENT",
        "STATS_SAMPLE_PAGES",
        "STATS_SAMPLE_RATE",
        "STATS_TOPN",
        "TABLESPACE",
        "TABLE_CHECKSUM",
        "TRANSACTIONAL",
        "TTL_ENABLE",
        "TTL_JOB_INTERVAL",
        "TYPE",
        "UNION",
    }
)
_PAIRS = (
    ("STORAGE", "ENGINE"),
    ("DATA", "DIRECTORY"),
    ("INDEX", "DIRECTORY"),
    ("PLACEMENT", "POLICY"),
)
_VALUE_KINDS = (Kind.WORD, Kind.NAME, Kind.STRING, Kind.NUMBER, Kind.HEX)


@dataclass(slots=True)
class TableOptions:
    """The options of a table or database that affect its columns, and its comment."""

    charset: Charset | None = None
    comment: str | None = None


def accept_option(cursor: Cursor, options: TableOptions, *, any_name: bool = False) -> str:
    """Read one table option and return its kind; return "" if none comes next.

    With `any_name`, any word with a value is an option.
    """
    if charset_kind := accept_charset_option(cursor, options):
        return charset_kind
    if cursor.accept("TTL"):
        _skip_ttl(cursor)
        return "ttl"
    if cursor.accept("FORCE", "AUTO_INCREMENT") or cursor.accept("FORCE", "AUTO_RANDOM_BASE"):
        _skip_value(cursor)
        return "auto_increment"
    if cursor.accept("SET", "TIFLASH", "REPLICA") or cursor.accept(
        "SET", "HYPO", "TIFLASH", "REPLICA"
    ):
        _skip_tiflash(cursor)
        return "tiflash replica"
    for pair in _PAIRS:
        if cursor.accept(*pair):
            _skip_value(cursor)
            return " ".join(pair).lower()
    if cursor.accept("COMMENT"):
        options.comment = _read_comment(cursor)
        return "comment"
    known = cursor.accept_any(*_TABLE_OPTIONS)
    if not known and any_name and cursor.token.kind is Kind.WORD:
        known = cursor.advance().key
    if known:
        _skip_value(cursor)
    return known.lower()


def accept_charset_option(cursor: Cursor, options: TableOptions) -> str:
    """Read [DEFAULT] CHARACTER SET or COLLATE and return its kind; "" if neither comes next."""
    start = cursor.position
    cursor.accept("DEFAULT")
    if accept_charset(cursor):
        cursor.accept("=")
        # COLLATE may come first.
        collation = options.charset.collation if options.charset else None
        options.charset = Charset(read_charset(cursor), collation)
        return "charset"
    if cursor.accept("COLLATE"):
        cursor.accept("=")
        collation = read_collation(cursor)
        options.charset = Charset(get_charset(collation), collation)
        return "collate"
    cursor.position = start
    return ""


def read_database_options(cursor: Cursor) -> TableOptions:
    """Read all options of a database."""
    options = TableOptions()
    while not cursor.at_end():
        if accept_charset_option(cursor, options):
            continue
        if cursor.accept("SET", "TIFLASH", "REPLICA"):
            _skip_tiflash(cursor)
            continue
        cursor.accept("DEFAULT")
        if not cursor.accept("ENCRYPTION"):
            cursor.expect("PLACEMENT", "POLICY")
        _skip_value(cursor)
    return options


def _read_comment(cursor: Cursor) -> str | None:
    """Read a comment; a value that is none is skipped, like that of any other option."""
    start = cursor.position
    cursor.accept("=")
    if cursor.token.kind is Kind.STRING:
        return cursor.read_string()
    cursor.position = start
    _skip_value(cursor)
    return None


def _skip_value(cursor: Cursor) -> None:
    if not cursor.accept("="):
        # PLACEMENT POLICY SET DEFAULT
        cursor.accept("SET")
    if cursor.next_is("("):
        cursor.read_group()
    elif cursor.token.kind in _VALUE_KINDS:
        cursor.advance()
    else:
        raise cursor.unexpected("the value of an option")


def _skip_ttl(cursor: Cursor) -> None:
    """Skip `column + INTERVAL n unit`."""
    cursor.accept("=")
    cursor.read_column_name()
    cursor.expect("+", "INTERVAL")
    cursor.skip_item()
    cursor.read_name()


def _skip_tiflash(cursor: Cursor) -> None:
    cursor.read_integer()
    if cursor.accept("LOCATION", "LABELS"):
        cursor.read_string()
        while cursor.accept(","):
            cursor.read_string()
