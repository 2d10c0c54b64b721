"""An S3 server that the environment names, with an account and two buckets."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.servers import s3_server

ACCOUNT = {"AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "S3CRET"}
BUCKETS = ("changes", "lakes")


@contextmanager
def s3_account(folder: Path) -> Iterator[str]:
    """Start a server, and name it by the environment; yield its URL."""
    with s3_server(folder) as url, pytest.MonkeyPatch.context() as patch:
        at = {"AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
        for name, value in (ACCOUNT | at).items():
            patch.setenv(name, value)
        for bucket in BUCKETS:
            open_client(url).create_bucket(Bucket=bucket)
        yield url


def open_client(url: str) -> Any:
    return boto3.client("s3", endpoint_url=url, region_name="us-east-1")
