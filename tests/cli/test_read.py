"""`decode` and `replay` as a person uses them: what they print and what they write."""

import base64
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.inputs import (
    FOLDER,
    PLAIN,
    canal_row,
    canal_watermark,
    declare,
    dump_of,
    points,
    replicated,
    sink_uri,
    table_lines,
    unpacked,
)
from tests.golden import GOLDEN, open_lines
from tests.golden import records as records_of
from tests.truth import TrueTable


def in_order(rows: list[dict[str, str | None]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def true_rows(table: TrueTable) -> list[str]:
    """The rows of the truth in its very texts."""
    return in_order([dict(zip(table.names, row, strict=True)) for row in table.rows])


def files_under(folder: Path) -> dict[str, Path]:
    return {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}


class TestDecode:
    def test_every_event_is_a_line_of_json(self, run: Run) -> None:
        code, out, err = run("decode", "--sink-uri", sink_uri(PLAIN))
        assert (code, err) == (0, [])
        assert out.endswith(b"\n")
        events = [json.loads(line) for line in out.split(b"\n")[:-1]]
        kinds = {"row change", "schema change", "bootstrap", "watermark"}
        assert {event["event"] for event in events} == kinds
        # One event a record in this protocol, each with its place, in the order of the dump.
        records = list(records_of(PLAIN))
        places = [f"{record.topic}-{record.partition}-{record.offset}-0" for record in records]
        assert [event["position"] for event in events] == places
        rows = [bool({"data", "old"} & set(json.loads(r.value or b"{}"))) for r in records]
        assert [event["event"] == "row change" for event in events] == rows

    def test_a_row_has_its_images_and_a_ddl_its_statement(self, run: Run) -> None:
        _, out, _ = run("decode", "--sink-uri", sink_uri(PLAIN))
        events = [json.loads(line) for line in out.splitlines()]
        rows = [event for event in events if event["event"] == "row change"]
        images = {"insert": {"after"}, "update": {"before", "after"}, "delete": {"before"}}
        for event in rows:
            stated = {name for name in ("before", "after") if name in event}
            assert stated == images[event["op"]]
            for name in stated:
                assert {type(value) for value in event[name].values()} <= {str, type(None)}
        history = list(open_lines(GOLDEN / "lifecycle" / "ddl_history.jsonl"))
        ddls = {event["commit_ts"] for event in events if event["event"] == "schema change"}
        assert ddls <= {ddl["commit_ts"] for ddl in history}

    def test_what_is_damaged_is_a_line_in_its_place_and_the_exit_code_tells(
        self, run: Run, tmp_path: Path
    ) -> None:
        lines = [json.dumps(r) for r in open_lines(GOLDEN / PLAIN / "records.jsonl")]
        damaged = json.loads(lines[20])
        damaged["value_b64"] = base64.b64encode(b'{"version":1,"type":"INSERT"').decode()
        dump = tmp_path / "damaged.jsonl"
        whole = [*lines[:20], json.dumps(damaged), "no record", *lines[21:]]
        dump.write_text("\n".join(whole) + "\n")
        code, out, _ = run("decode", "--sink-uri", f"dump://{dump}?protocol=simple")
        events = [json.loads(line) for line in out.splitlines()]
        assert code == 1
        assert len(events) == len(whole)
        bad = {i: e for i, e in enumerate(events) if e["event"] == "quarantined"}
        assert set(bad) == {20, 21}
        place = f"{damaged['topic']}-{damaged['partition']}-{damaged['offset']}-0"
        assert [e["position"] for e in bad.values()] == [place, f"{dump}-22"]
        assert {e["error"] for e in bad.values()} == {"MalformedMessage"}
        assert all(e["reason"] for e in bad.values())

    def test_a_wrong_protocol_is_named_with_the_one_that_fits(self, run: Run) -> None:
        uri = sink_uri(PLAIN).replace("protocol=simple", "protocol=canal-json")
        code, out, err = run("decode", "--sink-uri", uri)
        assert code == 1
        count = len(out.splitlines())
        assert err == [
            f'{count:,} inputs could not be decoded: see the lines with "event":"quarantined"',
            "the declared protocol=canal-json is probably wrong: the output is written with"
            " protocol=simple, encoding-format=json",
        ]

    def test_a_message_on_several_lines_is_still_one_line(self, run: Run, tmp_path: Path) -> None:
        message = json.dumps(canal_row("d", "t", 5), indent=1)
        code, out, _ = run("decode", "--sink-uri", dump_of(tmp_path, message))
        assert code == 0
        (line,) = out.splitlines()
        assert json.loads(line)["after"] == {"id": "1"}

    def test_bytes_that_are_no_text_are_still_json(self, run: Run, tmp_path: Path) -> None:
        key = b'{"ts":5,"scm":"d","tbl":"t","t":1}'
        value = b'{"u":{"id":{"t":3,"h":true,"f":11,"v":1},"c":{"t":15,"f":0,"v":"\xff"}}}'
        record = {
            "topic": "t",
            "partition": 0,
            "offset": 0,
            "key_b64": framed(key, version=True),
            "value_b64": framed(value),
        }
        (tmp_path / "dump").write_text(json.dumps(record))
        code, out, _ = run("decode", "--sink-uri", f"dump://{tmp_path}/dump?protocol=open-protocol")
        assert code == 0
        (line,) = out.splitlines()
        assert json.loads(line)["after"] == {"id": "1", "c": "\udcff"}


class TestReplay:
    @pytest.mark.parametrize("dataset", ["types/newarch-simple-json", PLAIN])
    def test_out_has_each_table_in_the_very_texts_of_tidb(
        self, run: Run, tmp_path: Path, dataset: str
    ) -> None:
        tsos = points(dataset)
        mixed = [*tsos[-2::-1], tsos[-1], tsos[0]]
        feeds = declare(tmp_path / "feeds.toml", dataset)
        given = ("--changefeeds", feeds, "--at", ",".join(map(str, mixed)))
        code, out, err = run("replay", *given, "--out", tmp_path / "new" / "tables")
        assert (code, out, err) == (0, b"", [])
        written = files_under(tmp_path / "new" / "tables")
        expected = {
            f"{ts}/{escaped(database)}/{escaped(name)}.jsonl": true_rows(table)
            for ts in tsos
            for (database, name), table in replicated(dataset, ts).items()
        }
        contents = {name: path.read_bytes() for name, path in written.items()}
        assert {name: in_order(table_lines(c)) for name, c in contents.items()} == expected
        assert [] in expected.values()
        assert not any(contents[name] for name in contents if not expected[name])

    def test_files_are_named_by_percent_encoding_all_but_unreserved_characters(
        self, run: Run, tmp_path: Path
    ) -> None:
        run("replay", "--sink-uri", sink_uri("types/simple-json"), "--out", tmp_path / "out")
        (folder,) = (tmp_path / "out").iterdir()
        assert int(folder.name) == points("types/simple-json")[-1]
        written = files_under(folder)
        assert "ws%20%E6%95%B0%E6%8D%AE/t%201.jsonl" in written
        assert "types_db/%E8%A1%A8%20with%20%E7%A9%BA%E6%A0%BC.jsonl" in written
        assert "types_db/UPPER_Table.jsonl" in written

    @pytest.mark.parametrize("point", [0, 4, None])
    def test_table_prints_one_table_by_default_at_the_resolved_ts(
        self, run: Run, tmp_path: Path, point: int | None
    ) -> None:
        at = () if point is None else ("--at", points(PLAIN)[point])
        tables = replicated(PLAIN, points(PLAIN)[-1 if point is None else point])
        table = tables["shop", "customers"]
        given = ("--changefeeds", declare(tmp_path / "feeds.toml", PLAIN))
        code, out, err = run("replay", *given, *at, "--table", "Shop.CUSTOMERS")
        assert (code, err) == (0, [])
        assert in_order(table_lines(out)) == true_rows(table)
        assert table.rows

    def test_an_empty_table_prints_nothing(self, run: Run, tmp_path: Path) -> None:
        ts = points(PLAIN)[0]
        assert not replicated(PLAIN, ts)["shop", "orders"].rows
        feeds = declare(tmp_path / "feeds.toml", PLAIN)
        given = ("--changefeeds", feeds, "--at", ts, "--table", "shop.orders")
        assert run("replay", *given) == (0, b"", [])

    def test_binary_values_are_lower_case_hexadecimal(self, run: Run) -> None:
        given = ("--sink-uri", sink_uri("types/simple-json"), "--table", "types_db.t_bin")
        rows = table_lines(run("replay", *given)[1])
        blobs = {row["vb"] for row in rows} - {None}
        assert blobs
        assert all(bytes.fromhex(blob).hex() == blob for blob in blobs)

    def test_a_folder_is_replayed_in_the_very_texts_of_tidb(self, run: Run, tmp_path: Path) -> None:
        feed = unpacked(FOLDER, tmp_path / "sink prefix")
        tsos = points(FOLDER)
        at = ",".join(map(str, tsos))
        given = ("--changefeeds", feed, "--at", at, "--out", tmp_path / "out")
        assert run("replay", *given) == (0, b"", [])
        written = files_under(tmp_path / "out")
        assert {n: in_order(table_lines(p.read_bytes())) for n, p in written.items()} == {
            f"{ts}/{database}/{name}.jsonl": true_rows(table)
            for ts in tsos
            for (database, name), table in replicated(FOLDER, ts).items()
        }
        code, out, err = run("decode", "--changefeeds", feed)
        assert (code, err) == (0, [])
        assert len({json.loads(line)["position"] for line in out.splitlines()}) > 300

    def test_each_problem_is_one_line_and_sets_the_exit_code(
        self, run: Run, tmp_path: Path
    ) -> None:
        feeds = declare(tmp_path / "feeds.toml", "lifecycle/simple-json-handle-key-only")
        given = ("--changefeeds", feeds, "--table", "shop.customers")
        code, out, err = run("replay", *given)
        assert code == 1
        assert err
        assert all(line.startswith("incomplete: shop.") for line in err)
        found, true = (
            in_order(table_lines(out)),
            true_rows(replicated(PLAIN, points(PLAIN)[-1])["shop", "customers"]),
        )
        assert set(found) <= set(true)

    def test_a_paused_table_is_said_and_never_shown(self, run: Run, tmp_path: Path) -> None:
        feeds = declare(tmp_path / "feeds.toml", "lifecycle/simple-json-bootstrap-at-start")
        code, out, err = run("replay", "--changefeeds", feeds, "--table", "shop.events")
        assert (code, out) == (1, b"")
        assert any(line.startswith("paused: shop.events, ") for line in err)
        code, out, err = run("replay", "--changefeeds", feeds, "--out", tmp_path / "out")
        assert (code, out) == (1, b"")
        names = {path.name for path in files_under(tmp_path / "out").values()}
        assert "customers.jsonl" in names
        assert "events.jsonl" not in names

    def test_a_changefeed_without_watermarks_is_replayed_to_its_end(self, run: Run) -> None:
        uri = sink_uri("lifecycle/canal-json")
        code, out, err = run("replay", "--sink-uri", uri, "--table", "shop.customers")
        assert code == 0
        assert [line.partition(":")[0] for line in err] == ["note"]
        true = replicated(PLAIN, points(PLAIN)[-1])["shop", "customers"]
        assert in_order(table_lines(out)) == true_rows(true)


def escaped(name: str) -> str:
    """Percent-encoded but for letters, digits, `-`, `.`, `_` and `~`."""
    plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
    return "".join(
        c if c in plain else "".join(f"%{byte:02X}" for byte in c.encode()) for c in name
    )


def framed(content: bytes, *, version: bool = False) -> str:
    head = (1).to_bytes(8, "big") if version else b""
    return base64.b64encode(head + len(content).to_bytes(8, "big") + content).decode()


class TestNames:
    NAMES = (("..", ".."), (".", "x"), ("../../up", "../up"), ("/abs", "a/b"), ("~", "%2e%2e"))

    def test_no_name_leads_out_of_the_folder(self, run: Run, tmp_path: Path) -> None:
        rows = [canal_row(*names, 5) for names in self.NAMES]
        uri = dump_of(tmp_path, *rows, canal_watermark(9))
        before = files_under(tmp_path)
        assert run("replay", "--sink-uri", uri, "--out", tmp_path / "a" / "b" / "out")[0] == 0
        inside = tmp_path / "a" / "b" / "out" / "9"
        written = files_under(tmp_path)
        assert set(written) - set(before) == {
            str(path.relative_to(tmp_path)) for path in files_under(inside).values()
        }
        assert set(files_under(inside)) == {
            "%2E%2E/%2E%2E.jsonl",
            "%2E/x.jsonl",
            "..%2F..%2Fup/..%2Fup.jsonl",
            "%2Fabs/a%2Fb.jsonl",
            "~/%252e%252e.jsonl",
        }

    def test_names_may_have_dots(self, run: Run, tmp_path: Path) -> None:
        names = (("a.b", "c"), ("a", "x.y.z"))
        uri = dump_of(tmp_path, *(canal_row(*n, 5) for n in names), canal_watermark(9))
        for table in ("a.b.c", "a.x.y.z"):
            code, out, _ = run("replay", "--sink-uri", uri, "--table", table)
            assert (code, out) == (0, b'{"id":"1"}\n')

    def test_a_name_of_two_tables_is_an_error(self, run: Run, tmp_path: Path) -> None:
        rows = [canal_row("a.b", "c", 5), canal_row("a", "b.c", 5)]
        uri = dump_of(tmp_path, *rows, canal_watermark(9))
        code, out, err = run("replay", "--sink-uri", uri, "--table", "a.b.c")
        assert (code, out) == (2, b"")
        assert "`a.b`.`c` or `a`.`b.c`" in err[0]

    def test_a_name_too_long_for_a_file_is_said_and_the_others_are_written(
        self, run: Run, tmp_path: Path
    ) -> None:
        rows = [canal_row("d", "表" * 64, 5), canal_row("d", "t", 5)]
        uri = dump_of(tmp_path, *rows, canal_watermark(9))
        code, _, err = run("replay", "--sink-uri", uri, "--out", tmp_path / "out")
        assert code == 1
        partial, unwritten = err[:-1], err[-1]
        assert unwritten == f"unwritten: d.{'表' * 64}: the name is too long for a file"
        # Their CREATE was not sent.
        names = [line.partition(": the changefeed")[0] for line in partial]
        assert names == ["partial: d.t", f"partial: d.{'表' * 64}"]
        assert set(files_under(tmp_path / "out")) == {"9/d/t.jsonl"}


class TestWhichChangefeed:
    def test_it_is_found_in_the_file_given_then_in_the_environment_then_here(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def tables(*arguments: object) -> bytes:
            code, out, err = run("decode", *arguments)
            assert (code, err) == (0, [])
            return out

        uris = [dump_of(folder, canal_row("d", folder.name, 5)) for folder in folders(tmp_path)]
        files = [declare(tmp_path / f"{i}.toml", feed=uri) for i, uri in enumerate(uris)]
        declare(Path("changefeeds.toml"), feed=uris[0])
        assert b'"table":"zero"' in tables()
        monkeypatch.setenv("TICDC_CHANGEFEEDS", str(files[1]))
        assert b'"table":"one"' in tables()
        assert b'"table":"two"' in tables("--changefeeds", files[2])
        assert b'"table":"two"' in tables("--changefeeds", files[2], "--changefeed", "feed")
        assert b'"table":"zero"' in tables("--sink-uri", uris[0])

    def test_one_of_several_is_named(self, run: Run, tmp_path: Path) -> None:
        one, two = (dump_of(f, canal_row("d", f.name, 5)) for f in folders(tmp_path)[:2])
        declare(Path("changefeeds.toml"), first=one, second=two)
        assert b'"table":"one"' in run("decode", "--changefeed", "second")[1]
        code, out, err = run("decode")
        assert (code, out) == (2, b"")
        assert err == [
            "ticdc-assets: changefeeds.toml: declares first, second: choose one with --changefeed"
        ]


def folders(parent: Path) -> list[Path]:
    made = [parent / name for name in ("zero", "one", "two")]
    for folder in made:
        folder.mkdir()
    return made
