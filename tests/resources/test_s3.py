"""Dagster's S3 client: its configuration, and how it reads a folder's metadata."""

import io

import dagster as dg
import pytest
from botocore.stub import Stubber
from dagster_aws.s3 import S3Resource

from ticdc_assets.changefeed import changefeed_from_uri
from ticdc_assets.errors import ConfigError
from ticdc_assets.resources.s3 import make_s3_reader, make_s3_resource
from ticdc_assets.resources.source import read_checkpoint

FEED = changefeed_from_uri("s3://bucket/a/b?protocol=csv&endpoint=http://127.0.0.1:9&region=x")


def test_the_resource_names_environment_variables_for_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "S3CRET")
    resource = make_s3_resource(FEED)

    assert resource is not None
    assert resource.aws_secret_access_key == dg.EnvVar("AWS_SECRET_ACCESS_KEY")
    assert resource.endpoint_url == "http://127.0.0.1:9"
    assert "S3CRET" not in repr(resource)


def test_a_sink_uri_with_credentials_needs_no_resource() -> None:
    uri = "s3://bucket/a?protocol=csv&access-key=k&secret-access-key=s"

    assert make_s3_resource(changefeed_from_uri(uri)) is None


def test_metadata_is_read_below_the_prefix() -> None:
    client = S3Resource(
        region_name="x", aws_access_key_id="a", aws_secret_access_key="b"
    ).get_client()
    answers = Stubber(client)
    wanted = {"Bucket": "bucket", "Key": "a/b/metadata"}
    body = b'{"checkpoint-ts":470628459884838913}'
    answers.add_response("get_object", {"Body": io.BytesIO(body)}, wanted)
    answers.add_client_error("get_object", "NoSuchKey", expected_params=wanted)
    answers.add_client_error("get_object", "AccessDenied", "https://x?Signature=S", 403)
    with answers:
        read = make_s3_reader(FEED, client)
        assert read_checkpoint(FEED, read) == 470628459884838913
        assert read_checkpoint(FEED, read) is None
        with pytest.raises(ConfigError, match="AccessDenied") as error:
            read_checkpoint(FEED, read)
        assert "Signature" not in str(error.value)
