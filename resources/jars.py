"""Which jars a session needs beside Spark's own, and a folder to keep them in.

`python -m resources.jars FOLDER` fetches them once; a session that finds them there needs no
network.  The versions belong together and to the line of pyspark in pyproject.toml.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from resources.java import find_java
from ticdc_assets.errors import ConfigError

DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
# Made for the Hadoop that this Spark ships.
S3A = "org.apache.hadoop:hadoop-aws:3.4.2"
AZURE = "org.apache.hadoop:hadoop-azure:3.4.2"
# One jar with all that it depends on, which no package has: to be put into a folder by hand.  Of
# those published so, later ones ask Hadoop for what it has no more.
GOOGLE = "gcs-connector-hadoop3-2.2.28-shaded.jar of com.google.cloud.bigdataoss"

# What those ask for and Spark ships already.
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
# Written last, so that a folder that has it has everything.
_FETCHED = "fetched.txt"


def find_jars() -> list[Path]:
    """The jars that are here already; none where the session has to ask for them.

    The folder is the one that the environment names; else the one in this interpreter's
    environment, if it was filled for these very versions.
    """
    if named := os.environ.get(FOLDER):
        found = sorted(Path(named).absolute().glob("*.jar"))
        if not found:
            raise ConfigError(f"there is no jar in {named}", setting=FOLDER)
        return found
    folder = default_folder()
    return sorted(folder.glob("*.jar")) if _is_complete(folder, [DELTA]) else []


def default_folder() -> Path:
    """Where `make setup` puts the jars: into the environment, beside the Python packages."""
    return Path(sys.prefix) / "spark-jars"


def fetch_jars(folder: Path, packages: Sequence[str] = (DELTA,)) -> bool:
    """Fill a folder with packages and all they need; say whether there was anything to do."""
    if _is_complete(folder, packages):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        module = Path(scratch, "ivy.xml")
        module.write_text(_module(packages), encoding="utf-8")
        command = [str(find_java()), "-cp", f"{_of_spark()}/*", "org.apache.ivy.Main"]
        command += ["-ivy", str(module), "-confs", "default", "-types", "jar", "bundle", "-warn"]
        command += ["-retrieve", f"{scratch}/[organisation]_[artifact]-[revision].[ext]"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        jars = sorted(Path(scratch).glob("*.jar"))
        if done.returncode or not jars:
            said = _reason(done.stdout + done.stderr)
            raise ConfigError(
                f"not to be had from the Maven repository: {said}", setting=", ".join(packages)
            )
        for stale in [folder / _FETCHED, *folder.glob("*.jar")]:
            stale.unlink(missing_ok=True)
        for jar in jars:
            jar.replace(folder / jar.name)
    (folder / _FETCHED).write_text(_stated(packages), encoding="utf-8")
    return True


def _is_complete(folder: Path, packages: Sequence[str]) -> bool:
    try:
        return (folder / _FETCHED).read_text(encoding="utf-8") == _stated(packages)
    except OSError:
        return False


def _stated(packages: Sequence[str]) -> str:
    return "\n".join([*packages, "without", *EXCLUDES, ""])


def _of_spark() -> Path:
    """Spark's own jars; Ivy is among them, which Spark resolves `spark.jars.packages` with."""
    found = find_spec("pyspark")
    assert found
    return Path(str(found.origin)).parent / "jars"


def _module(packages: Sequence[str]) -> str:
    """A module that needs just these packages, as Ivy describes one."""
    wanted = "".join(
        f"<dependency org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(version)}"
        ' conf="default->master,runtime"/>'
        for group, name, version in (package.split(":") for package in packages)
    )
    unwanted = "".join(
        f'<exclude org={quoteattr(group)} module={quoteattr(name)} matcher="glob"/>'
        for group, name in (exclude.split(":") for exclude in EXCLUDES)
    )
    return (
        '<ivy-module version="2.0"><info organisation="ticdc" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{wanted}{unwanted}</dependencies></ivy-module>"
    )


def _reason(output: str) -> str:
    lines = [line.strip(" :\t") for line in output.splitlines() if line.strip(" :\t")]
    return "; ".join(lines[:5]) or "Ivy said nothing"


def main() -> None:
    """Fill the folder named on the command line, or the environment's own."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default_folder()
    try:
        fetched = fetch_jars(folder)
    except ConfigError as error:
        sys.exit(str(error))
    print(f"{folder}: {'fetched' if fetched else 'nothing to do'}")


if __name__ == "__main__":
    main()
