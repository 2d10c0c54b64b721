"""Secrets of a declaration: never said, whatever else is wrong with it."""

import pickle
from collections.abc import Callable
from dataclasses import asdict
from urllib.parse import quote

from hypothesis import example, given
from hypothesis import strategies as st

from tests.changefeed.sinks import CSV, KAFKA, LARGE
from ticdc_assets.changefeed import Changefeed, changefeed_from_uri
from ticdc_assets.changefeed.known_settings import CONNECTION, KAFKA_CONNECTION
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


@given(secrets)
def test_a_secret_reaches_the_resource_that_needs_it(secret: str) -> None:
    uri = f"s3://b/p?protocol=csv&SECRET_ACCESS_KEY={quote(secret, safe='')}"
    feed = pickle.loads(pickle.dumps(changefeed_from_uri(uri)))
    assert feed.options["secret-access-key"] == secret
