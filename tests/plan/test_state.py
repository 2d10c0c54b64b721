"""A state survives the way through JSON."""

from msgspec.structs import replace

from tests.plan.by_hand import bootstrap, ddl, schema
from ticdc_assets.events import FilePosition
from ticdc_assets.events.written import read_json, write_json
from ticdc_assets.plan.state import State, ddl_name
from ticdc_assets.stream.resolved_ts import WatermarkState


def test_a_state_equals_itself_after_json() -> None:
    strange = schema("t\udc80", 7)
    change = replace(ddl(5, "CREATE TABLE `\udcff` (id int)", "t", strange), pre_schema=strange)
    in_file = replace(change, position=FilePosition("shop/meta", 1))
    watermarks = WatermarkState(
        3, {"topic": {0: 7, 12: 9}}, {"topic": 3}, [("shop", "t", 4)], [change, in_file]
    )
    state = State(
        ts=9,
        bootstraps=[(12, bootstrap(strange)), (13, replace(bootstrap(strange), build_ts=4))],
        watermarks=watermarks,
        applied_ddls=[ddl_name(change)],
        skipped_ddls=[(5, ddl_name(change))],
    )
    assert read_json(write_json(state), State) == state
    assert read_json(write_json(watermarks), WatermarkState) == watermarks
