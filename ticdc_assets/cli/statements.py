"""Write the statements with which an engine reads tables by name.

Names come from upstream, so they are hostile: in a statement each is quoted by the engine's own
rule, and in a comment nothing of it could end the comment or the statement, whoever splits them.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ticdc_assets.cli.engines import ENGINES, FEATURES, READERS, Engine, Reads
from ticdc_assets.errors import ConfigError
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.plan.state import name_address
from ticdc_assets.safe_text import quote_given
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.texts import replace_surrogates

_SPECIAL = re.compile(r"[^\w .,:/@+=()-]")
_AZURE = re.compile(r"(?P<container>[^@/]+)@(?P<account>[^./]+)\.dfs\.(?P<host>[^/]+)")


@dataclass(frozen=True)
class ListedTable:
    """A table of the lake: its name, and what a reader of its address meets there."""

    database: str
    table: str
    # Features that readers must know, by the protocol's names; None if nothing is there yet.
    features: Collection[str] | None
    # Why its rows are not all those of upstream.
    caution: str | None = None

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}"


def write_statements(name: str, lake: Lake, tables: Sequence[ListedTable]) -> Iterator[str]:
    """Yield the comments and statements for an engine."""
    engine = ENGINES[name]
    names = _choose_names(name, engine, tables)
    translate = partial(_translate, name, engine)
    current = _make_harmless(translate(lake.path("current")))
    yield from (_comment(note.format(current=current)) for note in engine.notes)
    if engine.first is not None:
        yield f"{engine.first};"
    known = set()
    for table, (schema, own) in names.items():
        yield ""
        yield from map(_comment, _describe(engine, table, (schema, own)))
        if table.features is None:
            continue
        if schema not in known and engine.schema is not None:
            yield f"{engine.schema.format(schema=engine.quote(schema))};"
        known.add(schema)
        uri = translate(lake.address(table.database, table.table))
        yield _show(engine, (schema, own), uri, is_on_disk=lake.is_on_disk)


def _show(engine: Engine, names: tuple[str, str], uri: str, *, is_on_disk: bool) -> str:
    schema, table = map(engine.quote, names)
    if engine.table is None:
        values = {"schema": schema, "table": table, "uri": _make_harmless(uri)}
        return _comment((engine.comment or "").format(**values))
    statement = engine.disk_table if is_on_disk and engine.disk_table else engine.table
    schema_text, table_text, location, address = map(
        engine.text, (*names, uri, uri.rpartition("/")[2])
    )
    shown = statement.format(
        schema=schema,
        table=table,
        schema_text=schema_text,
        table_text=table_text,
        uri=location,
        address=address,
    )
    return f"{shown};"


def _describe(engine: Engine, table: ListedTable, names: tuple[str, str]) -> Iterator[str]:
    """Say what whoever reads a table must know."""
    yield _make_harmless(table.name)
    if names != (table.database, table.table):
        yield f"named {'.'.join(map(_make_harmless, names))} here"
    if table.caution is not None:
        yield _make_harmless(table.caution)
    if table.features is None:
        yield "has no rows at its address yet: the next advance that applies it publishes it"
    for feature in sorted(table.features or ()):
        reads = READERS[engine.reader].get(feature, Reads())
        title = FEATURES.get(feature, feature).replace("`", "")
        yield _describe_feature(engine.reader.replace("`", ""), _make_harmless(title), reads)


def _describe_feature(reader: str, feature: str, reads: Reads) -> str:
    known = "tested" if reads.documents is None else f"by its documents: {reads.documents}"
    if reads.reads is None:
        return f"WARNING: it has {feature}, and whether {reader} reads that is unknown"
    if reads.reads:
        return f"has {feature}, which {reader} reads ({known})"
    return f"WARNING: {reader} does not read this table: it has {feature} ({known})"


def _choose_names(
    name: str, engine: Engine, tables: Sequence[ListedTable]
) -> Mapping[ListedTable, tuple[str, str]]:
    """Choose the name that each table has in an engine."""
    found: dict[ListedTable, tuple[str, str]] = {}
    owners: dict[tuple[str, str], ListedTable] = {}
    for table in tables:
        chosen = _choose_name(engine, table)
        folded = fold_name(chosen[0]), fold_name(chosen[1])
        other = owners.setdefault(folded, table)
        if other is not table:
            both = f"{quote_given(other.name)} and {quote_given(table.name)}"
            reason = f"{both} would both be {'.'.join(chosen)} in {name}: leave one out"
            raise ConfigError(reason, setting="PATTERN")
        found[table] = chosen
    return found


def _choose_name(engine: Engine, table: ListedTable) -> tuple[str, str]:
    if engine.any_name:
        return replace_surrogates(table.database), replace_surrogates(table.table)
    # What catalogs take of a name is what file systems take.
    database, *rest = name_address(table.database, table.table).split(".")
    return database, "_".join(rest)


def _translate(name: str, engine: Engine, path: str) -> str:
    """Write a path or URI of the lake as an engine does."""
    require_path(name, path, setting="--for")
    scheme, is_uri, rest = path.partition("://")
    stores = ", ".join(f"{each}://" for each in engine.schemes.values())
    if not is_uri:
        if engine.on_disk:
            return path
        reason = f"{name} reads object stores ({stores}), and the lake is on a disk:"
        others = ", ".join(each for each, other in ENGINES.items() if other.on_disk)
        reason += f" {quote_given(path)}; move the lake to one, or choose {others}"
        raise ConfigError(reason, setting="--for")
    if scheme not in engine.schemes:
        reason = f"{name} reads {stores}, and the lake is at {quote_given(path)}"
        raise ConfigError(f"{reason}: choose another engine", setting="--for")
    written = engine.schemes[scheme]
    if written == "azure" and (found := _AZURE.match(rest)):
        account = f"{found['account']}.blob.{found['host']}"
        rest = f"{account}/{found['container']}{rest[found.end() :]}"
    return f"{written}://{rest}"


def require_path(name: str, path: str, *, setting: str) -> None:
    """Raise an error if an engine reads no table below a path, or another one."""
    if found := [each for each in ENGINES[name].misread if each in path]:
        reason = (
            f"{name} reads no table below a path with {found[0]}, as {quote_given(path)} has:"
            " move the lake, or read it in Python with ticdc_assets.open_lake"
        )
        raise ConfigError(reason, setting=setting)


def _comment(text: str) -> str:
    return f"-- {text}"


def _make_harmless(text: str) -> str:
    """Escape what could end a comment, or could look so to a client that splits statements."""
    return _SPECIAL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
