"""Rows as they arrived, and what a plan is told of them."""

import json
from collections import defaultdict
from dataclasses import dataclass

from ticdc_assets.events import Op, RowChange
from ticdc_assets.lake.store.contracts import EVENT_IDENTITY
from ticdc_assets.plan.row_group import RowGroup
from ticdc_assets.schema.catalog import TableKey, table_key
from ticdc_assets.stream.ordering import OrderKey, Phase

Alike = tuple[object, ...]


@dataclass(frozen=True)
class Arrived:
    """A row, and how it arrived."""

    seq: int
    batch: int
    sender_pass: int
    change: RowChange

    @property
    def key(self) -> TableKey:
        return table_key(self.change.database, self.change.table)

    @property
    def exact(self) -> bool:
        return self.change.ordering == "commit_ts"

    @property
    def content(self) -> tuple[object, ...]:
        c = self.change
        return (self.key, *(getattr(c, name) for name in EVENT_IDENTITY if name != "name"))

    def place(self, after: int) -> OrderKey:
        ts, ordering = self.change.commit_ts, self.change.ordering
        late = not self.exact and ts <= after
        return (
            (after, Phase.AFTER_DDLS)
            if late
            else (ts, Phase.AFTER_DDLS if ordering == "table_version" else Phase.ROWS)
        )

    def alike(self, after: int) -> Alike:
        c = self.change
        observed = (
            None if c.observed is None else json.dumps(json.loads(c.observed), sort_keys=True)
        )
        is_dated = self.place(after)[1] == Phase.AFTER_DDLS
        return (
            *(self.key, c.schema_version, observed, c.key_columns),
            *(c.member_names, self.exact, is_dated),
        )


def seen_of(rows: list[Arrived], after: int) -> list[RowGroup]:
    groups: dict[Alike, list[Arrived]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.place(after), row.seq)):
        groups[row.alike(after)].append(row)
    found = []
    for alike, same in groups.items():
        changes = [row.change for row in same]
        _, version, observed, keys, names, exact, dated = alike
        group = RowGroup(
            database=changes[0].database,
            table=changes[0].table,
            schema_version=version,
            observed=observed,
            key_columns=keys,
            member_names=names,
            ordered_by_commit_ts=exact,
            after_ddls=dated,
            first_ts=same[0].place(after)[0],
            last_ts=same[-1].place(after)[0],
            rows=len(same),
            inserts=sum(c.op is Op.INSERT for c in changes),
            overwrites=sum(c.op is Op.UPDATE and c.before is None for c in changes),
            key_only=sum(c.handle_key_only for c in changes),
        )
        found.append(group)
    return found


def alike_of(group: RowGroup) -> Alike:
    key = table_key(group.database, group.table)
    return (
        *(key, group.schema_version, group.observed, group.key_columns),
        *(group.member_names, group.ordered_by_commit_ts, group.after_ddls),
    )
