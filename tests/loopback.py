"""An HTTP server on this machine that answers as a function says."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Answered = tuple[int, Mapping[str, str], bytes]
"""Status, headers and body."""


@contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler, bytes], Answered]) -> Generator[str]:
    """The address of the server; `answer` gets each request and its body."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, content = answer(self, body)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = _answer  # noqa: N815 - the names that http.server looks for

        def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - as inherited

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
