"""Show the progress of a run on standard error: a live line on a terminal, else a line per 10 s.

In a log in JSON, it is an object per 10 s.
"""

import sys
import time

from ticdc_assets.cli import texts
from ticdc_assets.cli.output import is_log_in_json, show_live, warn

_SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Shows the stage of a run and how much of it is done."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty() and not is_log_in_json()
        self._start = self._last_line = time.monotonic()
        self._width = 0
        self._has_lines = False
        # What the next line would say.
        self._withheld: tuple[str, dict[str, object]] | None = None

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        text = f"{stage}: {_format_done(stage, done, total)}, {self.seconds:.0f} s"
        self.show(text, stage=stage, done=done, total=total)

    def show(self, text: str, **fields: object) -> None:
        """Show how much is done; fields are for a log in JSON."""
        if self._terminal:
            show_live(f"{text:<{self._width}}")
            self._width = len(text)
        elif time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            warn(text, "info", **fields)
            self._last_line = time.monotonic()
            self._has_lines, self._withheld = True, None
        else:
            self._withheld = text, fields

    @property
    def seconds(self) -> float:
        """Seconds since the run started."""
        return time.monotonic() - self._start

    def end(self) -> None:
        """Clear the live line; the last of other lines says how much was done."""
        if self._has_lines and self._withheld is not None:
            text, fields = self._withheld
            warn(text, "info", **fields)
        self._has_lines, self._withheld = False, None
        if self._width:
            show_live(f"{'':<{self._width}}\r")
            self._width = 0


def _format_done(stage: str, done: int, total: int | None) -> str:
    if stage == "ingest":
        return texts.format_size(done)
    return f"{done:,}" if total is None else f"{done:,} of {texts.format_count(total, 'table')}"
