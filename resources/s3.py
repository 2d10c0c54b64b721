"""Dagster's client for S3, where a changefeed's folder lies there.

Its own module, since it takes a second to load: only changefeeds on S3 do.
"""

import os
from collections.abc import Callable
from typing import Any

from dagster import EnvVar
from dagster_aws.s3 import S3Resource

from ticdc_assets.changefeed import Changefeed

_SECRETS = {
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "aws_session_token": "AWS_SESSION_TOKEN",
}
# In a sink URI these are credentials, or lead to others than the environment's.
_OWN_CREDENTIALS = {
    *("access-key", "secret-access-key", "session-token", "role-arn", "external-id", "profile"),
}


def make_s3_resource(feed: Changefeed) -> S3Resource | None:
    """A client for the bucket of a changefeed; None where its sink URI holds the credentials.

    Those of the environment are given by name only, so that their values show nowhere.
    """
    if _OWN_CREDENTIALS & feed.options.keys():
        return None
    secrets: dict[str, Any] = {
        name: EnvVar(variable) for name, variable in _SECRETS.items() if variable in os.environ
    }
    return S3Resource(
        endpoint_url=feed.options.get("endpoint"),
        region_name=feed.options.get("region"),
        **secrets,
    )


def make_s3_reader(feed: Changefeed, client: Any) -> Callable[[str], bytes]:
    """Read a file of a changefeed's folder by the client that Dagster makes of the resource."""
    bucket, _, prefix = feed.location.removeprefix("s3://").partition("/")

    def read(path: str) -> bytes:
        key = f"{prefix}/{path}" if prefix else path
        try:
            return bytes(client.get_object(Bucket=bucket, Key=key)["Body"].read())
        except client.exceptions.NoSuchKey:
            raise FileNotFoundError("there is no such file") from None
        except client.exceptions.ClientError as error:
            # The code only: what the server says may quote a signed request.
            raise OSError(error.response.get("Error", {}).get("Code", "refused")) from None

    return read
