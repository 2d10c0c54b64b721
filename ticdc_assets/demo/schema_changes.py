"""The DDLs that run while the shop is open, one after the other."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

from ticdc_assets.demo import goods
from ticdc_assets.demo.column_type import column
from ticdc_assets.demo.statement import Session

# The number of DDLs before they repeat.
STATEMENTS = 14


def schema_changes(session: Session) -> Iterator[Callable[[], None]]:
    """Yield the DDLs in order, each run when called; then add and drop a column forever."""
    channel = column("channel", "enum('web','app','store')", nullable=False, default="web")
    checked = column("checked_at", "datetime", default="2026-01-01 00:00:00")
    campaign = goods.TableDefinition(
        "campaign",
        (column("code", "varchar(12)", nullable=False), column("percent", "decimal(5,2)")),
        {"primary": ("code",)},
    )
    yield from (
        partial(session.add_column, "orders", channel),
        partial(session.modify_column, "customers", "name", "varchar(200)"),
        partial(session.create_table, *goods.REVIEWS[:2], **goods.REVIEWS.keys),
        partial(session.modify_column, "order_items", "quantity", "bigint"),
        partial(session.add_index, "orders", "idx_customer", ("customer_id",)),
        partial(session.modify_column, "order_items", "price", "decimal(12,4)"),
        partial(session.rename_column, "customers", "phone", "mobile"),
        partial(session.create_table, *campaign[:2], **campaign.keys),
        partial(session.add_column, "inventory", checked),
        partial(session.rename_table, "reviews", "product_reviews"),
        partial(session.drop_column, "customers", "fax"),
        partial(session.truncate_table, "sessions"),
        partial(session.drop_index, "orders", "idx_customer"),
        partial(session.drop_table, "campaign"),
    )
    for number in count(1):
        remark = column(f"remark_{number}", "varchar(40)", default="none, so far")
        yield partial(session.add_column, "orders", remark)
        yield partial(session.drop_column, "orders", remark.name)
