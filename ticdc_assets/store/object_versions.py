"""Whether the bucket of a lake keeps versions of objects that were removed."""

from ticdc_assets.safe_text import describe_error
from ticdc_assets.store.lake import Lake
from ticdc_assets.store.once import open_s3
from ticdc_assets.store.uris import format_uri


def describe_object_versions(location: Lake) -> str | None:
    """Say that what was removed is still in the bucket, or may be; None where it is gone.

    Only S3 says that.
    """
    uri = format_uri(location.path(""))
    if not uri.startswith("s3://"):
        return None
    # Importing them takes a while.
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    try:
        found = open_s3().get_bucket_versioning(Bucket=bucket)
    except (BotoCoreError, ClientError) as error:
        reason = describe_error(error)
        return f"whether bucket {bucket} keeps versions of removed objects is not known: {reason}"
    if "Status" not in found:
        return None
    # One whose versioning is suspended has those of before.
    return f"bucket {bucket} keeps versions of removed objects: remove those below {prefix}, too"
