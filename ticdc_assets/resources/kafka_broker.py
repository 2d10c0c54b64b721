"""A Kafka broker of one node on loopback, to try things out with: for `dev` and for tests.

It is Apache Kafka in KRaft mode, from the part `kafka-broker` of `jars.lock`; Spark's own jars hold
the rest of what it depends on.  Whoever reaches it may do everything.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from ticdc_assets.errors import ConfigError
from ticdc_assets.resources import jars
from ticdc_assets.resources.java import find_java

_CLUSTER = "dGljZGMtYXNzZXRzLXRyaWFs"
_SETTINGS = "broker.properties"
_OPTIONS = (
    *("-Xmx384m", "-Xms128m", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m"),
    *("-XX:+UseSerialGC", "-Dlog4j2.configurationFile=log4j2.properties"),
)
_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1} %m%n
"""


def choose_settings(folder: Path, address: str, controller: str) -> dict[str, str]:
    """Return the settings of a broker that listens at an address, without any security."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{address},CONTROLLER://{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(folder / "data"),
        "num.partitions": "1",
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "message.max.bytes": "10485760",
        "num.network.threads": "2",
        "num.io.threads": "2",
    }


def prepare_broker(
    folder: Path, settings: Mapping[str, str], users: Sequence[str] = ()
) -> list[str]:
    """Write the settings into a folder and format its storage; return the command that starts it.

    The command runs in the folder.  `users` are arguments that create users with the storage.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log4j2.properties").write_text(_LOGGING)
    lines = (f"{name}={value}\n" for name, value in settings.items())
    (folder / _SETTINGS).write_text("".join(lines))
    pyspark = find_spec("pyspark")
    assert pyspark
    paths = [
        *map(str, jars.find_test_jars(jars.BROKER)),
        str(Path(str(pyspark.origin)).parent / "jars/*"),
    ]
    java = [str(find_java()), *_OPTIONS, "-cp", os.pathsep.join(paths)]
    formatting = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", _SETTINGS, *users]
    done = subprocess.run([*java, *formatting], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stdout + done.stderr).strip().splitlines()[-1:] or ["no reason given"]
        raise ConfigError(f"Kafka cannot format its storage: {reason[0]}", file=str(folder))
    return [*java, "kafka.Kafka", _SETTINGS]
