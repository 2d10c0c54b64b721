"""Run inputs, watch over them, and count."""

import faulthandler
import signal
import threading
import time
import traceback
from collections import Counter
from random import Random
from types import FrameType

from tests.fuzz.targets import TARGETS

# CPU seconds; inputs are a few records long and usually take milliseconds.
HANG = 10.0


class Hang(BaseException):
    """An input takes too long; not an Exception, so that nothing on the way handles it."""


class Campaign:
    """The inputs run so far, and the findings among them."""

    def __init__(self) -> None:
        self.inputs: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []
        self.slowest = (0.0, "")
        # Only the main thread can be interrupted; elsewhere a hang is found when it ends.
        self._can_interrupt = threading.current_thread() is threading.main_thread()

    def run(self, target: str, number: int) -> list[str]:
        """Run one input; return its findings."""
        start = time.process_time()
        found = self._watch(target, number)
        taken = time.process_time() - start
        name = f"{target} {number}"
        if taken > HANG and not any(text.startswith("hang") for text in found):
            found.append(f"hang: {taken:.1f} s")
        self.inputs[target] += 1
        self.seconds[target] += taken  # type: ignore[assignment]
        self.slowest = max(self.slowest, (taken, name))
        for text in found:
            self.counts[text.partition(":")[0]] += 1
            self.findings.append(f"{name}: {text}")
        return found

    def _watch(self, target: str, number: int) -> list[str]:
        if self._can_interrupt:
            before = signal.signal(signal.SIGVTALRM, _interrupt)
            signal.setitimer(signal.ITIMER_VIRTUAL, HANG)
        try:
            return TARGETS[target](Random(f"{target} {number}"))
        except Hang:
            return [f"hang: {traceback.format_exc(limit=-6)}"]
        except Exception:  # Any that a target lets out is a finding.
            return [f"traceback: {traceback.format_exc(limit=-6)}"]
        finally:
            if self._can_interrupt:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
                signal.signal(signal.SIGVTALRM, before)

    def run_range(self, first: int, last: int, seconds: float | None = None) -> None:
        """Run a range of numbers of every target, until the time is up."""
        end = None if seconds is None else time.process_time() + seconds
        for number in range(first, last):
            for target in TARGETS:
                if end is not None and time.process_time() > end:
                    return
                self.run(target, number)

    def describe(self) -> str:
        """Describe the figures in a few lines."""
        total = sum(self.inputs.values())
        kinds = ("traceback", "hang", "silent loss", "wrong values", "disagreement")
        counts = {**dict.fromkeys(kinds, 0), **self.counts}
        lines = [
            f"{total:,} inputs: " + ", ".join(f"{n} × {kind}" for kind, n in counts.items()),
            ", ".join(
                f"{target} {n:,} ({1000 * self.seconds[target] / n:.1f} ms)"
                for target, n in self.inputs.items()
            ),
            f"slowest: {self.slowest[1]}, {self.slowest[0]:.2f} s",
        ]
        return "\n".join(lines)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Hang


def main(arguments: list[str]) -> int:
    """Run one input by target and number, or numbers from FIRST on for some hours."""
    faulthandler.enable()
    campaign = Campaign()
    if arguments and arguments[0] in TARGETS:
        for text in campaign.run(arguments[0], int(arguments[1])):
            print(text)
        print(campaign.describe())
        return bool(campaign.findings)
    first = int(arguments[0]) if arguments else 0
    hours = float(arguments[1]) if len(arguments) > 1 else 1.0
    end = time.monotonic() + hours * 3600
    seen: Counter[str] = Counter()
    number = first
    while time.monotonic() < end:
        campaign.run_range(number, number + 50)
        number += 50
        for text in campaign.findings:
            kind = text.split(": ", 1)[1][-160:]
            seen[kind] += 1
            if seen[kind] <= 3:
                print(text, flush=True)
        campaign.findings.clear()
        if number % 1000 == 0:
            print(f"up to {number:,}: {campaign.describe()}", flush=True)
    print(campaign.describe())
    return bool(campaign.counts)
