"""Secrets of a declaration: never said, whatever else is wrong with it."""

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.changefeed.sinks import CSV, KAFKA, LARGE
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri, load_changefeeds
from ticdc_assets.changefeed.known_settings import CONNECTION, KAFKA_CONNECTION, KNOWN
from ticdc_assets.errors import ConfigError

MARK = "hunter"  # whatever a careless parser makes of the secret, a piece of it has this in it
secrets = st.lists(
    st.sampled_from("aB3/?#@:&=%;+., \\[]~*'é") | st.sampled_from(["%26", "&x=", "=1", "://"])
).map(lambda between: MARK + "".join(text + MARK for text in between))
SECRET_POSITIONS = [
    "kafka://user:{}@a:1/t?protocol=simple",
    "kafka://{}@a:1/t?protocol=simple",
    "s3://{}:{}@bucket/prefix?protocol=csv",
    "s3://{}@bucket/prefix?protocol=csv",
    "azure://user:{}@bucket/prefix?protocol=csv",
    "file://user:{}@/data?protocol=csv",
    *(f"s3://bucket/p?{name}={{}}&protocol=csv" for name in sorted(CONNECTION)),
    *(f"kafka://a:1/t?protocol=simple&{name}={{}}" for name in sorted(KAFKA_CONNECTION)),
    "s3://bucket/p?SECRET_ACCESS_KEY={}&protocol=csv",
    "kafka://a:1/t?protocol=simple&schema-registry=http://u:{}@h",
]
AN_ERROR_ELSEWHERE = ["", "&partition-num=x", "&x=1", "&protocol=avro", "&flush-interval=1", "#"]
secret_toml = st.sampled_from(
    [
        *(f"[sink.kafka-config]\n{name} = {{}}" for name in sorted(KAFKA_CONNECTION)),
        "[sink]\nschema-registry = {}",
        "[consistent]\nstorage = {}",
        "[sink.kafka-config.glue-schema-registry-config]\nsecret-access-key = {}",
        "[sink.pulsar-config]\nauthentication-token = {}",
    ]
)


def everything_said(call: Callable[[], Changefeed]) -> str:
    try:
        feed = call()
    except ConfigError as error:
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return f"{error} {error!r} {vars(error)} {cause!r}"
    return f"{feed} {feed!r} {feed.options} {feed.claim_check_options!r} {asdict(feed)}"


@given(
    st.sampled_from(SECRET_POSITIONS), secrets, st.booleans(), st.sampled_from(AN_ERROR_ELSEWHERE)
)
@example("s3://{}:{}@bucket/prefix?protocol=csv", f"{MARK}/{MARK}", False, "")
@example("s3://bucket/p?sas-token={}&protocol=csv", f"{MARK}&{MARK}=1", False, "")
@example("s3://{}@bucket/prefix?protocol=csv", f"{MARK}?{MARK}={MARK}", False, "")
@example("kafka://user:{}@a:1/t?protocol=simple", f"{MARK}?{MARK}&{MARK}", False, "")
@example(SECRET_POSITIONS[-1], f"{MARK}&{MARK}&{MARK}", False, "")
def test_a_secret_in_the_uri_is_in_no_text(
    position: str, secret: str, escaped: bool, elsewhere: str
) -> None:
    uri = position.replace("{}", quote(secret, safe="") if escaped else secret) + elsewhere
    assert MARK not in everything_said(lambda: changefeed_from_uri(uri))
    assert MARK not in everything_said(
        lambda: changefeed_from_uri(KAFKA + "simple", claim_check_storage=uri)
    )


@given(secret_toml, secrets, st.sampled_from(["", "\n[sink.csv]\nquote = 1", "\n[what]\n", "\n]"]))
def test_a_secret_in_the_toml_is_in_no_text(
    declare: Callable[..., Changefeed], position: str, secret: str, elsewhere: str
) -> None:
    plain = secret.replace("'", "")
    for value in (
        f"'{plain}'",
        f'"{plain}"',
        plain,
        f"['{plain}']",
        f"'{plain}",
        f"{{a='{plain}'}}",
    ):
        config = position.replace("{}", value) + elsewhere
        assert MARK not in everything_said(lambda config=config: declare(CSV, config))  # type: ignore[misc]
    claim = LARGE + f"claim-check-storage-uri = 's3://u:{plain}@b/x?access-key={plain}'" + elsewhere
    assert MARK not in everything_said(lambda: declare(KAFKA + "simple", claim))


def misspell(uri: str) -> str:
    return uri.replace("access-key", "acess-key")


