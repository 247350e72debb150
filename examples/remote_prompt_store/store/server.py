"""A key-value store over HTTP: GET and PUT of /NAMESPACE/KEY, each namespace with its writers.

It stands for the configuration centre that you have. `sandbox` may be written with the token of
the optimiser; `production` may only be read with it: what goes there is approved by people.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

OPTIMISER = "optimiser"
WRITERS = {"sandbox": {OPTIMISER}, "production": {"people"}}


class Store(ThreadingHTTPServer):
    """What is kept, and how often each key was written."""

    daemon_threads = True

    def __init__(self, kept: dict[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.kept = dict(kept)
        self.writes = dict.fromkeys(kept, 0)
        self.lock = Lock()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Request(BaseHTTPRequestHandler):
    server: Store

    def do_GET(self) -> None:
        """The value of a key."""
        with self.server.lock:
            value = self.server.kept.get(self.path.strip("/"))
        self._answer(404, {}) if value is None else self._answer(200, {"value": value})

    def do_PUT(self) -> None:
        """A new value; the same one again is as good as once."""
        key = self.path.strip("/")
        told = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if self.headers.get("X-Token") not in WRITERS.get(key.partition("/")[0], ()):
            self._answer(403, {"error": f"this token may not write {key}"})
            return
        with self.server.lock:
            self.server.kept[key] = told["value"]
            self.server.writes[key] = self.server.writes.get(key, 0) + 1
        self._answer(200, {})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has there
        """Say nothing: the optimiser is what one watches here."""

    def _answer(self, status: int, told: dict[str, str]) -> None:
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving(kept: dict[str, str]) -> Generator[Store, None, None]:
    """A store that listens while entered."""
    with Store(kept) as store:
        thread = Thread(target=store.serve_forever, daemon=True)
        thread.start()
        try:
            yield store
        finally:
            store.shutdown()
            thread.join()
