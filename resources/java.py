"""The Java that Spark runs on: found, and new enough."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from ticdc_assets.errors import ConfigError

_INSTALL = "install it (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
_NEEDED = 17


def find_java() -> Path:
    """The `java` that Spark will start, or an error that says what to do about it."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not found or not os.access(found, os.X_OK):
        raise ConfigError(f"Spark needs Java {_NEEDED} or newer: {_INSTALL}", setting="JAVA_HOME")
    done = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', done.stderr)
    if done.returncode or not version or int(version[1]) < _NEEDED:
        raise ConfigError(
            f"Spark needs Java {_NEEDED} or newer, {found} is not: {_INSTALL}", setting="JAVA_HOME"
        )
    return Path(found)
