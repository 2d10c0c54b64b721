"""The commands that need no changefeed: `demo`, `simulate`, `dev` and `spark-server`."""

from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path

from ticdc_assets.cli import texts

_ON_TIDB = "let the shop work in the database `shop` of a TiDB: mysql://USER@HOST:PORT"


def add_simulations(add_command: Callable[[str, str, str], ArgumentParser]) -> None:
    """Add the commands; `add_command` takes a module, a name and a summary."""
    demo = add_command("demo", "demo", "take a simulated changefeed through a lake")
    demo.add_argument("--protocol", choices=texts.DEMO_PROTOCOLS, default="csv")
    demo.add_argument(
        "--dir", metavar="DIR", type=Path, help="folder to create (default: a temporary one)"
    )
    demo.add_argument("--upstream", metavar="URL", help=_ON_TIDB)
    server = add_command("spark_server", "spark-server", "keep a Spark server running for all runs")
    server.add_argument(
        "--dir", metavar="DIR", type=Path, help="its private folder (default: $TICDC_SPARK_SERVER)"
    )
    server.add_argument(
        "--lake", metavar="DIR", help="path or URI (default: $TICDC_LAKE, else ./lake)"
    )
    simulate = add_command("dev", "simulate", "simulate a changefeed in real time")
    simulate.add_argument("dir", metavar="DIR", type=Path, help="folder to create")
    _add_simulation(simulate)
    simulate.add_argument(
        "--brokers", metavar="HOST:PORT", help="send the records to a Kafka topic there"
    )
    simulate.add_argument("--upstream", metavar="URL", help=_ON_TIDB)
    dev = add_command("dev", "dev", "the same, with Dagster and its UI beside it")
    dev.add_argument(
        "--dir", metavar="DIR", type=Path, help="folder to create (default: a temporary one)"
    )
    dev.add_argument(
        "--port", metavar="N", type=int, default=3000, help="port of the UI (default: 3000)"
    )
    _add_simulation(dev)
    dev.add_argument(
        "--upstream", metavar="URL", help=f"{_ON_TIDB}; tidb: one that is started for it"
    )
    dev.add_argument(
        "--sink",
        choices=("kafka",),
        help="start a Kafka broker too, for a changefeed on it (default: a file or a folder)",
    )


def _add_simulation(command: ArgumentParser) -> None:
    command.add_argument(
        "--protocol", choices=texts.DEMO_PROTOCOLS, help="(default: csv; with Kafka, simple)"
    )
    command.add_argument(
        "--rate", metavar="N", type=float, default=4.0, help="transactions per second (default: 4)"
    )
