"""Dagster's S3 client, for a changefeed whose folder is on S3.

A module of its own because importing it takes a second: only changefeeds on S3 import it.
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
# Sink URI options that are credentials, or select others than the environment's.
_CREDENTIAL_OPTIONS = {
    *("access-key", "secret-access-key", "session-token", "role-arn", "external-id", "profile"),
}


def make_s3_resource(feed: Changefeed) -> S3Resource | None:
    """Make a client for a changefeed's bucket; None if its sink URI holds the credentials.

    The resource refers to environment variables by name, so that their values appear nowhere.
    """
    if _CREDENTIAL_OPTIONS & feed.options.keys():
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
    """Make a function that reads one file of a changefeed's folder with a boto3 client."""
    bucket, _, prefix = feed.location.removeprefix("s3://").partition("/")
    # Made before threads read: two that each make the classes catch none of the other's.
    errors = client.exceptions

    def read(path: str) -> bytes:
        key = f"{prefix}/{path}" if prefix else path
        try:
            return bytes(client.get_object(Bucket=bucket, Key=key)["Body"].read())
        except errors.NoSuchKey:
            raise FileNotFoundError("the file does not exist") from None
        except errors.ClientError as error:
            # Only the code: the server's message may quote a signed request.
            raise OSError(error.response.get("Error", {}).get("Code", "unknown error")) from None

    return read
