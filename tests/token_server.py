"""An OAuth authority on loopback: it gives a client tokens that a broker can verify."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.servers import HOST

_KEY_ID = "tests"


@dataclass(frozen=True)
class TokenAuthority:
    """A key that signs tokens, and the scopes of all requests."""

    scopes: list[str] = field(default_factory=list)
    _key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))

    def write_keys(self, path: Path) -> None:
        """Write the public key as brokers read it."""
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": _KEY_ID}
        key |= {"n": _encode_number(numbers.n), "e": _encode_number(numbers.e)}
        path.write_text(json.dumps({"keys": [key]}))

    def sign(self, subject: str) -> str:
        """Return a token that says who its bearer is, for five minutes."""
        now = int(time.time())
        parts = (
            {"alg": "RS256", "typ": "JWT", "kid": _KEY_ID},
            {"sub": subject, "iat": now, "exp": now + 300, "scope": "read"},
        )
        text = ".".join(_encode(json.dumps(part).encode()) for part in parts)
        signature = self._key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{_encode(signature)}"

    @contextmanager
    def serve(self, client: str, secret: str, subject: str) -> Iterator[str]:
        """Give tokens for a subject to one client; yield the address of the endpoint."""
        login = "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode()
        authority = self

        class Endpoint(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                is_known = self.headers["Authorization"] == login
                answer: dict[str, object] = {"error": "invalid_client"}
                if is_known:
                    authority.scopes.extend(parse_qs(body).get("scope", []))
                    token = authority.sign(subject)
                    answer = {"access_token": token, "token_type": "Bearer", "expires_in": 300}
                self.send_response(200 if is_known else 401)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer((HOST, 0), Endpoint) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield f"http://{HOST}:{server.server_address[1]}/token"
            finally:
                server.shutdown()
                thread.join()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _encode_number(number: int) -> str:
    return _encode(number.to_bytes((number.bit_length() + 7) // 8, "big"))
