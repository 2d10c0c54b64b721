"""The Java that Spark's scripts start: the one found, without the module of which it warns."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.resources.programs import executable
from ticdc_assets.resources.java import java_home, make_quiet_home

ECHO = 'for word; do printf "%s\\n" "$word"; done\n'


def test_java_gets_every_argument_but_the_incubating_module(tmp_path: Path) -> None:
    java = executable(tmp_path / "it's java" / "java", ECHO)
    home = make_quiet_home(java, tmp_path)
    assert home is not None
    given = [
        "-cp",
        "a b:*",
        "--add-modules=jdk.incubator.vector",
        "--add-modules=x",
        "Main",
        "",
        "ü",
    ]
    done = subprocess.run([home / "bin" / "java", *given], capture_output=True, check=True)
    assert done.stdout.decode().splitlines() == [word for word in given if "incubator" not in word]


def test_where_nothing_can_run_java_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert make_quiet_home(Path("/bin/java"), tmp_path) is None


@pytest.mark.parametrize("before", [None, "/usr/java"])
def test_java_home_is_restored(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if before is not None:
        monkeypatch.setenv("JAVA_HOME", before)
    for home, within in ((Path("/x"), "/x"), (None, before)):
        with java_home(home):
            assert os.environ.get("JAVA_HOME") == within
        assert os.environ.get("JAVA_HOME") == before
