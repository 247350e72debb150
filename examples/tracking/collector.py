"""A collector of OpenTelemetry spans on this machine, which prints what a command sends to it.

`python collector.py COMMAND …` runs a command with it. It stands in for Langfuse, Phoenix, Jaeger
or whatever else takes OTLP over HTTP.
"""

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SPANS: list[Any] = []


class Collector(BaseHTTPRequestHandler):
    """Takes spans; metrics are accepted, and dropped."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/traces":
            request = ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    SPANS.extend(scope.spans)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Print nothing."""


def tree(parent: bytes = b"", depth: int = 0) -> Iterator[str]:
    """The spans under one, each name once with its number."""
    children = sorted(
        (span for span in SPANS if span.parent_span_id == parent),
        key=lambda span: span.start_time_unix_nano,
    )
    counts = Counter(span.name for span in children)
    for span in children:
        if count := counts.pop(span.name, 0):
            yield f"{'  ' * depth}{span.name}" + (f"  × {count}" if count > 1 else "")
            yield from tree(span.span_id, depth + 1)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    environ = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": address}
    code = subprocess.run(sys.argv[1:], env=environ, check=False).returncode  # noqa: S603
    print("\n".join(tree()))  # noqa: T201
    sys.exit(code)
