"""Which extra of the package brings a module that is not installed."""

_EXTRAS = {
    "spark": ("delta", "pandas", "py4j", "pyspark"),
    "dagster": ("dagster", "dagster_aws", "dagster_dg_cli", "dagster_pyspark", "pandera"),
    "kafka": ("confluent_kafka",),
    "s3": ("boto3", "botocore"),
    "gcs": ("jwt",),
    "privacy": ("cryptography",),
    "metrics": ("prometheus_client",),
    "postgresql": ("adbc_driver_manager", "adbc_driver_postgresql"),
    "catalogs": ("pyiceberg", "pymetastore", "requests", "thrift"),
}


def describe_missing(error: ImportError) -> str | None:
    """Say how to install what an import lacks; None for a module that no extra brings."""
    top = (error.name or "").partition(".")[0]
    for extra, modules in _EXTRAS.items():
        if top in modules:
            return f"{top} is not installed: pip install 'ticdc-assets[{extra}]'"
    return None
