"""A wrong command line is one line that names what was given, and the command that explains it."""

import pytest

from tests.cli.conftest import Run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("tables", "--lakee", "/x", "--all"),
            "ticdc-assets tables: unrecognized arguments: --lakee …; did you mean --lake?"
            " See ticdc-assets tables --help",
        ),
        (("show", "a.b", "rest"), "ticdc-assets show: unrecognized arguments: 'rest'; see"),
        # Not what follows from it: that the table is missing.
        (("show", "--tabel", "a.b"), "ticdc-assets show: unrecognized arguments: --tabel …; see"),
        (("decode", "--password", "hunter"), "unrecognized arguments: --password …; see"),
        (("decode", "hunter2", "u:hunter@h"), "unrecognized arguments: 'hunter2' …; see"),
        (("encode",), "ticdc-assets: there is no command 'encode'; did you mean decode? See"),
        (("xyz",), "ticdc-assets: there is no command 'xyz'; see ticdc-assets --help"),
        (("show", "a.b", "--format", "xml"), "argument --format: invalid choice: 'xml' (choose"),
        (("show", "a.b", "--limit", "-5"), "argument --limit: '-5' must be a positive number"),
        (("show", "orders"), "argument DB.TABLE: 'orders' must be DB.TABLE"),
        (("tables", "shop"), "argument PATTERN: 'shop' must be a table or a pattern, such as"),
        (("replay", "--at", "-10x"), "argument --at: '-10x' must be a TSO, a time such as"),
        (("replay", "--at", "2026-01-01T00:00:00"), "'2026-01-01T00:00:00' has no zone: add Z"),
        (("load", "--at", "1,2"), "argument --at: '1,2' must be a TSO"),
    ],
)
def test_what_is_wrong_is_named(run: Run, words: tuple[str, ...], said: str) -> None:
    code, out, err = run(*words)
    assert (code, out, len(err)) == (2, b"", 1)
    assert said in err[0]


def test_tsos_are_times_and_times_are_tsos(run: Run) -> None:
    given = ("470745042511724545", "2026-11-27 03:23:46.476", "2026-11-27T11:23:46.476+08:00")
    code, out, err = run("tso", *given)
    assert (code, err) == (0, [])
    assert out.decode().splitlines() == [
        f"{ts}  2026-11-27 03:23:46.476 UTC"
        for ts in (470745042511724545, 470745042511724544, 470745042511724544)
    ]
    # An argument that begins with a dash is a time, too.
    before, now = (int(line.split()[0]) for line in run("tso", "-90s", "now")[1].splitlines())
    assert 90_000 <= (now >> 18) - (before >> 18) < 91_000
    code, out, err = run("tso", "now", "1795749826")
    assert (code, out) == (2, b"")
    assert "TSO: 1795749826 is no TSO but Unix time in seconds" in err[0]


def test_the_version_is_printed(run: Run) -> None:
    code, out, err = run("--version")
    assert (code, err) == (0, [])
    assert out.split()[0] == b"ticdc-assets"
    assert out.split()[1][:1].isdigit()
