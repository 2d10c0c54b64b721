"""How far a run has got, on standard error: a live line on a terminal, else a line now and then."""

import sys
import time

from ticdc_assets.cli import texts

_EVERY = 10.0


class Progress:
    """Told of each stage as it goes on."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._begun = self._said = time.monotonic()
        self._shown = 0

    def __call__(self, stage: str, done: int, of: int | None) -> None:
        text = f"{stage}: {_done(stage, done, of)}, {self.seconds:.0f} s"
        if self._terminal:
            print(f"\r{text:<{self._shown}}", end="", file=sys.stderr, flush=True)
            self._shown = len(text)
        elif time.monotonic() - self._said >= _EVERY:
            print(text, file=sys.stderr, flush=True)
            self._said = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.monotonic() - self._begun

    def end(self) -> None:
        """Leave the line to others."""
        if self._shown:
            print(f"\r{'':<{self._shown}}\r", end="", file=sys.stderr, flush=True)
            self._shown = 0


def _done(stage: str, done: int, of: int | None) -> str:
    if stage == "ingest":
        return texts.size(done)
    return f"{done:,}" if of is None else f"{done:,} of {texts.count(of, 'table')}"
