"""Serving an embedded model to others, as an OpenAI-compatible endpoint."""

import ipaddress
import os
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.core.errors import ConfigError, Problem
from burnish.models.embedded.files import is_path, require_model
from burnish.models.embedded.server import EngineShape, Listening, start_server
from burnish.models.references import ModelRef

_STOPS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """What is served, and where."""

    model: ModelRef
    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free one."""
    key: str | None = field(default=None, repr=False)


def serve(
    endpoint: Endpoint,
    started: Callable[[str], None],
    leave: Callable[[int], None] = os._exit,  # pyright: ignore[reportPrivateUsage]
) -> None:
    """Answer until Ctrl-C or a SIGTERM, then end the process; `started` is told the address."""
    _require_local(endpoint.model)
    _require_safe(endpoint)
    path = require_model(endpoint.model.name)
    _require_free(endpoint)
    # Blocked before the engine's threads begin, so that none of them takes the signal.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        server = _start(endpoint, path)
        started(f"{server.listening_address}/v1")
        signal.sigwait(_STOPS)
        # The engine's own end waits for open answers that never come. It has nothing to save.
        leave(0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(endpoint: Endpoint, path: Path) -> Any:
    listening = Listening(host=endpoint.host, port=endpoint.port, key=endpoint.key)
    name = path.stem if is_path(endpoint.model.name) else endpoint.model.name
    return start_server(path, EngineShape(), listening, name)


def key_in(variable: str, environ: Mapping[str, str] | None = None) -> str:
    """The key that a variable holds."""
    value = (os.environ if environ is None else environ).get(variable, "").strip()
    if not value:
        raise _wrong(variable, "holds no key", f"set it: `export {variable}=…`")
    return value


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _require_local(model: ModelRef) -> None:
    if model.provider != "local":
        remedy = "only embedded models are served: local:smollm2 or local:FILE.gguf"
        raise _wrong(model.label, "runs elsewhere", remedy)


def _require_safe(endpoint: Endpoint) -> None:
    if endpoint.key is None and not is_loopback(endpoint.host):
        remedy = "give it a key with --api-key-env, or stay on 127.0.0.1"
        raise _wrong(f"--host {endpoint.host}", "others could use the model without a key", remedy)


def _require_free(endpoint: Endpoint) -> None:
    """The engine would not say why it cannot listen."""
    where = f"{endpoint.host}:{endpoint.port}"
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        message = f"cannot listen there: {(error.strerror or str(error)).lower()}"
        raise _wrong(where, message, "give another --port; 0 takes a free one") from error


def _wrong(where: str, message: str, remedy: str) -> ConfigError:
    return ConfigError([Problem(where=where, message=message, remedy=remedy)])
