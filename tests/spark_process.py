"""A Spark of its own: with jars, settings and a catalog that the session of the tests lacks.

`python -m tests.spark_process FOLDER SETTINGS` reads lists of SQL statements from standard input,
one per line as JSON, runs each list, and writes the rows of its statements as Arrow into the
folder.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa

from tests.servers import SHORT_LIVED_JVM, delta_settings
from ticdc_assets.store.work_size import FEW_ROWS

_AT_ONCE = 4
_SETTINGS = {
    **FEW_ROWS,
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
}


class SparkProcess:
    """Runs statements as a user of Spark's SQL would."""

    def __init__(self, folder: Path, process: "subprocess.Popen[str]") -> None:
        self._folder = folder
        self._process = process

    def query(self, *statements: str) -> list[pa.Table]:
        """Run statements, several at once; return the rows of each."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        print(json.dumps(statements), file=requests, flush=True)
        answer = json.loads(answers.readline() or '"it ended"')
        assert answer == len(statements), f"{answer}; see {self._folder}/spark.log"
        paths = (self._folder / str(number) for number in range(len(statements)))
        return [pa.ipc.open_stream(path.read_bytes()).read_all() for path in paths]


@contextmanager
def spark_process(
    folder: Path, settings: Mapping[str, str], packages: Sequence[Path] = ()
) -> Iterator[SparkProcess]:
    """Run a Spark with Delta, these settings and these jars for the duration of the context."""
    of_packages = {"spark.jars": ",".join(map(str, packages))}
    chosen = _SETTINGS | delta_settings() | of_packages | dict(settings)
    command = [sys.executable, "-m", "tests.spark_process", str(folder), json.dumps(chosen)]
    with (
        (folder / "spark.log").open("w") as log,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=os.environ | SHORT_LIVED_JVM,
            text=True,
        ) as process,
    ):
        # It ends with its input.
        yield SparkProcess(folder, process)
        assert process.stdin is not None
        process.stdin.close()


def _run(folder: Path, settings: Mapping[str, str], requests: IO[str]) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    if settings.get("spark.sql.catalogImplementation") == "hive":
        builder = builder.enableHiveSupport()
    spark = builder.getOrCreate()

    def write(number: int, statement: str) -> None:
        rows = spark.sql(statement).toArrow()
        with pa.ipc.new_stream(folder / str(number), rows.schema) as stream:
            stream.write_table(rows)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for line in requests:
            statements = json.loads(line)
            try:
                list(pool.map(write, range(len(statements)), statements))
                answer = len(statements)
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"
            print(json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    _run(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.stdin)
