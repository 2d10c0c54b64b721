"""Starting Spark leaves Ctrl-C as it was."""

import signal

from ticdc_assets.resources.interrupt import keep_interrupt_handler


def test_a_handler_installed_meanwhile_is_replaced_by_the_one_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with keep_interrupt_handler():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    assert signal.getsignal(signal.SIGINT) is before
