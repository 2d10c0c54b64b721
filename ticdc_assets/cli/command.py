"""Run one command; its module is imported only then."""

import argparse
import importlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from ticdc_assets.cli import texts
from ticdc_assets.cli.command_line import make_parser
from ticdc_assets.cli.output import is_log_in_json, log_in_json, note, warn
from ticdc_assets.cli.parser import find_bytes_that_are_not_utf8
from ticdc_assets.errors import ConfigError
from ticdc_assets.extras import describe_missing
from ticdc_assets.safe_text import redact, redacted_errors, remember_secrets_in
from ticdc_assets.store.load_arrow import load_arrow
from ticdc_assets.store.run_id import running_as

# Modules of commands that read no table.
_WITHOUT_ARROW = frozenset({"dev", "setup", "spark_server", "tso"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    for argument in given:
        remember_secrets_in(argument)
    options = make_parser().parse_args(given)
    if wrong := find_bytes_that_are_not_utf8(given):
        warn(f"ticdc-assets: {wrong} is not UTF-8: rename what it names, or correct it")
        return 2
    with running_as() as run_id, _choose_log(options, run_id):
        started = time.monotonic()
        note(f"{options.command} begins", command=options.command)
        code = _run(options)
        seconds = round(time.monotonic() - started, 3)
        end = {"command": options.command, "exit_code": code, "seconds": seconds}
        note(f"{options.command} ends with exit code {code}", **end)
    return code


@contextmanager
def _choose_log(options: argparse.Namespace, run_id: str) -> Iterator[None]:
    if getattr(options, "log", "text") == "text":
        yield
        return
    # Most commands start faster without it.
    from ticdc_assets.cli.source import find_changefeed

    try:
        changefeed = find_changefeed(options).id
    except ConfigError:
        # The command says why.
        changefeed = None
    with log_in_json(run_id=run_id, changefeed=changefeed):
        yield


def _run(options: argparse.Namespace) -> int:
    try:
        if options.module not in _WITHOUT_ARROW:
            load_arrow()
        # Importing Spark takes seconds, so only the commands that need it do.
        module = importlib.import_module(f"ticdc_assets.cli.{options.module}")
        run = getattr(module, options.command.replace("-", "_"))
        code = cast(Callable[[argparse.Namespace], int], run)(options)
        sys.stdout.flush()
    except ConfigError as error:
        _report(f"ticdc-assets: {error}")
        return 2
    except ImportError as error:
        missing = describe_missing(error)
        if missing is None:
            raise
        _report(f"ticdc-assets: {options.command}: {missing}")
        return 2
    except BrokenPipeError:
        # The program that reads the output, such as head or less, has ended.
        sys.stdout = None
        return 0
    except KeyboardInterrupt:
        _report(f"ticdc-assets: {texts.INTERRUPTED}")
        return 130
    except OSError as error:
        # Input that cannot be read raises ConfigError or becomes an event: this is our output.
        sys.stdout = None
        _report(f"ticdc-assets: standard output: {redact(error.strerror or str(error))}")
        return 2
    except Exception as error:
        reason = _describe_spark_failure(error)
        if reason is None and is_log_in_json():
            _report_traceback(error)
            return 1
        if reason is None:
            with redacted_errors():
                raise
        _report(f"ticdc-assets: Spark failed: {redact(reason)}")
        _report(f"ticdc-assets: {texts.AFTER_SPARK}")
        return 2
    return code


def _report(line: str) -> None:
    warn(line, "error")


def _report_traceback(error: Exception) -> None:
    """Report an error that nobody foresaw as one object; Python would print lines."""
    lines = redact("".join(traceback.format_exception(error)))
    reason = redact(str(error))
    warn(f"ticdc-assets: {type(error).__name__}: {reason}", "error", traceback=lines)


def _describe_spark_failure(error: Exception) -> str | None:
    """Describe a failure of Spark; None for another error, or if Spark's log is switched on."""
    if "pyspark" not in sys.modules:
        return None
    from ticdc_assets.resources.spark import LOG, describe_failure

    return None if os.environ.get(LOG) else describe_failure(error)
