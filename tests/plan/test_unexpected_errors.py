"""Whatever one table's events do, it alone stops: in windows and in the reference model."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.plan.by_hand import T, create
from tests.plan.contents import contents, model_contents
from tests.plan.engine import Engine
from tests.reference.changefeeds import Ddl, Teller, put
from tests.reference.model_runs import paused
from ticdc_assets.events import Event
from ticdc_assets.plan import row_planner
from ticdc_assets.reference import row_typing
from ticdc_assets.reference.model import Model
from ticdc_assets.schema import apply_ddl
from ticdc_assets.schema.catalog import SchemaCatalog
from ticdc_assets.schema.ddl import reader

ALTER = Ddl("ALTER TABLE `t` ADD COLUMN `w` INT", "t", f"{T}, w int")
OTHERS = {"u(id, v)": [("1", "a"), ("2", "b")]}


def run(events: list[Event]) -> tuple[Engine, Model]:
    """Apply events one by one, then once more: what stopped a table stops no later window."""
    engine, model = Engine(), Model()
    for event in [*events, None]:
        piece = [] if event is None else [event]
        ts = getattr(event, "commit_ts", engine.now.ts + 1)
        engine.take(piece)
        engine.advance(ts, more_may_come=True)
        model.add(piece)
        model.advance(ts)
    return engine, model


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("observed", ['{"id":null}', '{"id":7}', '{"id":[]}', "[]", '"x"', "0"])
def test_a_row_whose_types_are_no_texts_pauses_its_table_alone(
    observed: str, is_known: bool
) -> None:
    teller = Teller("canal")
    teller.knows("t", T)
    events = teller.tell([create("t")]) if is_known else []
    events += teller.tell([create("u"), put("u", id=1, v="a"), put("t", id=1, v="a")])
    events[-1] = replace(events[-1], observed=observed)
    events += teller.tell([put("t", id=2, v="b"), put("u", id=2, v="b")])
    engine, model = run(events)
    assert contents(engine) == model_contents(model) == OTHERS
    assert set(engine.stopped()) == {("shop", "t")}
    assert "unexpected ValidationError: " in engine.stopped()["shop", "t"]
    assert "unexpected ValidationError: " in paused(model)["t"]


def fail(*_: object, **__: object) -> None:
    raise KeyError("nobody foresaw this")


def fail_for_t(function: Callable[..., object]) -> Callable[..., object]:
    def run(self: object, schema: object, *more: object, **named: object) -> object:
        return fail() if "w" in str(schema) else function(self, schema, *more, **named)

    return run


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (apply_ddl, "apply_action"),
        (reader, "_read_alter"),
        (SchemaCatalog, "replace"),
    ],
)
def test_a_ddl_that_fails_unexpectedly_pauses_its_table_alone(
    module: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    teller = Teller("canal")
    events = teller.tell([create("t"), create("u"), put("u", id=1, v="a"), put("t", id=1, v="a")])
    events += teller.tell([ALTER, put("t", id=2, v="b", w=1), put("u", id=2, v="b")])
    reader.read_ddl.cache_clear()
    if name == "_read_alter":
        monkeypatch.setitem(reader._READERS, "ALTER", fail)
    elif module is SchemaCatalog:
        monkeypatch.setattr(SchemaCatalog, name, fail_for_t(SchemaCatalog.replace))
    else:
        monkeypatch.setattr(module, name, fail)
    engine, model = run(events)
    reader.read_ddl.cache_clear()
    assert contents(engine) == model_contents(model) == OTHERS
    assert set(engine.stopped()) == {("shop", "t")}
    for reason in (engine.stopped()["shop", "t"], paused(model)["t"]):
        assert "unexpected KeyError: 'nobody foresaw this'" in reason
        assert "ADD COLUMN `w` INT" in reason


def test_rows_that_fail_unexpectedly_pause_their_table_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    teller = Teller("simple")
    events = teller.tell([create("t"), create("u"), put("u", id=1, v="a"), put("t", id=1, v="a")])
    events += teller.tell([ALTER, put("t", id=2, v="b", w=1), put("u", id=2, v="b")])
    type_group, read_images = row_planner.RowSchemas.type_group, row_typing.RowTyper.read_images
    monkeypatch.setattr(row_planner.RowSchemas, "type_group", fail_for_t(type_group))
    monkeypatch.setattr(
        row_typing.RowTyper,
        "read_images",
        lambda self, table, change: (
            fail() if "w" in change.after else read_images(self, table, change)
        ),
    )
    engine, model = run(events)
    assert contents(engine) == model_contents(model) == OTHERS
    for reason in (engine.stopped()["shop", "t"], paused(model)["t"]):
        assert "unexpected KeyError: 'nobody foresaw this'" in reason


@pytest.mark.parametrize("failure", [OSError("no route to the store"), MemoryError(), EOFError()])
def test_a_failure_of_the_machine_pauses_no_table(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    teller = Teller("simple")
    engine = Engine()
    engine.take(teller.tell([create("t"), put("t", id=1, v="a")]))

    def lose_storage(*_: object) -> None:
        raise failure

    monkeypatch.setattr(row_planner.RowSchemas, "type_group", lose_storage)
    with pytest.raises(type(failure)):
        engine.advance(500, more_may_come=True)
    assert engine.now.incarnations == {}
    monkeypatch.undo()
    engine.advance(500, more_may_come=True)
    assert contents(engine) == {"t(id, v)": [("1", "a")]}
