"""`check` finds what is wrong before anything runs, says what to do, and leaves nothing behind."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.inputs import canal_row, canal_watermark, dump_of
from tests.kafka_broker import PASSWORD, Broker
from tests.made_lake import schema, write_tables
from tests.servers import HOST, free_port
from ticdc_assets.cli import check as command
from ticdc_assets.cli import patience, records
from ticdc_assets.protocols.message import Message
from ticdc_assets.store.lake import Lake

Found = list[dict[str, str | None]]
Check = Callable[..., tuple[int, Found]]


@pytest.fixture
def check(run: Run) -> Check:
    """Run the command; return its exit code and what it found."""

    def check(*words: object) -> tuple[int, Found]:
        code, out, err = run("check", *words, "--format", "json")
        assert err == []
        return code, [json.loads(line) for line in out.splitlines()]

    return check


def select(found: Found, *results: str) -> list[tuple[str | None, str | None, str | None]]:
    return [
        (finding["changefeed"], finding["subject"], finding["setting"])
        for finding in found
        if finding["result"] in (results or ("failure",))
    ]


def declare(**entries: str) -> None:
    Path("changefeeds.toml").write_text(
        "".join(f'[[changefeed]]\nid = "{id}"\n{text}\n' for id, text in entries.items())
    )


def folder(name: str, checkpoint: bool = True) -> str:
    """Make a folder of a changefeed that leaves nothing out; return its sink URI."""
    Path(name).mkdir()
    if checkpoint:
        metadata = {"checkpoint-ts": 470628459884838913}
        Path(name, "metadata").write_text(json.dumps(metadata))
    return f'sink-uri = "file://{Path.cwd()}/{name}?protocol=canal-json&enable-tidb-extension=true"'


def listing() -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_mtime_ns if path.is_file() else 0, path.stat().st_size)
        for path in sorted(Path().rglob("*"))
    }


def test_what_is_well_is_said_and_nothing_is_left_behind(check: Check, run: Run) -> None:
    declare(shop=folder("shop"))
    write_tables(Lake(str(Path("lake").absolute()), "shop"), [schema("shop", "orders")])
    before = listing()
    code, found = check()
    assert code == 0
    assert {(finding["changefeed"], finding["subject"]) for finding in found} == {
        *((None, subject) for subject in ("java", "jars", "lake")),
        *(("shop", subject) for subject in ("declaration", "source", "lake")),
    }
    assert {finding["result"] for finding in found} == {"ok"}
    assert all(finding["fix"] is None for finding in found)
    assert list(found[0]) == list(records.Finding.__struct_fields__)
    code, out, err = run("check")
    assert (code, err) == (0, [])
    assert len(out.splitlines()) == len(found)
    assert listing() == before


def test_warnings_are_no_failure_and_name_their_settings(check: Check, run: Run) -> None:
    Path("cf.toml").write_text(
        '[filter]\nrules = ["shop.*"]\n[[filter.event-filters]]\nmatcher = ["a.b"]\n'
        'ignore-event = ["delete"]\n'
    )
    shop = folder("shop", checkpoint=False).replace("&enable-tidb-extension=true", "")
    declare(shop=f'{shop}\nconfig = "cf.toml"')
    code, found = check()
    assert code == 0
    assert select(found, "warning") == [
        ("shop", "stream", "filter.event-filters"),
        ("shop", "stream", "filter.rules"),
        ("shop", "stream", None),
        ("shop", "source", "sink-uri"),
    ]
    assert all(finding["fix"] for finding in found if finding["result"] == "warning")
    _, out, _ = run("check")
    assert "warning  shop: stream: filter.rules: TiCDC sends only the tables" in out.decode()


def test_all_faults_of_declarations_are_found_at_once(check: Check) -> None:
    declare(
        good=folder("good"),
        zone=folder("zone") + '\ntz = "China"',
        typo=folder("typo").replace("canal-json", "canal-jsonn"),
        unknown=folder("unknown") + "\nspeed = 5",
        absent=folder("absent").replace("absent?", "nowhere?"),
    )
    code, found = check()
    assert code == 1
    assert select(found) == [
        (None, "declaration", "changefeed zone.tz"),
        (None, "declaration", "changefeed typo.sink-uri: protocol"),
        (None, "declaration", "changefeed unknown.speed"),
        ("absent", "source", "sink-uri"),
    ]
    assert all(finding["file"] == "changefeeds.toml" for finding in found[:3])
    # What is well is checked all the same.
    assert ("good", "source", None) in select(found, "ok")
    code, found = check("--changefeed", "good")
    assert {finding["changefeed"] for finding in found} == {None, "good"}


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("[[changefeed", None),
        ("changefeed = 5", "changefeed"),
        ('changefeed = ["x"]', "changefeed"),
        ("[[changefeed]]", "changefeed 1.id"),
        ('[[changefeed]]\nid = "a"\nsink-uri = "file:///x?protocol=csv"\n' * 2, "changefeed a"),
    ],
)
def test_a_file_without_declarations_is_a_failure(
    check: Check, text: str, setting: str | None
) -> None:
    Path("changefeeds.toml").write_text(text)
    code, found = check()
    assert code == 1
    assert (None, "declaration", setting) in select(found)


def test_a_file_that_declares_nothing_yet_is_a_warning(check: Check, run: Run) -> None:
    Path("changefeeds.toml").write_text("changefeed = []")
    code, found = check()
    assert (code, select(found, "warning")) == (0, [(None, "declaration", None)])
    code, out, err = run("status", "--max-lag", "10m")
    assert (code, out) == (2, b"")
    assert err == [
        "ticdc-assets: changefeeds.toml: declares no changefeed: add each as [[changefeed]]"
    ]


def test_what_the_machine_lacks_is_found(
    check: Check, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    declare(shop=folder("shop"))
    # A root user may write into any folder, but not below a file.
    Path("file").touch()
    settings = {
        "JAVA_HOME": str(tmp_path),
        "TICDC_SPARK_JARS": str(tmp_path),
        "TICDC_SPARK_MEMORY": "lots",
        "TICDC_PREVIEW_ROWS": "few",
        "TICDC_MAX_LAG": "soon",
        "TICDC_OWNERS": "bob",
        "TICDC_ALERT_WEBHOOK": "ftp://host",
        "TICDC_SENSOR_SECONDS_SHOP": "abc",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    code, found = check("--lake", "file/lake")
    assert code == 1
    assert select(found) == [
        (None, "settings", "TICDC_MAX_LAG"),
        (None, "settings", "TICDC_PREVIEW_ROWS"),
        (None, "settings", "TICDC_SPARK_MEMORY"),
        (None, "settings", "TICDC_OWNERS"),
        (None, "settings", "TICDC_ALERT_WEBHOOK"),
        (None, "settings", "TICDC_SENSOR_SECONDS_SHOP"),
        (None, "java", "JAVA_HOME"),
        (None, "jars", "TICDC_SPARK_JARS"),
        (None, "lake", None),
    ]
    for name in settings:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TICDC_SPARK_MASTER", f"sc://{HOST}:{free_port()}/;token=S3CRETS3CRET")
    code, found = check()
    assert select(found) == [(None, "spark", "TICDC_SPARK_MASTER")]
    assert "S3CRET" not in json.dumps(found)


def test_a_lake_that_is_damaged_is_found(check: Check) -> None:
    declare(shop=folder("shop"))
    write_tables(Lake(str(Path("lake").absolute()), "shop"), [schema("shop", "orders")])
    log = Path("lake/shop/applied/_delta_log")
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("damaged")
    code, found = check()
    assert (code, select(found)) == (1, [("shop", "lake", None)])


def test_topics_are_read_with_the_rights_of_a_run(
    check: Check, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # For the one that does not answer.
    monkeypatch.setattr("ticdc_assets.resources.kafka.PATIENCE", 5.0)
    rows = [json.dumps(m).encode() for m in (canal_row("d", "t", 5), canal_watermark(9))]
    for topic in ("granted-check", "granted-nothing", "granted-wrong", "hidden-check"):
        broker.create(topic)
    broker.send(Message("granted-check", 0, n, None, value, 1) for n, value in enumerate(rows))
    sasl = f"enable-tls=true&ca={broker.ca}&sasl-mechanism=plain&sasl-user=reader&sasl-password="
    extended = "protocol=canal-json&enable-tidb-extension=true"
    declare(
        **{
            id: f'sink-uri = "kafka://{place}"\nserver-version = "9.0.0"'
            for id, place in {
                "good": f"{broker.sasl}/granted-check?{extended}&{sasl}{PASSWORD}",
                "empty": f"{broker.sasl}/granted-nothing?{extended}&{sasl}{PASSWORD}",
                "wrong": f"{broker.sasl}/granted-wrong?{extended}&{sasl}wr0ng-w0rd",
                "hidden": f"{broker.sasl}/hidden-check?{extended}&{sasl}{PASSWORD}",
                "other": f"{broker.plain}/granted-check?protocol=simple",
                "closed": f"{HOST}:{free_port()}/granted-check?protocol=simple",
            }.items()
        }
    )
    code, found = check()
    assert code == 1
    assert select(found, "warning") == [("empty", "source", "sink-uri")]
    assert select(found) == [
        ("wrong", "source", "sink-uri: sasl-user"),
        ("hidden", "source", "topic hidden-check"),
        ("other", "source", "protocol"),
        ("closed", "source", "sink-uri"),
    ]
    assert PASSWORD not in json.dumps(found)
    assert "wr0ng-w0rd" not in json.dumps(found)


def test_claim_checks_and_dumps_are_read(check: Check) -> None:
    good = dump_of(Path.cwd(), canal_row("d", "t", 5), canal_watermark(9))
    Path("broken.jsonl").write_text("no record\n")
    Path("claims").mkdir()
    declare(
        good=f'sink-uri = "{good}"\nclaim-check-storage = "claims"',
        none=f'sink-uri = "{good.replace("kcat", "none")}"',
        broken=f'sink-uri = "{good.replace("kcat", "broken")}"\nclaim-check-storage = "nothing"',
    )
    code, found = check()
    assert code == 1
    assert select(found) == [
        ("none", "source", "sink-uri"),
        ("broken", "source", "sink-uri"),
        ("broken", "claim check", "claim-check-storage"),
    ]


def test_what_gives_no_answer_is_a_failure_within_the_time(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(shop=folder("shop"))
    monkeypatch.setattr(command, "PATIENCE", 1.0)
    monkeypatch.setattr(patience.os, "_exit", lambda code: (_ for _ in ()).throw(SystemExit(code)))
    monkeypatch.setattr(command, "inspect_source", lambda _: time.sleep(5))
    started = time.monotonic()
    code, found = check()
    assert time.monotonic() - started < 4
    assert (code, select(found)) == (1, [("shop", "source", None)])
    (late,) = (finding for finding in found if finding["result"] == "failure")
    assert late["message"] == "gives no answer within 1 s"
