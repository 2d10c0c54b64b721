"""Damaged input raises nothing, hangs nowhere, and model and plan make the same of it.

No row is lost without a word.
"""

from random import Random

import pytest

from tests.fuzz import campaign as campaigns
from tests.fuzz.campaign import Campaign
from tests.fuzz.ddl_streams import FEED
from tests.fuzz.hostile import CREATE, ONE, STREAMS, TWO, stream_messages
from tests.fuzz.pipeline import run_stream
from tests.fuzz.targets import TARGETS
from tests.golden import GOLDEN
from ticdc_assets.reference.table import ModelTable
from ticdc_assets.stream.reading import read_topic_events

FEW = 100
PER_CHUNK = 2000


def require_no_findings(campaign: Campaign) -> None:
    print(campaign.describe())
    assert not campaign.findings, "\n".join([campaign.describe(), *campaign.findings[:10]])


@pytest.mark.parametrize("target", TARGETS)
def test_some_damaged_inputs_are_harmless(target: str) -> None:
    assert GOLDEN.is_dir()
    campaign = Campaign()
    for number in range(FEW):
        campaign.run(target, number)
    require_no_findings(campaign)


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(101))
def test_many_damaged_inputs_are_harmless(chunk: int) -> None:
    campaign = Campaign()
    campaign.run_range(chunk * PER_CHUNK, (chunk + 1) * PER_CHUNK)
    require_no_findings(campaign)


def test_an_error_and_a_hang_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(random: Random) -> list[str]:
        raise KeyError(random.randrange(9))

    def hang(random: Random) -> list[str]:
        while True:
            pass

    monkeypatch.setattr(campaigns, "TARGETS", {"fail": fail, "hang": hang})
    monkeypatch.setattr(campaigns, "HANG", 0.2)
    campaign = Campaign()
    campaign.run_range(0, 1)
    assert campaign.counts == {"traceback": 1, "hang": 1}
    assert "2 inputs: 1 × traceback, 1 × hang, 0 × silent loss" in campaign.describe()


@pytest.mark.parametrize("lost", ["put", "remove"])
def test_a_lost_row_is_found(monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    delete = ONE._replace(kind="DELETE")
    monkeypatch.setitem(STREAMS, "good", [CREATE, ONE, TWO, delete])
    events = list(read_topic_events(FEED, stream_messages(["good"]), None))
    assert run_stream(FEED, events) == []
    original = getattr(ModelTable, lost)

    def lose(table: ModelTable, row: dict[str, object], *more: int) -> None:
        if row["id"] != (2 if lost == "put" else 1):
            original(table, row, *more)

    monkeypatch.setattr(ModelTable, lost, lose)
    expected = {
        "put": "silent loss: the row d.t0 (2,)",
        "remove": "silent loss: the delete of d.t0 (1,)",
    }
    assert expected[lost] in run_stream(FEED, events)
