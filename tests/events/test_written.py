"""Structs are read by several threads from the first one on."""

import re
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
# Nobody has read a struct of these before.  A process that msgspec ends says so by its exit code.
MANY_THREADS = """
import sys
from threading import Barrier, Thread
from msgspec import defstruct
from ticdc_assets.events.written import read_json

sys.setswitchinterval(1e-6)
found = []

def read(kind, barrier):
    barrier.wait()
    found.append(read_json('{"inner": {"a": 1}}', kind))

for number in range(50):
    inner = defstruct(f"Inner{number}", [("a", int | None), ("b", dict[str, list[int]], {})])
    kind = defstruct(f"Outer{number}", [("inner", inner), ("more", tuple[inner, ...] | None, None)])
    barrier = Barrier(8)
    threads = [Thread(target=read, args=(kind, barrier)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert len(found) == 400
"""


def test_threads_may_be_the_first_to_read_a_struct() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MANY_THREADS], cwd=PROJECT, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_every_struct_is_read_by_a_decoder_that_is_made_once() -> None:
    """`msgspec.json.decode(…, type=…)` describes a struct in whichever threads come first."""
    found = [
        f"{path.relative_to(PROJECT)}: {match[0]}"
        for path in sorted((PROJECT / "ticdc_assets").rglob("*.py"))
        for match in re.finditer(r"\bdecode\([^\n]*\btype=.*", path.read_text())
    ]
    assert found == []
