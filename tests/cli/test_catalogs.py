"""Commands and catalogs: a run registers tables, and one that cannot goes on and says so."""

import json
import socket
from pathlib import Path

import pytest

from tests.catalogs.conftest import REGION, GlueServer, glue, moto_url
from tests.cli.conftest import Run
from tests.cli.inputs import canal_row, canal_watermark, dump_of
from tests.servers import HOST
from ticdc_assets.resources import catalogs

__all__ = ["glue", "moto_url"]


def declare(source: str, endpoint: str) -> None:
    Path("changefeeds.toml").write_text(
        f'[[changefeed]]\nid = "shop"\nsink-uri = "{source}"\n'
        f'[changefeed.catalog.glue]\nregion = "{REGION}"\nendpoint = "{endpoint}"\n'
    )


def create(table: str, ts: int) -> dict[str, object]:
    sql = f"CREATE TABLE {table} (id INT PRIMARY KEY)"
    about = {"isDdl": True, "type": "CREATE", "sql": sql, "data": None, "mysqlType": None}
    return canal_row("d", table, ts, pkNames=None, sqlType=None, **about)


def read_status(run: Run) -> tuple[list[str], list[str]]:
    code, out, _ = run("status", "--format", "json")
    assert code == 0
    lines = [line for line in run("status")[2] if line.startswith("catalog")]
    return json.loads(out)["catalog_problems"], lines


def test_a_run_goes_on_without_its_catalog_and_the_next_one_catches_up(
    here: object, run: Run, glue: GlueServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogs, "READ_SECONDS", 0.5)
    messages = [create("t", 2), canal_row("d", "t", 3), canal_watermark(9)]
    source = dump_of(tmp_path, *messages)
    with socket.create_server((HOST, 0)) as silent:
        # It accepts connections, and never answers.
        declare(source, f"http://{HOST}:{silent.getsockname()[1]}")
        code, out, err = run("advance")
        assert code == 0
        assert b"shop: applied up to 9 " in out
        (said,) = (line for line in err if line.startswith("catalog: "))
        assert said.startswith("catalog: glue: Glue does not answer: Read timeout")
        assert said.endswith("; the next run goes on (1 entries)")
        problems, lines = read_status(run)
        assert problems == [said]
        assert lines == [said.replace("catalog: ", "catalog: shop: ", 1)]
        code, out, _ = run("check", "--format", "json")
        found = [json.loads(line) for line in out.splitlines()]
        (failure,) = (each for each in found if each["subject"] == "catalog")
        assert (failure["result"], failure["setting"]) == ("failure", "catalog.glue")
        assert "credentials come from the environment" in failure["fix"]
    declare(source, glue.url)
    # There is nothing new but the catalog.
    code, _, err = run("advance")
    assert code == 0
    assert not any(line.startswith("catalog") for line in err)
    assert glue.list_tables().keys() == {"d.t"}
    assert read_status(run) == ([], [])
    code, out, _ = run("check", "--format", "json")
    found = [json.loads(line) for line in out.splitlines()]
    results = {each["result"]: each for each in found if each["subject"] == "catalog"}
    assert results["ok"]["message"] == f"glue at {glue.url} has 1 databases"
    assert "the engines of AWS read S3 only" in results["warning"]["message"]
    # Maintenance changes which files a table consists of.
    (registered,) = Path().rglob("catalog-glue.json")
    registered.unlink()
    assert run("maintain")[0] == 0
    assert registered.exists()
