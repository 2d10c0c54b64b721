"""Find the Java that Spark runs on, and check its version."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from ticdc_assets.errors import ConfigError

_INSTALL = "install it (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
_MINIMUM = 17


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
