"""What a DDL does to tables of the lake whose columns are not as they are upstream.

`apply_ddl` says what it does upstream.  Here each effect becomes that on the lake's table: columns
have their rules, values that are not there are not converted, and what the lake cannot do with the
values that it has pauses the table.  A rule belongs to a name, so RENAME may lead to another rule.
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from ticdc_assets.changefeed.privacy import Privacy, Rule
from ticdc_assets.errors import InvalidValue
from ticdc_assets.events import Column, ColumnType, Partitioning, TableSchema
from ticdc_assets.events.table_schema import fold_name
from ticdc_assets.schema import effect as effects
from ticdc_assets.schema.conversion.convert import backfill
from ticdc_assets.schema.ddl.tokens import tokenize
from ticdc_assets.schema.effect import ColumnChange, Effect
from ticdc_assets.schema.types.mysql_type import describe
from ticdc_assets.schema.types.value_writer import make_image_writer
from ticdc_assets.stream.privacy import OTHER_RULES, find_rule, protect_schema
from ticdc_assets.stream.private_values import PrivateValues

# Returns the table of the lake that has a name.
FindTable = Callable[[str, str], TableSchema | None]

_AGAIN = "decode its events again (ticdc-assets rebuild TABLE --from-raw), or load it again"
_OTHER_RULE = (
    "the DDL leads from {} with the rule {} to {} with the rule {}, and the values that the table"
    " has cannot follow: give both the same rule in [[changefeed.privacy.table]], or " + _AGAIN
)
_OTHER_RULES = f"{OTHER_RULES}: {_AGAIN}"
_CONVERTED = (
    "the DDL converts column {} from {} to {}, and the values upstream have other texts then, but"
    " the lake has only what the rule {} left of them: load it again"
)
_PARTITIONS = (
    "the DDL concerns rows by their partition, which column {} decides, and the lake does not have"
    " its values: load it again, or keep the column in [[changefeed.privacy.table]]"
)
_DEFAULT = "the DDL adds column {} with a value that is not known, so it cannot be changed by {}"


def protect_effects(
    privacy: Privacy | None, listed: Iterable[Effect], ts: int, find: FindTable
) -> Iterator[Effect]:
    """Yield the effects of a DDL at a ts on the tables of the lake, each before the next one."""
    if privacy is None:
        yield from listed
        return
    for effect in listed:
        yield from _Protection(privacy, ts, find).protect(effect)


class _Cannot(Exception):
    """The lake's table cannot follow a DDL; has the reason."""


class _Protection:
    def __init__(self, privacy: Privacy, ts: int, find: FindTable) -> None:
        self._privacy = privacy
        self._ts = ts
        self._find = find

    def protect(self, effect: Effect) -> Iterator[Effect]:
        match effect:
            case effects.TableCreated(schema) | effects.TableTruncated(schema):
                yield replace(effect, schema=self._protect(schema))
            case effects.TableRenamed(database, table, schema):
                yield from self._rename(effect, self._find(database, table))
            case effects.TableRecovered(database, table, schema):
                yield replace(effect, schema=self._protect(schema))
                if self._protect(schema.with_name(database, table)).columns != (
                    self._protect(schema).columns
                ):
                    yield effects.TablePaused(schema.database, schema.table, _OTHER_RULES)
            case effects.TableAltered():
                yield self._alter(effect)
            case effects.PartitionsEmptied():
                yield self._empty(effect)
            case effects.PartitionExchanged():
                yield from self._exchange(effect)
            case _:
                yield effect

    def _protect(self, schema: TableSchema) -> TableSchema:
        return protect_schema(self._privacy, schema)

    def _rename(self, effect: effects.TableRenamed, known: TableSchema | None) -> Iterator[Effect]:
        schema = self._protect(effect.schema)
        if known is not None and known.columns and _rules(known) != _rules(schema):
            # Before it has its new name: what a paused table has stays as it is.
            yield effects.TablePaused(effect.old_database, effect.old_table, _OTHER_RULES)
        yield replace(effect, schema=schema)

    def _alter(self, effect: effects.TableAltered) -> Effect:
        schema = self._protect(effect.schema)
        known = self._find(schema.database, schema.table)
        if known is None:
            return effects.TableAltered(schema)
        try:
            changes = tuple(_Columns(self._privacy, known, schema, self._ts).change(effect))
        except _Cannot as problem:
            return effects.TablePaused(schema.database, schema.table, str(problem))
        return effects.TableAltered(schema, changes)

    def _empty(self, effect: effects.PartitionsEmptied) -> Effect:
        schema = self._protect(effect.schema)
        reason = _find_hidden_partitions(schema, effect.partitioning)
        if reason is not None:
            return effects.TablePaused(schema.database, schema.table, reason)
        return replace(effect, schema=schema)

    def _exchange(self, effect: effects.PartitionExchanged) -> Iterator[Effect]:
        schema, other = self._protect(effect.schema), self._protect(effect.other)
        reason = _find_hidden_partitions(schema, effect.partitioning)
        if reason is None and _rules(schema) != _rules(other):
            reason = _OTHER_RULES
        if reason is None:
            yield replace(effect, schema=schema, other=other)
            return
        for table in (schema, other):
            yield effects.TablePaused(table.database, table.table, reason)


