"""Files that are written once, whole, and never replaced: commits of logs that we write."""

import os
import secrets
from functools import cache
from typing import Any

from pyarrow import fs

from ticdc_assets.safe_text import describe_error
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.reader import create_folder, write_content
from ticdc_assets.store.uris import format_uri
from ticdc_assets.store.writer import ConcurrentCommit

IS_AT_WORK = "another run is at work in this lake: run the command again when it has ended"
_TAKEN = ("PreconditionFailed", "ConditionalRequestConflict")


def write_once(location: Lake, path: str, name: str, content: bytes) -> None:
    """Write a file of a folder of the lake; raise `ConcurrentCommit` if it is there.

    S3 does that in one step, as a disk does.  For other stores there is no client here that does:
    between seeing that there is no file and writing it, another run may write one.
    """
    if format_uri(path).startswith("s3://"):
        _put_on_s3(f"{path}/{name}", content)
        return
    folder = create_folder(path)
    if not location.is_on_disk and folder.get_file_info(name).type is not fs.FileType.NotFound:
        raise ConcurrentCommit(IS_AT_WORK, file=path, setting="--lake")
    written = f".{name}.{secrets.token_hex(8)}.tmp" if location.is_on_disk else name
    write_content(folder, written, content)
    if location.is_on_disk:
        try:
            os.link(f"{path}/{written}", f"{path}/{name}")
        except FileExistsError:
            raise ConcurrentCommit(IS_AT_WORK, file=path, setting="--lake") from None
        finally:
            folder.delete_file(written)


def _put_on_s3(uri: str, content: bytes) -> None:
    # Importing them takes a while.
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

    bucket, _, key = format_uri(uri).removeprefix("s3://").partition("/")
    try:
        open_s3().put_object(Bucket=bucket, Key=key, Body=content, IfNoneMatch="*")
    except ClientError as error:
        if error.response["Error"]["Code"] not in _TAKEN:
            raise OSError(describe_error(error)) from None
        raise ConcurrentCommit(IS_AT_WORK, file=uri, setting="--lake") from None
    except BotoCoreError as error:
        raise OSError(describe_error(error)) from None


def open_s3() -> Any:
    """Return a client of S3, or of another server, with the settings of the environment."""
    return _open_s3(os.environ.get("AWS_ENDPOINT_URL"), os.environ.get("AWS_REGION"))


@cache
def _open_s3(endpoint: str | None, region: str | None) -> Any:
    """Open a client; of another server than S3's, as for Spark, the bucket is in the path."""
    import boto3  # type: ignore[import-untyped]
    from botocore.config import Config  # type: ignore[import-untyped]

    region = region or boto3.Session().region_name or "us-east-1"
    style = {} if endpoint is None else {"addressing_style": "path"}
    config = Config(s3=style, retries={"mode": "standard"})
    return boto3.client("s3", endpoint_url=endpoint, region_name=region, config=config)
