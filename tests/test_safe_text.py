"""Text that leaves the program: per medium, hostile names come out as the text that they are."""

import shlex
import subprocess

import pytest
from markdown_it import MarkdownIt

from tests.hostile_names import NAMES
from ticdc_assets.assets.markdown import code, code_block
from ticdc_assets.safe_text import (
    betrays_secret,
    escape_chat,
    escape_control,
    escape_markdown,
    join_for_shell,
    quote_given,
    redact,
    redacted_errors,
    remember_secret,
    remember_secrets_in,
    unescape_markdown,
)

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def shown(name: str) -> str:
    """What a reader sees of a name where blanks are not kept."""
    return escape_control(" ".join(name.split()))


@pytest.mark.parametrize("name", NAMES)
def test_a_terminal_gets_one_printable_line(name: str) -> None:
    assert escape_control(name).isprintable()
    assert escape_control(escape_control(name)) == escape_control(name)


@pytest.mark.parametrize("name", NAMES)
def test_markdown_shows_the_text(name: str) -> None:
    (paragraph,) = [t for t in MARKDOWN.parse(escape_markdown(name)) if t.children is not None]
    assert {token.type for token in paragraph.children or ()} <= {"text", "text_special"}
    assert "".join(token.content for token in paragraph.children or ()) == shown(name)
    assert unescape_markdown(escape_markdown(name)) == shown(name)


@pytest.mark.parametrize("name", NAMES)
def test_code_in_markdown_shows_the_text(name: str) -> None:
    (paragraph,) = [t for t in MARKDOWN.parse(f"a {code(name)} b") if t.children is not None]
    before, inline, after = paragraph.children or ()
    assert (before.content, inline.type, after.content) == ("a ", "code_inline", " b")
    assert inline.content == shown(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_block_of_code_ends_where_it_ends(name: str) -> None:
    block, after, *_ = MARKDOWN.parse(f"{code_block([name, name])}\n\nafter")
    assert (block.type, block.info) == ("fence", "sql")
    assert block.content.isprintable() or set(escape_control(block.content)) != set(block.content)
    assert after.type == "paragraph_open"


@pytest.mark.parametrize("name", NAMES)
def test_a_chat_mentions_nobody_and_links_nothing(name: str) -> None:
    text = escape_chat(name)
    assert text.replace("\u200b", "").isprintable()
    assert not any(markup in text for markup in ("<", ">", "](", "@e", "@c", "@a", "@U"))
    plain = text.replace("\u200b", "").replace("&lt;", "<").replace("&gt;", ">")
    assert plain.replace("&amp;", "&") == escape_control(name)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "\ud800"])
def test_a_command_can_be_printed_and_pasted(name: str) -> None:
    line = join_for_shell(["printf", "%s|"], ["--flag"], name)
    assert line.isprintable()
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True)
    words = ["--flag", "--", name] if name.startswith("-") else [name, "--flag"]
    assert done.stdout.decode() == "".join(f"{word}|" for word in words)


def test_a_plain_command_is_quoted_as_usual() -> None:
    words = ["ticdc-assets", "resume", "--lake", "/a b"]
    line = join_for_shell(words, ["--skip-ddl"], "shop.orders")
    assert line == shlex.join([*words, "shop.orders", "--skip-ddl"])


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("sc://h:1/;token=hunter;user_id=x", "sc://h:1/;…"),
        ("sc://u:hunter@h:1", "sc://…@h:1"),
        ("sc://u:hunter", "sc://u:…"),
        ("s3:/u:hun/ter@b/p cannot be read", "s3:/…@b/p cannot be read"),
        ("https://h/p?X-Amz-Signature=hunter is not there", "https://h/p?… is not there"),
        ("GET /p?sig=hunter 403", "GET /p?… 403"),
        ("no file s3://b/p&secret-access-key=hunter", "no file s3://b/p&…"),
        ("no file s3:/b/p#acess-key=hunter", "no file s3:/b/p#…"),
        ("no file s3:/b/pacess-key=hunter", "no file s3:/b/pacess-key=…"),
        ("fs.s3a.secret.key = hunter", "fs.s3a.secret.key = …"),
        ('{"sasl-password": "hunter 2"}', '{"sasl-password": …}'),
        ("account-key%3Dhunter", "account-key%3D…"),
        # Nothing of these is a secret.
        ("abfss://container@account.dfs.core.windows.net/lake", None),
        ("did you mean session-token?", None),
        ("s3://b/p: cannot be read; why? see credentials-file=/x", None),
        ("sink-uri: access-key: is given twice", None),
        ("no session at sc://h:1: connection closed; start it", None),
        ("must be sc://HOST:PORT, at sc://[::1]:15002/x or (http://h:80)", None),
    ],
)
def test_the_form_of_a_text_betrays_a_secret(text: str, clean: str | None) -> None:
    assert redact(text) == (clean or text)
    assert betrays_secret(text) is (clean is not None)
    assert not betrays_secret(redact(text))


def test_a_known_secret_is_found_however_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_secret("hu/nt er'é!")
    for text in ("hu/nt er'é!", "hu%2Fnt%20er%27%C3%A9%21", "hu%2Fnt+er%27%C3%A9%21"):
        assert redact(f"<{text}>") == "<…>"
    remember_secrets_in("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    assert "wJal" not in redact("no table wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    monkeypatch.setenv("SOME_SECRET_KEY", "environment's own")
    assert redact("the environment's own") == "the …"


def test_an_error_that_quotes_a_secret_loses_its_causes() -> None:
    def fail() -> None:
        try:
            raise KeyError("password=hunter")
        except KeyError as inner:
            raise ValueError("outer") from inner

    with pytest.raises(RuntimeError, match="ValueError: outer") as replaced, redacted_errors():
        fail()
    assert replaced.value.__cause__ is None
    assert replaced.value.__suppress_context__
    with pytest.raises(ValueError, match=r"^plain$"), redacted_errors():
        raise ValueError("plain")


@pytest.mark.parametrize(
    "text", ["shop.order*", "2026-01-01 00:00:00", "/data/lake", "it's", "-1m"]
)
def test_what_was_given_is_quoted(text: str) -> None:
    assert quote_given(text) == repr(text)


@pytest.mark.parametrize("text", ["s3://u:hunter@b", "--token=hunter", "a\nb", "s3://b?x=1&y=2"])
def test_what_may_hold_a_secret_is_hidden(text: str) -> None:
    assert quote_given(text) == "…"


def test_the_working_directory_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shells name it PWD, which elsewhere names a password."""
    monkeypatch.setenv("PWD", "/data/shop-lakes")
    monkeypatch.setenv("OLDPWD", "/data/old-lakes")
    monkeypatch.setenv("MYSQL_PWD", "hunter hunter")
    text = "/data/shop-lakes/x and /data/old-lakes: hunter hunter"
    assert redact(text) == "/data/shop-lakes/x and /data/old-lakes: …"
