"""moto's server, without what it does anew for every request.

moto lists the folder of its modules, matches the patterns of all services, and logs a line: a third
of its processor time.
"""

import logging
from functools import cache

from moto import backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.server import main


def make_quick() -> None:
    modules = frozenset(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: modules
    find = DomainDispatcherApplication.get_backend_for_host
    # One application serves a process.
    DomainDispatcherApplication.get_backend_for_host = cache(find)  # type: ignore[method-assign]
    logging.getLogger("werkzeug").setLevel(logging.WARNING)


if __name__ == "__main__":
    make_quick()
    main()
