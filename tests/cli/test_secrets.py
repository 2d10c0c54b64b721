"""Marked secrets in every argument, variable and URI of a command: no output has one."""

import contextlib
import io
import re
import sys
from functools import partial
from pathlib import Path

import pytest
from pyarrow import fs

from tests.cli.inputs import canal_row, canal_watermark, dump_of
from ticdc_assets import cli
from ticdc_assets.lake.apply import task_runs
from ticdc_assets.resources import reading
from ticdc_assets.resources.spark import get_session

MARK = "hunter"
# The forms of an AWS key, of a web token, and of a URI with a secret in each of its parts.
KEY = f"wJalrXUtnFEMI/K7{MARK}MDENG/bPxRfiCYEXAM"
WEB_TOKEN = f"eyJhbGciOiJIUzI1{MARK}.e30.{MARK}"
URIS = [
    f"s3://u:{MARK}@b/p",
    # Nothing listens there.
    f"s3://{MARK}@b/p?protocol=csv&endpoint=http://127.0.0.1:1",
    f"s3://b/p?secret-access-key={MARK}",
    f"s3://b/p&secret-access-key={MARK}",
    f"s3:/b/p?protocol=csv&access-key={MARK}&x=1",
    f"sc://h:1/;token={MARK}",
    f"sc://h;token={MARK}",
    f"sc://u:{MARK}@h:1",
    f"sc://u:{MARK}",
    f"https://h/services/x?token={MARK}",
    f"s3a://AKID:{MARK}@b/lake",
    f"file:///p?protocol=csv&endpoint=http://u:{MARK}@h",
]
SECRETS = [*URIS, KEY, WEB_TOKEN, f"secret-access-key={MARK}", f"--secret-access-key={MARK}"]
FEED = "--sink-uri", "DUMP"
COMMANDS = [
    ("{}",),
    ("decode", "{}"),
    ("decode", "--{}"),
    ("decode", "--sink-uri", "{}"),
    ("decode", "--sink-uri={}"),
    ("decode", "--sink={}"),
    ("decode", "--changefeeds", "{}"),
    ("decode", "--changefeeds", "FEEDS", "--changefeed", "{}"),
    ("decode", *FEED, "--changefeed", "{}"),
    ("replay", *FEED, "--table", "{}"),
    ("replay", *FEED, "--table", "d.{}"),
    ("replay", *FEED, "--table", "d.t", "--at", "{}"),
    ("advance", *FEED, "--lake", "{}"),
    ("tables", *FEED, "--lake", "{}"),
    ("show", *FEED, "{}"),
    ("show", *FEED, "d.t", "--format", "{}"),
    ("show", *FEED, "d.t", "--limit", "{}"),
    ("resume", *FEED, "{}", "--lake", "nowhere"),
    ("dev", "--port", "{}"),
    ("dev", "--rate", "{}"),
    ("demo", "--protocol", "{}"),
]
VARIABLES = [
    *("TICDC_CHANGEFEEDS", "TICDC_LAKE", "TICDC_SPARK_MASTER", "TICDC_SPARK_JARS", "JAVA_HOME"),
]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let S3's client give up at once: there is no bucket."""
    once = fs.AwsStandardS3RetryStrategy(max_attempts=1)
    monkeypatch.setattr(fs, "S3FileSystem", partial(fs.S3FileSystem, retry_strategy=once))


@pytest.fixture
def feeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    # Not the session that other tests of commands share; and Spark is needed, for however little.
    monkeypatch.setattr(reading, "get_session", get_session)
    monkeypatch.setattr(task_runs, "FEW_ROWS", 0)
    uri = dump_of(tmp_path, canal_row("d", "t", 5), canal_watermark(9))
    (tmp_path / "feeds.toml").write_text(f'[[changefeed]]\nid = "x"\nsink-uri = "{uri}"\n')
    return {"DUMP": uri, "FEEDS": str(tmp_path / "feeds.toml")}


def run(*arguments: str) -> tuple[int, str]:
    """Run a command; return its exit code and all that it says, an exception included."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    code = 1
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main(list(arguments))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except Exception as error:
            err.write(f"{error!r} {error.__cause__!r} {error.__context__!r}")
    said = ""
    for stream in (out, err):
        stream.flush()
        said += stream.buffer.getvalue().decode()  # type: ignore[attr-defined]
    return code, said


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_argument_with_a_secret_is_quoted(
    command: tuple[str, ...], feeds: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Spark is not what this is about, and takes seconds.
    monkeypatch.setenv("TICDC_SPARK_MASTER", "nothing")
    for secret in SECRETS:
        given = [feeds.get(word, word).replace("{}", secret) for word in command]
        code, said = run(*given)
        assert code == 2, (given, said)
        assert MARK not in said, given
        assert said.count("\n") == 1, (given, said)


@pytest.mark.parametrize("variable", VARIABLES)
def test_no_variable_with_a_secret_is_quoted(
    variable: str, feeds: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_master = variable in ("TICDC_SPARK_JARS", "JAVA_HOME")
    monkeypatch.setenv("TICDC_SPARK_MASTER", "local[1]" if needs_master else "nothing")
    more = [] if variable == "TICDC_CHANGEFEEDS" else ["--changefeeds", feeds["FEEDS"]]
    for secret in URIS:
        monkeypatch.setenv(variable, secret)
        code, said = run("advance", *more)
        assert code == 2, said
        assert MARK not in said
        assert said.count("\n") == 1


def test_only_one_module_prints() -> None:
    folder = Path(str(sys.modules["ticdc_assets.cli"].__file__)).parent
    printing = re.compile(r"(?<!\w)print\(|std(out|err)\.(buffer\.)?write")
    assert [p.name for p in folder.glob("*.py") if printing.search(p.read_text())] == ["output.py"]
