"""A shop: customers, orders and stock, with DDLs while it runs.

Everything is computed from the seed.  A workload yields the changes of the upstream in commit
order, step by step, and knows the truth.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Protocol, TypeVar

from ticdc_assets.demo import goods
from ticdc_assets.demo.change import Change, Truth
from ticdc_assets.demo.schema_changes import STATEMENTS, schema_changes
from ticdc_assets.demo.statement import Session
from ticdc_assets.demo.upstream import Transaction, Upstream, UpstreamTable

DATABASE = "shop"
# Handle keys of the tables whose schema files do not state them.
KEYS = {f"{DATABASE}.inventory": ("sku", "warehouse")}

_NEXT = {"new": "paid", "paid": "shipped", "shipped": "delivered"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_T = TypeVar("_T")


class ShopOptions(Protocol):
    """The settings of the workload."""

    @property
    def seed(self) -> int: ...
    @property
    def transactions(self) -> int: ...
    @property
    def history(self) -> bool: ...
    @property
    def statements(self) -> bool: ...
    @property
    def statement_every(self) -> int | None: ...


class Shop:
    """The workload: `opening`, then `running`; a step is one transaction or one DDL."""

    def __init__(self, options: ShopOptions, start_ms: int, ms_between: float) -> None:
        self.upstream = Upstream(start_ms, history=options.history)
        self._random = Random(options.seed)
        self._transactions = options.transactions
        self._ms = ms_between
        self._session = Session(self.upstream, DATABASE)
        self._script = schema_changes(self._session) if options.statements else iter(())
        spread_evenly = max(options.transactions // (STATEMENTS + 1), 1)
        self._every = options.statement_every or spread_evenly
        self._customers = 0
        self._orders = 0
        self._reviews = 0
        self._visits = 0
        # Orders not yet delivered: their number and count of lines.
        self._active: list[tuple[int, int]] = []
        self._actions = (
            (0.34, self._order),
            (0.64, self._proceed),
            (0.74, self._sign_up),
            (0.84, self._restock),
            (0.90, self._edit_customer),
            (0.92, self._leave),
            (0.96, self._move),
            (1.00, self._browse),
        )

    @property
    def now(self) -> int:
        return self.upstream.now

    def truth(self, ts: int | None = None) -> Truth:
        """Return all tables after every change up to `ts` (default: now)."""
        return self.upstream.truth(ts)

    def opening(self) -> Iterator[Sequence[Change]]:
        """Yield the creation of the database and its tables."""
        self._session.create_database()
        yield self.upstream.drain()
        for table in goods.TABLES:
            self._session.create_table(table.name, table.columns, **table.keys)
            yield self.upstream.drain()

    def running(self) -> Iterator[Sequence[Change]]:
        """The warehouse is filled, then the given number of transactions, statements between."""
        yield self._fill()
        for number in range(1, self._transactions + 1):
            self.upstream.advance(self._ms * (0.5 + self._random.random()))
            self._transact()
            yield self.upstream.drain()
            execute = next(self._script, None) if number % self._every == 0 else None
            if execute is not None:
                self.upstream.advance(self._ms)
                execute()
                yield self.upstream.drain()

    def _fill(self) -> Sequence[Change]:
        transaction = self.upstream.begin()
        for place, (sku, name, price) in enumerate(goods.PRODUCTS):
            for warehouse in ("1", "2"):
                transaction.insert(
                    self._table("inventory"),
                    sku=sku,
                    warehouse=warehouse,
                    name=name,
                    price=price,
                    quantity=str(self._below(500)),
                    weight=goods.WEIGHTS[place % len(goods.WEIGHTS)],
                    since=str(1990 + place),
                    opens=goods.OPENINGS[place % len(goods.OPENINGS)],
                )
        for _ in range(10):
            self._sign_up(transaction)
        transaction.commit()
        return self.upstream.drain()

    def _transact(self) -> None:
        transaction = self.upstream.begin()
        chance = self._random.random()
        for limit, act in self._actions:
            if chance < limit:
                act(transaction)
                break
        transaction.commit()

    # What happens in a shop

    def _order(self, transaction: Transaction) -> None:
        self._orders += 1
        number = str(self._orders)
        items, inventory = self._table("order_items"), self._table("inventory")
        lines = 1 + self._below(4)
        cents = 0
        for line in range(1, lines + 1):
            sku, _, _ = self._pick(goods.PRODUCTS)
            place = (sku, "2" if self._random.random() < 0.3 else "1")
            stock = inventory.rows.get(place)
            if stock is None:
                continue
            quantity = 1 + self._below(3)
            price = inventory.value(stock, "price") or "0.00"
            left = int(inventory.value(stock, "quantity") or 0) - quantity
            transaction.update(inventory, place, quantity=str(left))
            cents += quantity * int(price.replace(".", ""))
            transaction.insert(
                items,
                order_id=number,
                line=str(line),
                sku=sku,
                quantity=str(quantity),
                price=self._scaled(items, "price", price),
                discount=self._pick(goods.DISCOUNTS),
                gift=str(self._below(2)),
            )
        transaction.insert(
            self._table("orders"),
            id=number,
            customer_id=str(1 + self._below(self._customers)),
            total=f"{cents // 100}.{cents % 100:02}",
            note=self._pick(goods.NOTES),
            meta=json.dumps(
                {"ip": f"10.0.{self._below(256)}.{self._below(256)}", "lines": lines},
            )
            if self._random.random() < 0.8
            else None,
            placed_at=self._moment(3),
            channel=self._pick(("web", "app", "store")),
        )
        self._active.append((self._orders, lines))

    def _proceed(self, transaction: Transaction) -> None:
        """Up to three orders move on; some are cancelled and taken out again."""
        orders, items = self._table("orders"), self._table("order_items")
        for _ in range(min(1 + self._below(3), len(self._active))):
            place = self._below(len(self._active))
            number, lines = self._active[place]
            key = str(number)
            row = orders.rows[key]
            status = orders.value(row, "status") or "new"
            over = status == "shipped"
            if self._random.random() < 0.04:
                over = True
                transaction.delete(orders, key)
                for line in range(1, lines + 1):
                    for item in ((key, str(line)), (key, str(line + 100))):
                        if item in items.rows:
                            transaction.delete(items, item)
            else:
                transaction.update(orders, key, status=_NEXT[status], updated_at=self._moment(6))
            if over:
                self._active[place] = self._active[-1]
                self._active.pop()

    def _sign_up(self, transaction: Transaction) -> None:
        self._customers += 1
        number = self._customers
        chance = self._random.random()
        transaction.insert(
            self._table("customers"),
            id=str(number),
            name=f"{self._pick(goods.FIRST_NAMES)} {self._pick(goods.LAST_NAMES)}",
            email=None if chance < 0.1 else f"c{number}@example.com",
            phone=f"+49 {self._below(10**9):09}",
            mobile=f"+81 {self._below(10**9):09}",
            fax=None if chance < 0.9 else "+1 555 0100",
            tier=self._pick(("bronze", "bronze", "silver", "gold")),
            interests=self._pick(goods.INTERESTS),
            avatar=self._random.randbytes(self._below(24)).hex() if chance < 0.5 else None,
            token=self._random.randbytes(16).hex(),
            born=f"{1940 + self._below(70)}-{1 + self._below(12):02}-{1 + self._below(28):02}",
            created_at=self._moment(3),
            seen_at=self._moment(6) if chance < 0.7 else None,
        )

    def _restock(self, transaction: Transaction) -> None:
        inventory = self._table("inventory")
        for _ in range(1 + self._below(3)):
            sku, _, price = self._pick(goods.PRODUCTS)
            place = (sku, self._pick(("1", "2")))
            if place in inventory.rows:
                cents = int(price.replace(".", "")) + self._below(200)
                transaction.update(
                    inventory,
                    place,
                    quantity=str(200 + self._below(500)),
                    price=f"{cents // 100}.{cents % 100:02}",
                    checked_at=self._moment(0),
                )

    def _edit_customer(self, transaction: Transaction) -> None:
        customers = self._table("customers")
        key = str(1 + self._below(self._customers))
        if key not in customers.rows:
            return
        chance = self._random.random()
        if chance < 0.4:
            # A unique key changes: TiCDC sends a delete and an insert of the same key.
            email = f"c{key}-{self._below(10**6)}@example.org"
            transaction.update(customers, key, email=email)
        elif chance < 0.7:
            avatar = self._random.randbytes(self._below(40)).hex()
            transaction.update(customers, key, avatar=avatar, seen_at=self._moment(6))
        else:
            tier = self._pick(("silver", "gold"))
            transaction.update(customers, key, tier=tier, interests=self._pick(goods.INTERESTS))

    def _leave(self, transaction: Transaction) -> None:
        customers = self._table("customers")
        key = str(1 + self._below(self._customers))
        if key in customers.rows:
            transaction.delete(customers, key)

    def _move(self, transaction: Transaction) -> None:
        """Keys change: a line of an order, or goods that go to another warehouse and back."""
        items, inventory = self._table("order_items"), self._table("inventory")
        if self._active and self._random.random() < 0.5:
            number, _ = self._pick(self._active)
            key = (str(number), "1")
            if key in items.rows:
                transaction.update(items, key, line="101")
            return
        sku, _, _ = self._pick(goods.PRODUCTS)
        here, there = ("2", "3") if (sku, "2") in inventory.rows else ("3", "2")
        transaction.update(inventory, (sku, here), warehouse=there)

    def _browse(self, transaction: Transaction) -> None:
        sessions = self._table("sessions")
        self._visits += 1
        transaction.insert(
            sessions,
            id=f"s{self._visits:011x}",
            customer_id=str(1 + self._below(self._customers)),
            agent=self._pick(goods.AGENTS),
            flags=str(self._below(256)),
            opened_at=self._moment(0),
        )
        earlier = f"s{1 + self._below(self._visits):011x}"
        if earlier in sessions.rows:
            transaction.update(sessions, earlier, pages=str(self._below(1 << 24)))
        reviews = self._maybe("reviews") or self._maybe("product_reviews")
        if reviews is not None:
            self._reviews += 1
            transaction.insert(
                reviews,
                id=str(self._reviews),
                sku=self._pick(goods.PRODUCTS)[0],
                stars=str(1 + self._below(5)),
                body=self._pick(goods.NOTES),
            )

    # Chances

    def _below(self, limit: int) -> int:
        return int(self._random.random() * limit)

    def _pick(self, choices: Sequence[_T]) -> _T:
        return choices[int(self._random.random() * len(choices))]

    def _table(self, name: str) -> UpstreamTable:
        return self.upstream.tables[DATABASE, name]

    def _maybe(self, name: str) -> UpstreamTable | None:
        return self.upstream.tables.get((DATABASE, name))

    def _moment(self, digits: int) -> str:
        """The present, with fractional digits."""
        ts = self.upstream.now
        moment = _EPOCH + timedelta(milliseconds=ts >> 18, microseconds=ts * 7919 % 1000)
        text = f"{moment:%Y-%m-%d %H:%M:%S.%f}"
        return text[: 20 + digits] if digits else text[:19]

    def _scaled(self, table: UpstreamTable, column: str, text: str) -> str:
        """A price with as many decimals as its column has by now."""
        found = table.schema.column(column)
        digits = found.type.decimals if found is not None and found.type.decimals else 2
        return text + "0" * (digits - 2)
