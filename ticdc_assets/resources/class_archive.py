"""The class-data archive: classes of Spark and Delta, parsed and verified, which Java only maps.

`ticdc-assets setup` makes it in this Python environment, for the Java and the jars that a session
has here.  The file's name is a digest of both, so that a session never opens an archive of others;
Java compares the jars again.  Without an archive a session only starts slower.
"""

import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ticdc_assets.resources import jars
from ticdc_assets.resources.java import find_java

# Not beside jars that TICDC_SPARK_JARS names: the lock does not cover an archive.
FOLDER = Path(sys.prefix) / "spark-classes"

# A session's start and one statement of each kind that a run needs.
_TRAINING = """
import sys
from ticdc_assets.resources.exercise import exercise
from ticdc_assets.resources.spark import get_session

spark = get_session(master="local[1]", settings={
    "spark.driver.extraJavaOptions": sys.argv[1],
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
})
exercise(spark, f"{sys.argv[2]}/table")
"""


def choose_archive_options(java: Path, class_path: str) -> list[str]:
    """Return the options with which Java uses the archive of these jars; none without one."""
    archive = locate_archive(java, [Path(jar) for jar in class_path.split(os.pathsep)])
    if not archive.is_file():
        return []
    # Java would warn of an archive that it cannot use, and continue without.
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds=off"]


def locate_archive(java: Path, delta: Sequence[Path]) -> Path:
    """Return the path of the archive of a Java, of Spark's own jars and of Delta's."""
    pyspark = find_spec("pyspark")
    assert pyspark
    shipped = sorted((Path(str(pyspark.origin)).resolve().parent / "jars").glob("*.jar"))
    described = hashlib.sha256()
    for path in (java.resolve(), *shipped, *delta):
        status = path.stat()
        described.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return FOLDER / f"{described.hexdigest()[:16]}.jsa"


def make_archive() -> Path | None:
    """Make the archive unless it exists; return its path, or None if this Java makes none."""
    archive = locate_archive(find_java(), jars.find_jars())
    if archive.is_file():
        return archive
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as scratch:
        made = Path(scratch, "classes.jsa")
        options = [f"-XX:ArchiveClassesAtExit={made}", "-Xlog:disable"]
        # The least time for one execution of each statement.
        options += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        # Java writes the archive at its end, and only then closes the pipes that it inherits.
        subprocess.run(
            [sys.executable, "-c", _TRAINING, shlex.join(options), scratch],
            capture_output=True,
            check=False,
            # Java archives no classes if the class path has a folder with files in it.
            env={name: value for name, value in os.environ.items() if name != "SPARK_CONF_DIR"},
        )
        if not made.is_file():
            return None
        for former in FOLDER.glob("*.jsa"):
            former.unlink()
        made.replace(archive)
    return archive
