"""The jars that a session loads beside Spark's own: Delta's, and those of a lake's object store.

`jars.lock` lists them with their SHA-256.  `ticdc-assets setup [STORE]` downloads Delta's jars, and
those of one store, into the folder that TICDC_SPARK_JARS names or the one in this Python
environment.  A session downloads nothing, and loads no jar that differs from the lock.  The lock
also lists what tests run beside it, a Kafka broker, a catalog and a reader: this module downloads
these.
"""

import argparse
import hashlib
import os
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from ticdc_assets.errors import ConfigError
from ticdc_assets.resources.ivy import download_jars

_SPARK_LINE = ".".join(version("pyspark").split(".")[:2])
# The coordinate that `delta.configure_spark_with_delta_pip` builds, without importing Spark.
DELTA = f"io.delta:delta-spark_{_SPARK_LINE}_2.13:{version('delta-spark')}"
# What `make lock` locks, by part of the lock file: packages, with what they depend on.
_PACKAGES = {
    "delta": (DELTA,),
    # Built for the Hadoop client that this Spark ships.
    "s3": ("org.apache.hadoop:hadoop-aws:3.4.2",),
    "azure": ("org.apache.hadoop:hadoop-azure:3.4.2",),
    # Only the shaded jar, which contains what it depends on, works beside Spark.  Later versions of
    # the connector need Hadoop classes that no longer exist.
    "gcs": ("com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.28:shaded",),
    # A broker for tests; no session loads it.  It runs with Spark's own jars on its class path,
    # which hold the rest of what it depends on.
    "kafka-broker": ("org.apache.kafka:kafka_2.13:4.1.2",),
    # The REST catalog of Iceberg's own tests, for ours, likewise.
    "iceberg-rest": (
        "org.apache.iceberg:iceberg-open-api:1.10.0:test-fixtures",
        "org.apache.iceberg:iceberg-core:1.10.0:tests",
        "org.apache.iceberg:iceberg-core:1.10.0",
        "org.eclipse.jetty:jetty-servlet:11.0.26",
        "org.xerial:sqlite-jdbc:3.50.3.0",
    ),
    # Iceberg's reader for Spark.
    "iceberg-spark": ("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0",),
}
BROKER, ICEBERG_REST, ICEBERG_SPARK = "kafka-broker", "iceberg-rest", "iceberg-spark"
# What no session of a lake loads.
FOR_TESTS = (BROKER, ICEBERG_REST, ICEBERG_SPARK)
STORES = tuple(part for part in _PACKAGES if part not in ("delta", *FOR_TESTS))

FOLDER = "TICDC_SPARK_JARS"
LOCK = Path(__file__).with_name("jars.lock")
_LOCK_HEADER = """\
# The jars that a session loads beside Spark's own, with their SHA-256.  `make lock` writes this.
"""


@dataclass(frozen=True)
class Jar:
    """A locked jar; `coordinate` is `group:name:revision` or `group:name:revision:classifier`."""

    coordinate: str
    sha256: str

    @property
    def file_name(self) -> str:
        group, name, *rest = self.coordinate.split(":")
        return f"{group}_{'-'.join([name, *rest])}.jar"


def read_lock(store: str | None = None) -> list[Jar]:
    """Read the jars that a session loads for a lake on disk, or in a store."""
    return _read_parts("delta") if store is None else _read_parts("delta", store)


def read_test_lock(part: str) -> list[Jar]:
    """Read the jars of what tests run beside a session."""
    return _read_parts(part)


def _read_parts(*parts: str) -> list[Jar]:
    lock = tomllib.loads(LOCK.read_text(encoding="utf-8"))
    return [Jar(*entry) for part in parts for entry in lock[part].items()]


def find_jars(store: str | None = None) -> list[Path]:
    """Return the jars for a lake on disk, or in a store; raise an error if one is not genuine."""
    return _find(read_lock(store), store)


def find_test_jars(part: str) -> list[Path]:
    """Return the jars of such a part; raise an error if one is not genuine."""
    return _find(read_test_lock(part), part)


def _find(jars: Iterable[Jar], part: str | None) -> list[Path]:
    folder = _get_folder()
    found = []
    for jar in jars:
        path = folder / jar.file_name
        if not path.is_file():
            reason = f"there is no {path}: {_advise(part)}"
            raise ConfigError(reason, setting=FOLDER)
        if _hash(path) != jar.sha256:
            reason = f"{path} is not the jar that jars.lock lists: {_advise(part)}"
            raise ConfigError(reason, setting=FOLDER)
        # Java compares the paths of the class path with those that an archive was made with.
        found.append(path.resolve())
    return found


def fetch_jars(folder: Path, jars: Iterable[Jar]) -> list[str]:
    """Download the jars that a folder lacks or that are not genuine; return their coordinates."""
    wanted = [jar for jar in jars if not _is_genuine(folder / jar.file_name, jar)]
    if not wanted:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    coordinates = [jar.coordinate for jar in wanted]
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        paths = download_jars(Path(scratch), coordinates, with_dependencies=False)
        for jar in wanted:
            if not _is_genuine(paths[jar.coordinate], jar):
                reason = "what was downloaded is not the jar that jars.lock lists"
                raise ConfigError(reason, setting=jar.coordinate)
        for jar in wanted:
            paths[jar.coordinate].replace(folder / jar.file_name)
    return coordinates


def lock_jars() -> str:
    """Download every package, with what it depends on; return the text of the lock file."""
    return _LOCK_HEADER + "".join(map(_lock_part, _PACKAGES))


def _lock_part(part: str) -> str:
    hashes: dict[str, str] = {}
    for package in _PACKAGES[part]:
        # The shaded jar contains what it depends on, and other packages name that of the others.
        is_whole = len(package.split(":")) > 3
        with tempfile.TemporaryDirectory() as scratch:
            paths = download_jars(Path(scratch), [package], with_dependencies=not is_whole)
            hashes |= {name: _hash(path) for name, path in paths.items()}
    return f"\n[{part}]\n" + "".join(f'"{name}" = "{hashes[name]}"\n' for name in sorted(hashes))


def _get_folder() -> Path:
    """Return the folder that is named, or the one in the environment, beside Python's packages."""
    named = os.environ.get(FOLDER)
    return Path(named).absolute() if named else Path(sys.prefix) / "spark-jars"


def _advise(part: str | None) -> str:
    if part in FOR_TESTS:
        return f"`python -m ticdc_assets.resources.jars {part}` downloads it"
    return f"`ticdc-assets setup{f' {part}' if part else ''}` downloads it"


def _is_genuine(path: Path, jar: Jar) -> bool:
    return path.is_file() and _hash(path) == jar.sha256


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe_download(part: str | None) -> str:
    """Download the jars of a part of the lock into the folder of this environment; say what was."""
    folder = _get_folder()
    wanted = read_test_lock(part) if part in FOR_TESTS else read_lock(part)
    fetched = fetch_jars(folder, wanted)
    return f"{folder}: {'downloaded ' + ', '.join(fetched) if fetched else 'up to date'}"


def main() -> None:
    """Download the jars of what tests run beside a session, or write the lock file."""
    parser = argparse.ArgumentParser(prog="python -m ticdc_assets.resources.jars")
    parser.add_argument("part", nargs="?", choices=FOR_TESTS, metavar="PART")
    parser.add_argument("--lock", action="store_true", help=f"write {LOCK.name} instead")
    options = parser.parse_args()
    try:
        if options.lock:
            LOCK.write_text(lock_jars(), encoding="utf-8")
        elif options.part is None:
            parser.error("name a part, or --lock")
        else:
            print(describe_download(options.part))
    except ConfigError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
