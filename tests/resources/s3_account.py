"""An S3 server that the environment names, with an account and two empty buckets."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import Request, urlopen

import boto3
import pytest

ACCOUNT = {"AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "S3CRET"}
BUCKETS = ("changes", "lakes")


@contextmanager
def s3_account(url: str) -> Iterator[str]:
    """Empty a server, and name it by the environment; yield its URL."""
    with urlopen(Request(f"{url}/moto-api/reset", method="POST")) as done:
        assert done.status == 200
    with pytest.MonkeyPatch.context() as patch:
        at = {"AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
        for name, value in (ACCOUNT | at).items():
            patch.setenv(name, value)
        for bucket in BUCKETS:
            open_client(url).create_bucket(Bucket=bucket)
        yield url


def open_client(url: str) -> Any:
    return boto3.client("s3", endpoint_url=url, region_name="us-east-1")
