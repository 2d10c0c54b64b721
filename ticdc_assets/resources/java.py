"""Find the Java that Spark runs on, check its version, and start it without a warning."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ticdc_assets.errors import ConfigError

_INSTALL = "install it (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
_MINIMUM = 17
_QUIET = """\
#!/bin/sh
for option do
  shift
  [ "$option" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$option"
done
exec {java} "$@"
"""


def find_java() -> Path:
    """Return the `java` that Spark will start; raise an error that says how to install one."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not java or not os.access(java, os.X_OK):
        raise ConfigError(f"Spark needs Java {_MINIMUM} or newer: {_INSTALL}", setting="JAVA_HOME")
    process = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', process.stderr)
    if process.returncode or not version or int(version[1]) < _MINIMUM:
        raise ConfigError(
            f"Spark needs Java {_MINIMUM} or newer, {java} is not: {_INSTALL}", setting="JAVA_HOME"
        )
    return Path(java)


def make_quiet_home(java: Path, folder: Path) -> Path | None:
    """Make a `JAVA_HOME` for Spark's scripts whose Java does not warn; None if it cannot run.

    The scripts always add a module that Java calls incubating, for Spark's machine learning, which
    nothing here uses.  No option of theirs or of Java's takes it away again.
    """
    script = folder / "java" / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(_QUIET.format(java=shlex.quote(str(java))))
    script.chmod(0o700)
    # Nothing runs in a file system that is mounted with noexec.
    return folder / "java" if os.access(script, os.X_OK) else None


@contextmanager
def java_home(home: Path | None) -> Iterator[None]:
    """Set JAVA_HOME while Java is started; None leaves it as it is."""
    before = os.environ.get("JAVA_HOME")
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    try:
        yield
    finally:
        os.environ.pop("JAVA_HOME", None)
        if before is not None:
            os.environ["JAVA_HOME"] = before
