"""The jars a session needs beside Spark's own, and the folder that keeps them.

`python -m resources.jars FOLDER` downloads them once; a session that finds them there needs no
network.  The installed `delta-spark` decides the version of the Delta jar.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from resources.java import find_java
from ticdc_assets.errors import ConfigError

_SPARK_LINE = ".".join(version("pyspark").split(".")[:2])
# The coordinate that `delta.configure_spark_with_delta_pip` builds, without importing Spark.
DELTA = f"io.delta:delta-spark_{_SPARK_LINE}_2.13:{version('delta-spark')}"
# Built for the Hadoop client that this Spark ships.
S3A = "org.apache.hadoop:hadoop-aws:3.4.2"
AZURE = "org.apache.hadoop:hadoop-azure:3.4.2"
# Only the shaded jar works beside Spark, and Ivy cannot resolve it: copy it into the folder by
# hand.  Later versions of the connector need Hadoop classes that no longer exist.
GOOGLE = "gcs-connector-hadoop3-2.2.28-shaded.jar of com.google.cloud.bigdataoss"

# Dependencies of the packages above that Spark already ships.
EXCLUDES = (
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.hadoop:hadoop-client-api",
    "org.slf4j:slf4j-api",
    "org.lz4:lz4-java",
    "at.yawk.lz4:*",
    "org.xerial.snappy:snappy-java",
    "com.github.luben:zstd-jni",
    "com.google.code.findbugs:jsr305",
    "commons-logging:commons-logging",
    "org.scala-lang:scala-library",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
    "org.apache.parquet:*",
    "org.apache.logging.log4j:*",
    "com.fasterxml.jackson.core:*",
    "com.fasterxml.jackson.datatype:*",
    "org.roaringbitmap:*",
    "org.tukaani:xz",
)

FOLDER = "TICDC_SPARK_JARS"
# Written last: a folder that has it is complete.
_MANIFEST = "fetched.txt"


def find_jars() -> list[Path]:
    """Return the jars of the local folder, or none if the session has to download them.

    The folder is the one TICDC_SPARK_JARS names, else the one in this Python environment, provided
    it was filled for exactly the required versions.
    """
    if named := os.environ.get(FOLDER):
        jars = sorted(Path(named).absolute().glob("*.jar"))
        if not jars:
            raise ConfigError(
                f"{named} contains no jar; fill it with `python -m resources.jars {named}`",
                setting=FOLDER,
            )
        return jars
    folder = _default_folder()
    return sorted(folder.glob("*.jar")) if _is_complete(folder, [DELTA]) else []


def fetch_jars(folder: Path, packages: Sequence[str] = (DELTA,)) -> bool:
    """Download packages and their dependencies into a folder; return False if it has them."""
    if _is_complete(folder, packages):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        jars = _run_ivy(Path(scratch), packages)
        for stale in [folder / _MANIFEST, *folder.glob("*.jar")]:
            stale.unlink(missing_ok=True)
        for jar in jars:
            jar.replace(folder / jar.name)
    (folder / _MANIFEST).write_text(_format_manifest(packages), encoding="utf-8")
    return True


def _default_folder() -> Path:
    """Return the folder `make setup` fills: in the environment, beside the Python packages."""
    return Path(sys.prefix) / "spark-jars"


def _is_complete(folder: Path, packages: Sequence[str]) -> bool:
    try:
        return (folder / _MANIFEST).read_text(encoding="utf-8") == _format_manifest(packages)
    except OSError:
        return False


def _format_manifest(packages: Sequence[str]) -> str:
    return "\n".join([*packages, "without", *EXCLUDES, ""])


def _run_ivy(folder: Path, packages: Sequence[str]) -> list[Path]:
    """Download packages with the Ivy that Spark ships and resolves `spark.jars.packages` with."""
    pyspark = find_spec("pyspark")
    assert pyspark
    module = folder / "ivy.xml"
    module.write_text(_format_module(packages), encoding="utf-8")
    classpath = Path(str(pyspark.origin)).parent / "jars" / "*"
    command = [str(find_java()), "-cp", str(classpath), "org.apache.ivy.Main"]
    command += ["-ivy", str(module), "-confs", "default", "-types", "jar", "bundle", "-warn"]
    command += ["-retrieve", f"{folder}/[organisation]_[artifact]-[revision].[ext]"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    jars = sorted(folder.glob("*.jar"))
    if process.returncode or not jars:
        lines = (line.strip(" :\t") for line in (process.stdout + process.stderr).splitlines())
        reason = "; ".join([line for line in lines if line][:5]) or "Ivy printed no error"
        raise ConfigError(f"download from Maven failed: {reason}", setting=", ".join(packages))
    return jars


def _format_module(packages: Sequence[str]) -> str:
    """Describe a module that depends on the packages, as Ivy reads it."""
    dependencies = "".join(
        f"<dependency org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(revision)}"
        ' conf="default->master,runtime"/>'
        for group, name, revision in (package.split(":") for package in packages)
    )
    excludes = "".join(
        f'<exclude org={quoteattr(group)} module={quoteattr(name)} matcher="glob"/>'
        for group, name in (exclude.split(":") for exclude in EXCLUDES)
    )
    return (
        '<ivy-module version="2.0"><info organisation="ticdc" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}{excludes}</dependencies></ivy-module>"
    )


def main() -> None:
    """Fill the folder named on the command line, or the one in this Python environment."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else _default_folder()
    try:
        fetched = fetch_jars(folder)
    except ConfigError as error:
        sys.exit(str(error))
    print(f"{folder}: {'downloaded the jars' if fetched else 'up to date'}")


if __name__ == "__main__":
    main()
