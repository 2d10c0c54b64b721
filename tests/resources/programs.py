"""Programs that tests put in place of real ones."""

from pathlib import Path


def executable(path: Path, script: str) -> Path:
    """Write a shell script that can be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return path
