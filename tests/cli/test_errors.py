"""How `decode` and `replay` fail, and how they end as processes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
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
    sink_uri,
    table_lines,
    unpacked,
)
from tests.servers import HOST, free_port

PROJECT = Path(__file__).resolve().parents[2]


class TestErrors:
    @pytest.fixture(autouse=True)
    def _impatient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Do not wait for brokers: none runs."""
        monkeypatch.setattr("ticdc_assets.resources.kafka.PATIENCE", 1.0)

    @pytest.fixture
    def fails(self, run: Run) -> Callable[..., str]:
        def fails(*arguments: object) -> str:
            code, out, err = run(*arguments)
            assert (code, out) == (2, b"")
            assert len(err) == 1
            return err[0]

        return fails

    def test_an_unresolved_tso_is_an_error_that_names_the_resolved_ts(
        self, fails: Callable[..., str], tmp_path: Path
    ) -> None:
        resolved = points(PLAIN)[-1]
        given = ("--sink-uri", sink_uri(PLAIN), "--out", tmp_path / "out")
        said = fails("replay", *given, "--at", f"{points(PLAIN)[0]},{resolved + 1}")
        assert f"--at: {resolved + 1} (20" in said
        assert "UTC) is not resolved" in said
        assert f"up to {resolved} (20" in said
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        "arguments",
        [
            ("replay", "--table", "d.t", "--sink-uri", "dump:///\udcff.jsonl?protocol=simple"),
            ("replay", "--table", "d.\udcff", "--sink-uri", "dump:///x.jsonl?protocol=simple"),
            ("demo", "--dir", "\udcff"),
            ("tables", "--lake", "\udcff"),
        ],
    )
    def test_an_argument_that_is_not_utf8_is_an_error(
        self, fails: Callable[..., str], arguments: tuple[str, ...]
    ) -> None:
        number = next(n for n, text in enumerate(arguments, 1) if "\udcff" in text)
        assert f"argument {number} of the command line is not UTF-8" in fails(*arguments)

    def test_a_setting_that_is_not_utf8_is_an_error(
        self, fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TICDC_CHANGEFEEDS", "\udcff.toml")
        assert "TICDC_CHANGEFEEDS is not UTF-8" in fails("replay", "--table", "d.t")

    def test_nothing_is_resolved_without_a_watermark(
        self, fails: Callable[..., str], tmp_path: Path
    ) -> None:
        uri = dump_of(tmp_path, canal_row("d", "t", 5))
        assert "nothing is resolved yet" in fails("replay", "--sink-uri", uri, "--table", "d.t")
        assert "waiting for a watermark from t-0" in fails(
            "replay", "--sink-uri", uri, "--table", "d.t", "--at", "1"
        )
        feed = unpacked(FOLDER, tmp_path / "folder")
        (tmp_path / "folder" / "metadata").unlink()
        said = fails("replay", "--changefeeds", feed, "--table", "shop.customers")
        assert "nothing is resolved yet" in said

    def test_what_is_not_there_is_named(self, fails: Callable[..., str], tmp_path: Path) -> None:
        feeds = declare(tmp_path / "feeds.toml", PLAIN)
        given = ("--changefeeds", feeds)
        assert "'shop'" in fails("decode", *given, "--changefeed", "shop")
        said = fails("replay", *given, "--table", "shop.nothing")
        assert f"--table: no table shop.nothing at {points(PLAIN)[-1]}" in said
        assert "nowhere.toml: no such file" in fails("decode", "--changefeeds", "nowhere.toml")
        assert "changefeeds.toml: no such file" in fails("decode")
        uri = f"dump://{tmp_path}/nowhere.jsonl?protocol=simple"
        said = fails("decode", "--sink-uri", uri)
        assert f"{tmp_path}/nowhere.jsonl: sink-uri: cannot read the dump: No such file" in said
        uri = f"file://{tmp_path}/nowhere?protocol=csv"
        assert f"no such folder: {tmp_path}/nowhere" in fails("decode", "--sink-uri", uri)
        uri = f"file://{feeds}?protocol=csv"
        assert f"no such folder: {feeds}" in fails("decode", "--sink-uri", uri)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[[changefeed", "is not TOML"),
            ("", "changefeed"),
            ('[[changefeed]]\nid = "x"', "sink-uri: is missing"),
            ('[[changefeed]]\nid = "x"\nsink-url = "a"', "sink-url: is not a setting"),
            ('[[changefeed]]\nid = "x"\nsink-uri = "file:///x?protocol=xml"', "protocol"),
        ],
    )
    def test_a_bad_declaration_names_file_and_setting(
        self, fails: Callable[..., str], text: str, said: str
    ) -> None:
        Path("changefeeds.toml").write_text(text)
        line = fails("decode")
        assert line.startswith("ticdc-assets: changefeeds.toml: ")
        assert said in line

    def test_matchers_that_cannot_be_read_are_an_error(
        self, fails: Callable[..., str], tmp_path: Path
    ) -> None:
        Path("config.toml").write_text('[sink]\ndispatchers = [{matcher = ["db"], topic = "x"}]')
        uri = dump_of(tmp_path, canal_row("d", "t", 5), canal_watermark(9))
        Path("changefeeds.toml").write_text(
            f'[[changefeed]]\nid = "x"\nsink-uri = "{uri}"\nconfig = "config.toml"'
        )
        assert "sink.dispatchers: matcher 'db'" in fails("replay", "--table", "d.t")

    def test_brokers_that_do_not_answer(self, fails: Callable[..., str]) -> None:
        place = f"{HOST}:{free_port()}"
        said = fails("decode", "--sink-uri", f"kafka://{place}/topic?protocol=simple")
        assert f"no broker answers at {place}" in said

    @pytest.mark.parametrize(
        "arguments",
        [
            (),
            ("encode",),
            ("decode", "--sink-uri", "dump:///x?protocol=simple", "--changefeed", "x"),
            ("decode", "--table", "a.b"),
            ("replay", "--sink-uri", "dump:///x?protocol=simple"),
            ("replay", "--table", "a.b", "--out", "x"),
            ("replay", "--table", "a.b", "--at", "yesterday"),
            ("replay", "--table", "a.b", "--at", ""),
            ("replay", "--table", "a.b", "--at", "-1"),
            ("replay", "--table", "a.b", "--at", "9223372036854775808"),
            ("replay", "--table", "a.b", "--at", "1,,2"),
            ("replay", "--table", "a.b", "--at", "1,2", "--sink-uri", "dump:///x?protocol=simple"),
        ],
    )
    def test_a_wrong_command_line_is_one_line(
        self, fails: Callable[..., str], arguments: tuple[str, ...]
    ) -> None:
        assert fails(*arguments).startswith("ticdc-assets")

    @pytest.mark.parametrize("where", ["a file", "below a file"])
    def test_a_folder_that_cannot_be_written_is_named(
        self, fails: Callable[..., str], tmp_path: Path, where: str
    ) -> None:
        (tmp_path / "file").touch()
        out = tmp_path / "file" if where == "a file" else tmp_path / "file" / "out"
        uri = dump_of(tmp_path, canal_row("d", "t", 5), canal_watermark(9))
        said = fails("replay", "--sink-uri", uri, "--out", out)
        assert f"{tmp_path}/file" in said
        assert "--out" in said

    SECRETS = "access-key=SECRET1&secret-access-key=SECRET%2F2&session-token=SECRET3"

    @pytest.mark.parametrize(
        "arguments",
        [
            ("decode", "--sink-uri", f"s3://b/p?protocol=csv&{SECRETS}&unknown=1"),
            ("decode", "--sink-uri", f"s3://b/p?protocol=xml&{SECRETS}"),
            (
                "decode",
                "--sink-uri",
                f"s3://b/p?protocol=csv&{SECRETS}&endpoint=http://127.0.0.1:1",
            ),
            (
                "decode",
                "--sink-uri",
                "s3://b/p?protocol=csv&access-key=SECRET1&endpoint=http://127.0.0.1:1",
            ),
            ("decode", "--sink-uri", "kafka://u:SECRET1@h:9092/t?sasl-password=SECRET2"),
            ("decode", "--sink-uri", "kafka://u:SEC/RE?SECRET@h:9092/t?sasl-password=SECRET2"),
            # Out of its place.
            ("decode", f"s3://b/p?protocol=csv&{SECRETS}"),
            ("decode", f"--sink-url=s3://b/p?protocol=csv&{SECRETS}"),
            ("decode", "--changefeed", f"s3://b/p?{SECRETS}", "--changefeeds", "FILE"),
            ("decode", "--changefeeds", f"s3://b/p?{SECRETS}"),
            ("decode", "--changefeeds", "kafka://u:SEC?RE/SECRET1@h:9092/t"),
            ("replay", "--table", "a.b", "--at", f"s3://b/p x?{SECRETS}"),
            (f"s3://b/p?{SECRETS}",),
        ],
    )
    def test_no_error_says_a_secret(
        self, fails: Callable[..., str], tmp_path: Path, arguments: tuple[str, ...]
    ) -> None:
        feeds = declare(tmp_path / "feeds.toml", PLAIN)
        said = fails(*(str(feeds) if a == "FILE" else a for a in arguments))
        assert "SEC" not in said


@pytest.mark.parametrize("command", [(), ("decode",), ("replay",)])
def test_help_tells_the_exit_codes(run: Run, command: tuple[str, ...]) -> None:
    code, out, err = run(*command, "--help")
    assert (code, err) == (0, [])
    text = out.decode()
    assert "exit codes:" in text
    assert all(f"\n  {code}  " in text for code in (0, 1, 2))


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ticdc_assets.cli", *arguments]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PROJECT)}


@pytest.mark.parametrize("what", ["decode", "replay"])
def test_a_reader_who_has_had_enough_is_no_error(what: str) -> None:
    more = ["--table", "shop.customers"] if what == "replay" else []
    given = command(what, "--sink-uri", sink_uri(PLAIN), *more)
    with subprocess.Popen(
        ["/bin/sh", "-c", '"$@" | head -n 1', "sh", *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as process:
        out, err = process.communicate()
    assert json.loads(out)
    # A pipe that holds all lines does not break, and the command ends with its notes.
    assert [line for line in err.splitlines() if not line.startswith(b"note: ")] == []


def test_output_that_cannot_be_written_is_said() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command("decode", "--sink-uri", sink_uri(PLAIN)),
            stdout=full,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == b"ticdc-assets: standard output: No space left on device\n"


def test_the_command_ends_with_its_exit_code(tmp_path: Path) -> None:
    feeds = declare(tmp_path / "feeds.toml", PLAIN)
    given = ("replay", "--changefeeds", feeds, "--table", "shop.customers")
    done = subprocess.run(command(*given), capture_output=True, env=ENVIRONMENT, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert table_lines(done.stdout)
    done = subprocess.run(command("decode"), capture_output=True, env=ENVIRONMENT, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
