"""URIs of tables as delta-rs takes them, and the settings of an object store that it needs."""

import os


def format_uri(path: str) -> str:
    """Write a path or URI for delta-rs: it calls Hadoop's s3a s3."""
    return f"s3://{path.removeprefix('s3a://')}" if path.startswith("s3a://") else path


def choose_storage_options(path: str) -> dict[str, str] | None:
    """Return the settings that delta-rs does not read from the environment itself."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    if path.startswith(("s3://", "s3a://")) and endpoint.startswith("http://"):
        return {"allow_http": "true"}
    return None