def _rules(schema: TableSchema) -> dict[str, Rule]:
    """Return the rules by which the columns of a table are stored."""
    return {fold_name(column.name): column.rule or "keep" for column in schema.columns}


class _Columns:
    """The column changes of one ALTER TABLE, as the lake's table goes through them."""

    def __init__(self, privacy: Privacy, known: TableSchema, schema: TableSchema, ts: int) -> None:
        self._privacy = privacy
        self._schema = schema
        self._ts = ts
        self._now = _rules(known)

    def change(self, effect: effects.TableAltered) -> Iterator[ColumnChange]:
        """Yield the changes; raise `_Cannot`."""
        for change in effect.column_changes:
            match change:
                case effects.ColumnAdded(column):
                    yield from self._add(change, column)
                case effects.ColumnDropped(name):
                    if self._now.pop(fold_name(name), "keep") != "drop":
                        yield change
                case effects.ColumnRenamed(old, new):
                    yield from self._rename(old, new)
                case effects.ColumnConverted():
                    yield from self._convert(change)

    def _find_rule(self, name: str) -> Rule:
        return find_rule(self._privacy, self._schema, name)

    def _add(self, change: effects.ColumnAdded, column: Column) -> Iterator[ColumnChange]:
        rule = self._now[fold_name(column.name)] = self._find_rule(column.name)
        if rule == "keep":
            yield change
        elif rule != "drop":
            yield effects.ColumnAdded(self._make_added(change, column, rule))

    def _make_added(self, change: effects.ColumnAdded, column: Column, rule: Rule) -> Column:
        """Return an added column whose default is what existing rows have in it."""
        probe = replace(self._schema, columns=(column,))
        added = protect_schema(self._privacy, probe).columns[0]
        if rule == "null":
            return added
        try:
            value = backfill(column, self._ts, change.zone)
            text = make_image_writer(column.type)(value)
        except InvalidValue:
            raise _Cannot(_DEFAULT.format(column.name[:80], rule)) from None
        if text is None:
            return replace(added, nullable=True)
        return replace(added, default=PrivateValues(self._privacy).protect_text(rule, text))

    def _rename(self, old: str, new: str) -> Iterator[ColumnChange]:
        before = self._now.pop(fold_name(old), "keep")
        after = self._now[fold_name(new)] = self._find_rule(new)
        if before == after:
            if before != "drop":
                yield effects.ColumnRenamed(old, new)
        elif after == "drop":
            yield effects.ColumnDropped(old)
        else:
            raise _Cannot(_OTHER_RULE.format(old[:80], before, new[:80], after))

    def _convert(self, change: effects.ColumnConverted) -> Iterator[ColumnChange]:
        rule = self._now.get(fold_name(change.name), "keep")
        if rule in ("keep", "null"):
            yield change
        elif rule != "drop" and not _keeps_texts(change.old, change.new):
            types = change.old.name.upper(), change.new.name.upper()
            raise _Cannot(_CONVERTED.format(change.name[:80], *types, rule))


def _keeps_texts(old: ColumnType, new: ColumnType) -> bool:
    """Whether a conversion leaves the text of every value as it was."""
    try:
        kinds = {describe(old).kind, describe(new).kind}
    except InvalidValue:
        return False
    if kinds == {"integer"}:
        return True
    if kinds == {"text"}:
        # CHAR cuts spaces off.
        return old.name == new.name or "char" not in (old.name, new.name)
    if kinds == {"binary"}:
        # BINARY fills values up.
        return "binary" not in (old.name, new.name)
    if kinds == {"decimal"}:
        return (old.decimals or 0) == (new.decimals or 0)
    return old.name == new.name


def _find_hidden_partitions(schema: TableSchema, partitioning: Partitioning) -> str | None:
    """Say which column decides on the partition of a row, and is not as it is upstream."""
    hidden = {fold_name(column.name): column.name for column in schema.columns if column.rule}
    columns = partitioning.columns
    if partitioning.kind == "key" and not columns:
        columns = schema.effective_primary_key
    deciding = [fold_name(name) for name in columns]
    if partitioning.expression is not None:
        deciding += [fold_name(token.text) for token in tokenize(partitioning.expression)]
    found = next((hidden[name] for name in deciding if name in hidden), None)
    return None if found is None else _PARTITIONS.format(found[:80])
