"""How long the calls of catalogs wait, and sessions of HTTP that wait no longer."""

from typing import TYPE_CHECKING, Any

from ticdc_assets.catalogs.calls import require_time

if TYPE_CHECKING:
    from requests import PreparedRequest, Response, Session

CONNECT_SECONDS, READ_SECONDS = 3, 10
ATTEMPTS = 2
AT_ONCE = 8


def limit_calls(session: "Session") -> None:
    """Limit how long a call waits, and make it once more if it cannot connect or only reads."""
    from requests.adapters import HTTPAdapter
    from urllib3 import Retry

    send = session.send

    def send_in_time(request: "PreparedRequest", **options: Any) -> "Response":
        require_time()
        return send(request, **options | {"timeout": (CONNECT_SECONDS, READ_SECONDS)})

    session.send = send_in_time  # type: ignore[method-assign]
    retries = Retry(ATTEMPTS - 1, allowed_methods=("GET", "HEAD"))
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(pool_maxsize=AT_ONCE, max_retries=retries))
