"""Servers on loopback for tests: Spark Connect, a standalone master and workers, S3, Hive."""

import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from ticdc_assets.resources import jars
from ticdc_assets.resources.class_archive import choose_archive_options
from ticdc_assets.resources.java import find_java

HOST = "127.0.0.1"
SPARK_HOME = Path(pyspark.__file__).parent

# What only the owner of a Spark Connect server can set.
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

# For processes that end within a minute: optimizing their code takes longer than it saves.  Java
# reserves a small code cache for this mode and gives up compilation when it is full.
SHORT_LIVED_JVM = {
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
}


def _environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK_", "PYSPARK_"))
    }
    return kept | {
        **SHORT_LIVED_JVM,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": sys.executable,
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextmanager
def run_server(command: list[str], folder: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server for the duration of the context; its log goes into the folder."""
    with (folder / f"{name}.log").open("wb") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=_environment(), stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield server
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def wait_for_port(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    # On a busy machine, Java takes a minute for what otherwise takes three seconds.
    for _ in range(1800):
        if server.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex((HOST, port)) == 0:
                    return
            time.sleep(0.1)
    raise RuntimeError(f"no server at {port}: {log.read_text(errors='replace')[-2000:]}")


def delta_settings() -> dict[str, str]:
    """Return the settings of a driver with Delta, which maps the archive of classes."""
    # The archive is of exactly these jars.
    class_path = os.pathsep.join(map(str, jars.find_jars()))
    options = ["-XX:+UseSerialGC", *choose_archive_options(find_java(), class_path)]
    return DELTA | {
        "spark.driver.extraClassPath": class_path,
        "spark.driver.extraJavaOptions": shlex.join(options),
    }


def _submit_command(settings: Mapping[str, str]) -> list[str]:
    command = [str(SPARK_HOME / "bin" / "spark-submit")]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    return command


@contextmanager
def connect_server(folder: Path, *, with_delta: bool = True) -> Iterator[str]:
    """Run a Spark Connect server; yield its URL."""
    port = free_port()
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
    }
    if with_delta:
        settings |= delta_settings()
    command = [*_submit_command(settings), "--class", "org.apache.spark.sql.connect.service"]
    command[-1] += ".SparkConnectServer"
    with run_server(command, folder, "connect") as server:
        wait_for_port(server, port, folder / "connect.log")
        yield f"sc://{HOST}:{port}"


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """Run a standalone master and workers with one core and 1 GiB each; yield its URL."""
    port = free_port()
    master = f"spark://{HOST}:{port}"
    run = [str(SPARK_HOME / "bin" / "spark-class"), "org.apache.spark.deploy"]
    address = ["--host", HOST, "--webui-port", "0"]
    with ExitStack() as servers:
        command = [run[0], f"{run[1]}.master.Master", *address, "--port", str(port)]
        server = servers.enter_context(run_server(command, folder, "master"))
        wait_for_port(server, port, folder / "master.log")
        for number in range(workers):
            place = folder / f"worker-{number}"
            place.mkdir()
            command = [
                run[0],
                f"{run[1]}.worker.Worker",
                *address,
                "--cores",
                "1",
                "--memory",
                "1g",
            ]
            command += ["--work-dir", str(place), master]
            servers.enter_context(run_server(command, folder, f"worker-{number}-log"))
        yield master


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """Run an S3 server; yield its URL."""
    port = free_port()
    program = Path(__file__).with_name("moto_process.py")
    command = [sys.executable, str(program), "-H", HOST, "-p", str(port)]
    with run_server(command, folder, "s3") as server:
        wait_for_port(server, port, folder / "s3.log")
        yield f"http://{HOST}:{port}"


@contextmanager
def hive_metastore(folder: Path) -> Iterator[str]:
    """Run a Hive Metastore in memory, from the jars that Spark ships; yield its URI."""
    port = free_port()
    settings = {
        "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": str(folder / "warehouse"),
        "hive.metastore.server.min.threads": "4",
        # What it would need for that is not among the jars.
        "hive.async.log.enabled": "false",
        "hive.hmshandler.retry.attempts": "1",
    }
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in settings.items()
    )
    (folder / "hive-site.xml").write_text(f"<configuration>{properties}</configuration>")
    command = [
        *(str(find_java()), "-Xmx512m", f"-Dderby.stream.error.file={folder / 'derby.log'}"),
        *(f"-Djava.io.tmpdir={folder}", "-cp", f"{folder}{os.pathsep}{SPARK_HOME / 'jars' / '*'}"),
        *("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)),
    ]
    with run_server(command, folder, "hive") as server:
        wait_for_port(server, port, folder / "hive.log")
        yield f"thrift://{HOST}:{port}"
        # It keeps everything in memory, and waits for its clients before it ends.
        server.kill()


@contextmanager
def iceberg_catalog(folder: Path) -> Iterator[str]:
    """Run the REST catalog of Iceberg's own tests, over SQLite; yield its URL."""
    port = free_port()
    settings = {
        "CATALOG_URI": f"jdbc:sqlite:{folder / 'catalog.db'}",
        "CATALOG_WAREHOUSE": (folder / "warehouse").as_uri(),
        "CATALOG_REST_PORT": str(port),
    }
    stated = [f"{name}={value}" for name, value in settings.items()]
    paths = [*jars.find_test_jars(jars.ICEBERG_REST), SPARK_HOME / "jars" / "*"]
    class_path = os.pathsep.join(map(str, paths))
    command = [
        *("env", *stated, str(find_java()), "-Xmx512m", f"-Djava.io.tmpdir={folder}"),
        *("-cp", class_path, "org.apache.iceberg.rest.RESTCatalogServer"),
    ]
    with run_server(command, folder, "iceberg") as server:
        wait_for_port(server, port, folder / "iceberg.log")
        yield f"http://{HOST}:{port}"