# Each makes a URI malformed; what parses all the same has to say no secret either.
MALFORMATIONS: list[Callable[[str], str]] = [
    lambda uri: uri.replace("?", "&"),
    lambda uri: uri.replace("?", ";").replace("&", ";"),
    lambda uri: uri.replace("?", "#"),
    lambda uri: uri.replace("?", ""),
    lambda uri: uri.replace("?", "/"),
    lambda uri: uri.replace("?", "?&&").replace("&", "&&"),
    lambda uri: uri.replace("?", "%3F"),
    lambda uri: uri.replace("?", "%3F").replace("&", "%26").replace("=", "%3D"),
    lambda uri: uri.replace("?", "%253F").replace("&", "%2526").replace("=", "%253D"),
    lambda uri: uri.replace("=", ":"),
    lambda uri: uri.replace("=", "=="),
    lambda uri: uri.replace("=", "%3D"),
    lambda uri: uri.replace("&", " "),
    lambda uri: uri.replace("&", "\n"),
    lambda uri: uri.replace("&", "&amp;"),
    lambda uri: uri.replace("&", ","),
    lambda uri: uri.replace("&", ""),
    lambda uri: uri.replace("://", ":/"),
    lambda uri: uri.replace("://", ":"),
    lambda uri: uri.replace("://", "//"),
    lambda uri: uri.replace("://", ":///"),
    lambda uri: uri.replace("://", "%3A%2F%2F"),
    lambda uri: uri.replace("://", "://s3://"),
    misspell,
    lambda uri: uri.replace("access-key", "ACCESS_KEY"),
    lambda uri: uri.replace("-", ""),
    lambda uri: uri.replace("protocol=csv", "protocol=csv;"),
    lambda uri: f"'{uri}'",
    lambda uri: f"{uri}\x1b",
    str.upper,
]
WELL_FORMED = [
    "s3://bucket/prefix?access-key={}&secret-access-key={}&protocol=csv",
    "s3://bucket/prefix?protocol=csv&session-token={}",
    "file:///data/a?protocol=csv&access-key={}",
    "azure://bucket/prefix?account-name=a&account-key={}&protocol=csv&sas-token={}",
    "kafka://broker:9092/topic?protocol=simple&sasl-user=u&sasl-password={}",
    "s3://bucket/prefix?protocol=csv&endpoint=http://u:{}@host:9000",
    "s3://bucket/prefix?protocol=csv&endpoint=http://host:9000/?token={}",
    "dump:///data/x.jsonl?protocol=simple&schema-registry=http://u:{}@h",
]
# Without what ends a secret in a URI: `test_a_secret_in_the_uri_is_in_no_text` has those.
simple_secrets = st.sampled_from([MARK, f"{MARK}/{MARK}", f"{MARK}+{MARK}="])


@given(
    st.sampled_from(WELL_FORMED),
    simple_secrets,
    st.lists(st.sampled_from(MALFORMATIONS), min_size=1, max_size=2),
)
@example(WELL_FORMED[0], MARK, [MALFORMATIONS[0]])
@example(WELL_FORMED[0], MARK, [MALFORMATIONS[2], misspell])
@example(WELL_FORMED[0], MARK, [MALFORMATIONS[3], misspell])
def test_a_secret_in_a_malformed_uri_is_in_no_text(
    uri: str, secret: str, malformations: list[Callable[[str], str]]
) -> None:
    uri = uri.replace("{}", secret)
    for change in malformations:
        uri = change(uri)
    for declared in (
        lambda: changefeed_from_uri(uri),
        lambda: changefeed_from_uri(KAFKA + "simple", claim_check_storage=uri),
        lambda: changefeed_from_uri(CSV, config=Path(uri.replace("\n", ""))),
        lambda: load_changefeeds(Path(uri)),
    ):
        assert MARK not in everything_said(declared).lower()


SETTINGS = [
    f"{table}.{name}" if table else name for table in KNOWN for name in sorted(KNOWN[table])
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_no_error_quotes_the_value_of_a_setting(
    declare: Callable[..., Changefeed], setting: str
) -> None:
    table, _, name = setting.rpartition(".")
    lists = ("sink.dispatchers", "sink.column-selectors", "filter.event-filters")
    head = f"[[{table}]]" if table in lists else f"[{table}]" if table else ""
    for value in (
        f"'{MARK}'",
        f"['{MARK}']",
        f"{{{MARK}='{MARK}'}}",
        f"'http://u:{MARK}@h?{MARK}'",
    ):
        for uri in (CSV, KAFKA + "simple"):
            with suppress_config_error() as said:
                declare(uri, f"{head}\n{name} = {value}")
            # The names in a table that does not belong there are quoted, values never.
            assert MARK not in "".join(said).replace(f"{name}.{MARK}", "")


@contextmanager
def suppress_config_error() -> Iterator[list[str]]:
    said: list[str] = []
    try:
        yield said
    except ConfigError as error:
        said.append(f"{error} {error!r}")


@given(secrets)
def test_a_secret_reaches_the_resource_that_needs_it(secret: str) -> None:
    uri = f"s3://b/p?protocol=csv&SECRET_ACCESS_KEY={quote(secret, safe='')}"
    feed = pickle.loads(pickle.dumps(changefeed_from_uri(uri)))
    assert feed.options["secret-access-key"] == secret
